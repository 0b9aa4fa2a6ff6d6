//! Where the other proxies are: names, each with any number of addresses, looked up while they matter.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How often names are looked up at most.
const LOOK_UP_EVERY: Duration = Duration::from_secs(5);
/// Longest wait for a name server, by whichever request finds that it is time.
const LOOK_UP: Duration = Duration::from_millis(500);
/// Most addresses: more proxies than anybody runs.
const MOST: usize = 64;

#[derive(Debug)]
pub(super) struct Names {
    names: Vec<String>,
    own: SocketAddr,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    at: Option<Instant>,
    all: Arc<[SocketAddr]>,
}

impl Names {
    /// `own`: where this proxy's admin listener is.
    pub(super) fn new(names: Vec<String>, own: SocketAddr) -> Self {
        Self {
            names,
            own,
            found: Mutex::default(),
        }
    }

    /// The addresses of the others. What was known stays while a name cannot be looked up.
    pub(super) async fn addresses(&self) -> Arc<[SocketAddr]> {
        let mut found = self.found.lock().await;
        let due = |at: Instant| at.elapsed() >= LOOK_UP_EVERY;
        if !found.at.is_none_or(due) {
            return found.all.clone();
        }
        let mut all = BTreeSet::new();
        let looking = async {
            for name in &self.names {
                all.extend(tokio::net::lookup_host(name).await?);
            }
            std::io::Result::Ok(())
        };
        match tokio::time::timeout(LOOK_UP, looking).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "the other proxies' names cannot be looked up");
                all.extend(found.all.iter());
            }
            Err(_) => {
                tracing::warn!("the other proxies' names are not looked up in time");
                all.extend(found.all.iter());
            }
        }
        let others = all.into_iter().filter(|at| !is_own(self.own, *at, source));
        found.all = others.take(MOST).collect();
        found.at = Some(Instant::now());
        found.all.clone()
    }
}

/// Whether `address` is that of who listens at `own`, which may stand for all addresses of this host.
fn is_own(
    own: SocketAddr,
    address: SocketAddr,
    source: impl Fn(SocketAddr) -> Option<IpAddr>,
) -> bool {
    let ip = own.ip();
    own.port() == address.port()
        && (ip == address.ip() || (ip.is_unspecified() && source(address) == Some(address.ip())))
}

/// The address from which this host sends to `to`: its own, if that is its own. Nothing is sent.
fn source(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_address_is_known() {
        let here: IpAddr = "192.0.2.1".parse().unwrap();
        for (own, address, wanted) in [
            ("192.0.2.1:9019", "192.0.2.1:9019", true),
            ("192.0.2.1:9019", "192.0.2.2:9019", false),
            ("192.0.2.1:9019", "192.0.2.1:9018", false),
            ("0.0.0.0:9019", "192.0.2.1:9019", true),
            ("[::]:9019", "192.0.2.1:9019", true),
            ("0.0.0.0:9019", "192.0.2.2:9019", false),
            ("0.0.0.0:9019", "192.0.2.1:9018", false),
        ] {
            let (own, address) = (own.parse().unwrap(), address.parse().unwrap());
            assert_eq!(
                is_own(own, address, |_| Some(here)),
                wanted,
                "{own} {address}"
            );
        }
    }

    #[tokio::test]
    async fn names_stand_for_all_their_addresses_but_its_own() {
        let names = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:2"];
        let names = names.map(ToOwned::to_owned).to_vec();
        let own = "0.0.0.0:1".parse().unwrap();
        let found = Names::new(names, own).addresses().await;
        assert_eq!(*found, ["127.0.0.1:2".parse().unwrap()]);
        let bad = Names::new(vec!["nobody.invalid:1".to_owned()], own);
        assert!(bad.addresses().await.is_empty());
    }
}
