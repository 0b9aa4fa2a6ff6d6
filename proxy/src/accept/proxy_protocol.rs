//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`, 2020/03/05). Pure.
//!
//! What it says besides the client's address (the destination, TLVs) is passed over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Longest header of version 1, with its end (section 2.1).
const V1_MOST: usize = 107;
/// Longest header of version 2 that is taken. Balancers send a few hundred bytes.
const V2_MOST: usize = 4096;
/// What version 2 begins with (section 2.2).
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 in front of the addresses.
const FIXED: usize = 16;
/// What version 1 begins with.
const V1: &[u8; 6] = b"PROXY ";

/// Most bytes of any header.
pub const MOST: usize = V2_MOST;

/// A header, or the beginning of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// It goes on.
    More,
    /// It is whole.
    Whole {
        /// Its bytes; what follows is the client's.
        length: usize,
        /// The client; `None`: the connection is the balancer's own (`LOCAL`), or it does not say
        /// (`UNKNOWN`, a Unix socket).
        client: Option<SocketAddr>,
    },
}

/// Bytes that are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no header of the PROXY protocol, version 1 or 2")]
pub struct Malformed;

/// Reads the header that `bytes` begin with.
///
/// # Errors
/// They begin with none.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    if begins(bytes, SIGNATURE) {
        v2(bytes)
    } else if begins(bytes, V1) {
        v1(bytes)
    } else {
        Err(Malformed)
    }
}

/// Whether `bytes` begin with `start`, or are its beginning.
fn begins(bytes: &[u8], start: &[u8]) -> bool {
    let common = bytes.len().min(start.len());
    bytes.get(..common) == start.get(..common)
}

fn v1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let within = bytes.get(..bytes.len().min(V1_MOST)).unwrap_or_default();
    let Some(end) = within.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() < V1_MOST {
            Ok(Parsed::More)
        } else {
            Err(Malformed)
        };
    };
    let line = within.get(V1.len()..end).ok_or(Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| Malformed)?;
    let mut words = line.split(' ');
    let client = match words.next() {
        // Whatever follows is not to be looked at.
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => {
            let mut address = || ip(family, words.next()?);
            let (source, _) = (address().ok_or(Malformed)?, address().ok_or(Malformed)?);
            let mut port = || port(words.next()?);
            let (source_port, _) = (port().ok_or(Malformed)?, port().ok_or(Malformed)?);
            if words.next().is_some() {
                return Err(Malformed);
            }
            Some(SocketAddr::new(source, source_port))
        }
        _ => return Err(Malformed),
    };
    Ok(Parsed::Whole {
        length: end + 2,
        client,
    })
}

fn ip(family: &str, text: &str) -> Option<IpAddr> {
    if family == "TCP4" {
        text.parse().ok().map(IpAddr::V4)
    } else {
        text.parse().ok().map(IpAddr::V6)
    }
}

fn port(text: &str) -> Option<u16> {
    // Not what `parse` takes besides: a sign, and more zeros than one.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let zeros = text.len() > 1 && text.starts_with('0');
    if plain && !zeros {
        text.parse().ok()
    } else {
        None
    }
}

fn v2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
        return Ok(Parsed::More);
    };
    let &[.., command, family, high, low] = fixed else {
        return Err(Malformed);
    };
    if command >> 4 != 2 {
        return Err(Malformed);
    }
    let said = usize::from(u16::from_be_bytes([high, low]));
    let length = FIXED + said;
    if length > V2_MOST {
        return Err(Malformed);
    }
    let Some(said) = rest.get(..said) else {
        return Ok(Parsed::More);
    };
    let client = match (command & 0xf, family) {
        (0, _) => None,
        (1, 0x11) => Some(v4(said).ok_or(Malformed)?),
        (1, 0x21) => Some(v6(said).ok_or(Malformed)?),
        // Unspecified, datagrams and Unix sockets: somebody, who has no address here.
        (1, 0x00 | 0x12 | 0x22 | 0x31 | 0x32) => None,
        _ => return Err(Malformed),
    };
    Ok(Parsed::Whole { length, client })
}

fn v4(said: &[u8]) -> Option<SocketAddr> {
    let addresses: &[u8; 12] = said.first_chunk()?;
    let [a, b, c, d, _, _, _, _, high, low, _, _] = *addresses;
    let port = u16::from_be_bytes([high, low]);
    Some(SocketAddr::from((Ipv4Addr::new(a, b, c, d), port)))
}

fn v6(said: &[u8]) -> Option<SocketAddr> {
    let addresses: &[u8; 36] = said.first_chunk()?;
    let source: [u8; 16] = *addresses.first_chunk()?;
    let port = u16::from_be_bytes([*addresses.get(32)?, *addresses.get(33)?]);
    Some(SocketAddr::from((Ipv6Addr::from(source), port)))
}

#[cfg(test)]
mod tests;
