//! How many connections are open, in all and of each client address. Both are bounded.
//!
//! A count is taken back when its guard is dropped, which is wherever the connection goes: also with
//! a task that is aborted, and with a WebSocket that has left Pingora.

use nogoo9_runtime::client::Source;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts of the table, each with a lock of its own: taken twice in the life of a connection.
const SHARDS: usize = 64;

/// Why a connection is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// There are too many.
    Total,
    /// There are too many of this client.
    Client,
}

/// All open connections. Clones share the counts.
#[derive(Debug, Clone)]
pub struct Connections(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    most_each: usize,
    open: AtomicUsize,
    /// Holds only clients that have any open, so it is bounded by `most`.
    shards: [Mutex<HashMap<Source, usize>>; SHARDS],
    hasher: RandomState,
}

/// One connection that counts.
#[derive(Debug)]
pub struct Admitted {
    connections: Connections,
    client: Option<Source>,
}

impl Connections {
    /// None open, and at most so many in all and of each client; `None`: any number.
    #[must_use]
    pub fn new(most: Option<NonZeroUsize>, most_each: Option<NonZeroUsize>) -> Self {
        let bound = |most: Option<NonZeroUsize>| most.map_or(usize::MAX, NonZeroUsize::get);
        Self(Arc::new(Inner {
            most: bound(most),
            most_each: bound(most_each),
            open: AtomicUsize::new(0),
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
        }))
    }

    /// Open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// Clients that have any open and are counted one by one.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.0.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Takes a connection of somebody.
    ///
    /// # Errors
    /// There are too many.
    pub fn admit(&self) -> Result<Admitted, Full> {
        let before = self.0.open.fetch_add(1, Ordering::Relaxed);
        // Takes the count back, if that is one too many.
        let admitted = Admitted {
            connections: self.clone(),
            client: None,
        };
        if before >= self.0.most {
            return Err(Full::Total);
        }
        Ok(admitted)
    }

    fn shard(&self, client: Source) -> Option<MutexGuard<'_, HashMap<Source, usize>>> {
        let hash = self.0.hasher.hash_one(client);
        let nth = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        self.0.shards.get(nth).map(lock)
    }
}

fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admitted {
    /// Counts the connection as this client's from now on.
    ///
    /// # Errors
    /// The client has too many.
    pub fn is_of(&mut self, client: IpAddr) -> Result<(), Full> {
        self.forget();
        let client = Source::from(client);
        let Some(mut shard) = self.connections.shard(client) else {
            return Ok(());
        };
        let open = shard.entry(client).or_insert(0);
        if *open >= self.connections.0.most_each {
            return Err(Full::Client);
        }
        *open += 1;
        drop(shard);
        self.client = Some(client);
        Ok(())
    }

    fn forget(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        let Some(mut shard) = self.connections.shard(client) else {
            return;
        };
        if let Entry::Occupied(mut open) = shard.entry(client) {
            *open.get_mut() = open.get().saturating_sub(1);
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.forget();
        self.connections.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connections(most: usize, each: usize) -> Connections {
        Connections::new(NonZeroUsize::new(most), NonZeroUsize::new(each))
    }

    fn of(connections: &Connections, client: &str) -> Result<Admitted, Full> {
        let mut admitted = connections.admit()?;
        admitted.is_of(client.parse().unwrap())?;
        Ok(admitted)
    }

    #[test]
    fn each_client_has_its_bound_and_all_have_one() {
        let all = connections(4, 2);
        let first = of(&all, "192.0.2.1").unwrap();
        let second = of(&all, "::ffff:192.0.2.1").unwrap();
        assert_eq!(of(&all, "192.0.2.1").unwrap_err(), Full::Client);
        assert_eq!((all.open(), all.clients()), (2, 1));
        let third = of(&all, "192.0.2.2").unwrap();
        // A proxy in front, which stands for many.
        let fourth = all.admit().unwrap();
        assert_eq!(of(&all, "192.0.2.3").unwrap_err(), Full::Total);
        drop(first);
        let again = of(&all, "192.0.2.1").unwrap();
        assert_eq!((all.open(), all.clients()), (4, 2));
        drop((second, third, fourth, again));
        assert_eq!((all.open(), all.clients()), (0, 0));
    }

    #[test]
    fn an_ipv6_host_is_its_network() {
        let all = connections(0, 1);
        let _one = of(&all, "2001:db8:0:1::1").unwrap();
        assert_eq!(of(&all, "2001:db8:0:1:ffff::2").unwrap_err(), Full::Client);
        let _other = of(&all, "2001:db8:0:2::1").unwrap();
        assert_eq!(all.clients(), 2);
    }

    #[test]
    fn zero_is_any_number() {
        let all = connections(0, 0);
        let open: Vec<_> = (0..1000).map(|_| of(&all, "192.0.2.1").unwrap()).collect();
        assert_eq!(all.open(), open.len());
    }

    #[test]
    fn a_connection_that_turns_out_to_be_anothers_counts_there_alone() {
        let all = connections(0, 1);
        let mut admitted = of(&all, "192.0.2.1").unwrap();
        admitted.is_of("192.0.2.2".parse().unwrap()).unwrap();
        let _first = of(&all, "192.0.2.1").unwrap();
        assert_eq!(of(&all, "192.0.2.2").unwrap_err(), Full::Client);
    }
}
