//! How many credentials that do not count one client may send: a token bucket for each address, in a
//! bounded table. `now` is an argument.
//!
//! Only failures are counted, and only a failure is ever limited: whoever sends what counts never
//! comes here, whatever others at the same address do. So good requests take no lock, and nobody can
//! lock out their neighbours.
//!
//! Where only somebody else can tell whether a credential counts, the API server or the identity
//! provider, they are asked before it can be a failure. From an address with many failures they are
//! asked one after the other ([`Failures::place`]): so a flood does not go through to them, and who has
//! what counts there is slower, not refused.

use crate::client::Source;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Addresses remembered in all; some 2 MiB.
const MOST: usize = 65_536;
/// Questions at once that are asked of others for all addresses from which much fails.
const PLACES: usize = 2;
/// How long such a question waits in its place before it is asked: there are twenty a second at most.
const PAUSE: Duration = Duration::from_millis(100);
/// One minute, in microseconds.
const MINUTE: u64 = 60_000_000;

/// Too many failures from one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many failures from this address; the next one is heard in {seconds} s")]
pub struct TooMany {
    /// Whole seconds until the next failure is answered as such: `Retry-After`. Never 0.
    pub seconds: u64,
}

/// The failures of all clients.
///
/// An address that is forgotten to make room for another one is the one that has recovered most: it
/// gets back what it would have got soon anyway.
#[derive(Debug)]
pub struct Failures {
    began: Instant,
    /// Microseconds for which one failure counts.
    each: u64,
    /// What may be owed at most before a failure, so that it is still heard, in microseconds.
    slack: u64,
    /// Addresses of one shard.
    room: usize,
    shards: Vec<Mutex<HashMap<Source, u64>>>,
    hasher: RandomState,
    counted: Counted,
    places: Semaphore,
}

/// Failures by kind and outcome. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Counted(Family<Labels, Counter>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    kind: &'static str,
    limited: &'static str,
}

impl Counted {
    /// Counts that `registry` shows.
    pub fn register(registry: &mut Registry) -> Self {
        let counted = Self::default();
        registry.register(
            "nogoo9_auth_failures",
            "Credentials that did not count and failed sign-ins, by kind, and whether the answer was 429",
            counted.0.clone(),
        );
        counted
    }

    fn count(&self, kind: &'static str, limited: bool) {
        let limited = if limited { "true" } else { "false" };
        self.0.get_or_create(&Labels { kind, limited }).inc();
    }
}

impl Failures {
    /// So many a minute for each address, and as many at once.
    #[must_use]
    pub fn per_minute(most: NonZeroU32, counted: Counted) -> Self {
        Self {
            counted,
            ..Self::sized(most, SHARDS, MOST / SHARDS)
        }
    }

    fn sized(most: NonZeroU32, shards: usize, room: usize) -> Self {
        let most = u64::from(most.get());
        let each = (MINUTE / most).max(1);
        Self {
            began: Instant::now(),
            each,
            slack: each.saturating_mul(most - 1),
            room,
            shards: (0..shards.max(1)).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            counted: Counted::default(),
            places: Semaphore::new(PLACES),
        }
    }

    /// Notes a failure of that `kind`, a word of a closed set, by the client at `address`.
    ///
    /// # Errors
    /// There were too many: answer with 429.
    pub fn failed(&self, address: IpAddr, kind: &'static str, now: Instant) -> Result<(), TooMany> {
        let verdict = self.note(address.into(), now);
        self.counted.count(kind, verdict.is_err());
        verdict
    }

    /// To be awaited, for some time, before somebody else is asked whether a credential from `address`
    /// counts, and to be kept meanwhile. There is no waiting and no place to keep, unless much failed
    /// there of late: more than half of what is heard in a minute.
    pub async fn place(&self, address: Option<IpAddr>) -> Option<SemaphorePermit<'_>> {
        if !self.is_suspect(address?, Instant::now()) {
            return None;
        }
        let place = self.places.acquire().await.ok()?;
        tokio::time::sleep(PAUSE).await;
        Some(place)
    }

    fn is_suspect(&self, address: IpAddr, now: Instant) -> bool {
        let (source, now) = (Source::from(address), self.micros(now));
        self.shard(source).is_some_and(|shard| {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let full_at = shard.get(&source).copied().unwrap_or(0);
            full_at.saturating_sub(now) > self.slack / 2
        })
    }

    /// Addresses that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        let lock = |shard: &Mutex<HashMap<_, _>>| {
            shard.lock().unwrap_or_else(PoisonError::into_inner).len()
        };
        self.shards.iter().map(lock).sum()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn micros(&self, now: Instant) -> u64 {
        let now = now.saturating_duration_since(self.began).as_micros();
        u64::try_from(now).unwrap_or(u64::MAX)
    }

    fn shard(&self, source: Source) -> Option<&Mutex<HashMap<Source, u64>>> {
        let count = u64::try_from(self.shards.len()).unwrap_or(1);
        let nth = self.hasher.hash_one(source).checked_rem(count).unwrap_or(0);
        self.shards.get(usize::try_from(nth).unwrap_or(0))
    }

    /// A bucket is kept as the moment at which it will be full again (the generic cell rate
    /// algorithm): each failure that is heard moves it on by what one costs.
    fn note(&self, source: Source, now: Instant) -> Result<(), TooMany> {
        let now = self.micros(now);
        let Some(shard) = self.shard(source) else {
            return Ok(());
        };
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at = shard.get(&source).copied().unwrap_or(0).max(now);
        let owed = full_at - now;
        if let Some(wait) = owed.checked_sub(self.slack).filter(|wait| *wait > 0) {
            return Err(TooMany {
                seconds: wait.div_ceil(1_000_000),
            });
        }
        if shard.len() >= self.room && !shard.contains_key(&source) {
            make_room(&mut shard, self.room, now);
        }
        shard.insert(source, full_at.saturating_add(self.each));
        Ok(())
    }
}

/// Forgets who has recovered, which changes nothing for them; failing that, who is next to it.
fn make_room(shard: &mut HashMap<Source, u64>, room: usize, now: u64) {
    shard.retain(|_, full_at| *full_at > now);
    if shard.len() < room {
        return;
    }
    let next = shard.iter().min_by_key(|(_, full_at)| **full_at);
    if let Some(next) = next.map(|(source, _)| *source) {
        shard.remove(&next);
    }
}

#[cfg(test)]
mod tests;
