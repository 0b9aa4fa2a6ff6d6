//! Where a request comes from: the address of the peer, or, behind proxies that are trusted, the one
//! that they say. Pure.
//!
//! A client may write into `X-Forwarded-For` and `Forwarded` whatever it likes, and proxies append to
//! it. So both are read from the right, where the nearest proxy wrote, and only for as long as the
//! one who wrote is trusted: the first address that is not a trusted proxy's is the client's. What
//! stands left of it is the client's own word.

use http::{HeaderMap, HeaderName, header::FORWARDED};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Proxies in a row that are believed; nobody has as many.
const MAX_HOPS: usize = 32;

/// A network, as in `10.0.0.0/8`; a single address is one of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network; use ADDRESS/LENGTH, as in 10.0.0.0/8 or fd00::/8, or one address")]
pub struct NotANetwork(String);

impl Network {
    /// Whether `address` is in it. An IPv4 address that is written as an IPv6 one counts as itself.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let all = |bits: u8| u32::from(bits - self.length);
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(all(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differs = own.to_bits() ^ other.to_bits();
                differs.checked_shr(all(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let wrong = || NotANetwork(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let length: u8 = match length {
            // Not what `parse` takes besides: a sign.
            Some(length) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
            None => bits,
        };
        if length > bits {
            return Err(wrong());
        }
        match address.to_canonical() {
            // Mapped, so what the length counts are 96 bits of nothing and then its own.
            IpAddr::V4(mapped) if address.is_ipv6() => match length.checked_sub(96) {
                Some(length) => Ok(Self {
                    address: IpAddr::V4(mapped),
                    length,
                }),
                None => Err(wrong()),
            },
            address => Ok(Self { address, length }),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// The proxies whose word counts (`--trusted-proxies`). None by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Those in these networks.
    #[must_use]
    pub fn new(networks: Vec<Network>) -> Self {
        Self(networks)
    }

    /// Whether what this peer says of others counts.
    #[must_use]
    pub fn trust(&self, peer: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(peer))
    }

    /// The client of a request that came from `peer` with these headers.
    ///
    /// `X-Forwarded-For` is read where it is there, else `Forwarded` (RFC 7239): who writes one must
    /// not let the client's other one through. A hop that cannot be read ends the reading, at the
    /// proxy that wrote it.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trust(peer) {
            return peer;
        }
        let mut hops: Vec<Option<IpAddr>> = Vec::new();
        if headers.contains_key(X_FORWARDED_FOR) {
            for line in headers.get_all(X_FORWARDED_FOR) {
                match line.to_str() {
                    Ok(line) => hops.extend(line.split(',').filter_map(listed)),
                    Err(_) => hops.push(None),
                }
            }
        } else {
            for line in headers.get_all(FORWARDED) {
                match line.to_str() {
                    Ok(line) => hops.extend(forwarded(line)),
                    Err(_) => hops.push(None),
                }
            }
        }
        let mut client = peer;
        for hop in hops.into_iter().rev().take(MAX_HOPS) {
            match hop {
                Some(said) if self.trust(client) => client = said,
                _ => return client,
            }
        }
        client
    }
}

/// One entry of `X-Forwarded-For`; `None`: an empty one, which lists may have (RFC 9110, section
/// 5.6.1).
#[allow(
    clippy::option_option,
    reason = "an empty entry and one that cannot be read are two things"
)]
fn listed(entry: &str) -> Option<Option<IpAddr>> {
    let entry = entry.trim();
    (!entry.is_empty()).then(|| address(entry))
}

/// An address, as proxies write it: with or without a port, an IPv6 one with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    let plain = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    plain
        .parse()
        .ok()
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .map(|address: IpAddr| address.to_canonical())
}

/// The `for` of each element of a `Forwarded` header, in order. A line whose quotes do not match is one
/// that cannot be read: what a client has opened would swallow what the proxy has appended.
fn forwarded(line: &str) -> Vec<Option<IpAddr>> {
    let Some(elements) = split(line, ',') else {
        return vec![None];
    };
    let elements = elements.into_iter();
    let elements = elements.filter(|element| !element.trim().is_empty());
    elements.map(said_for).collect()
}

fn said_for(element: &str) -> Option<IpAddr> {
    let mut said = None;
    for pair in split(element, ';')? {
        let (name, value) = pair.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("for") && said.replace(value.trim()).is_some() {
            // Twice in one element: nobody can say which.
            return None;
        }
    }
    let value = said?;
    let quoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    address(quoted.unwrap_or(value))
}

/// Splits at what is not inside of quotes; `None`: they do not match.
fn split(text: &str, at: char) -> Option<Vec<&str>> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = text
        .split(|c: char| {
            let inside = quoted;
            if escaped {
                escaped = false;
            } else if c == '"' {
                quoted = !quoted;
            } else if c == '\\' && quoted {
                escaped = true;
            }
            c == at && !inside
        })
        .collect();
    (!quoted).then_some(parts)
}

/// What is counted as one client: an IPv4 address, or the /64 that an IPv6 host has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An IPv4 address.
    V4(u32),
    /// The first half of an IPv6 address.
    V6(u64),
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => {
                let half = address.to_bits() >> 64;
                Self::V6(u64::try_from(half).unwrap_or(u64::MAX))
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(bits) => Ipv4Addr::from_bits(*bits).fmt(f),
            Self::V6(half) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*half) << 64)),
        }
    }
}

#[cfg(test)]
mod tests;
