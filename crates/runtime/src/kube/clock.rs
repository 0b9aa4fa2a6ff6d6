//! The API server's time, extrapolated between its replies.
//!
//! Each reply carries `Date` in whole seconds. Local time (monotonic, so it never jumps)
//! maps to server time by an offset, about which one reply says: the server's clock read
//! at least `Date` when the reply arrived, and less than `Date` + 1 s when the request was
//! sent. The offset is kept inside these bounds and moved no further than they demand, so
//! it settles within a fraction of a second, and follows when the server's clock is set.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Marks that no reply was seen.
const UNSET: i64 = i64::MIN;

/// Time as the API server has it. Cheap to clone and to read; clones share it.
#[derive(Clone, Debug)]
pub struct ServerClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    start: Instant,
    /// Local unix time at `start`, ms: used until the first reply.
    local_ms: i64,
    /// Server unix time at `start`, ms.
    offset_ms: AtomicI64,
}

impl ServerClock {
    /// A clock that runs on local time until the first reply.
    pub fn new() -> Self {
        let local = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX));
        Self(Arc::new(Inner {
            start: Instant::now(),
            local_ms: local,
            offset_ms: AtomicI64::new(UNSET),
        }))
    }

    /// The server's time, in seconds since 1970.
    pub fn now(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }

    /// The server's time, in milliseconds since 1970; good to about a second.
    pub fn now_ms(&self) -> i64 {
        let offset = match self.0.offset_ms.load(Ordering::Relaxed) {
            UNSET => self.0.local_ms,
            offset => offset,
        };
        offset.saturating_add(self.elapsed(Instant::now()))
    }

    /// Whether a reply was seen, so that this is the server's time and not our own.
    pub fn is_synced(&self) -> bool {
        self.0.offset_ms.load(Ordering::Relaxed) != UNSET
    }

    /// Takes in one reply: its `Date` in unix seconds, when the request was sent, and when
    /// the reply's head arrived.
    pub fn observe(&self, date: i64, sent: Instant, received: Instant) {
        let (sent, received) = (self.elapsed(sent), self.elapsed(received));
        // Never fails: the closure always returns a value.
        let _ = self
            .0
            .offset_ms
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                Some(adjust(old, date, sent, received))
            });
    }

    fn elapsed(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.0.start);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The offset after a reply, in ms; `sent` and `received` in ms of local time.
fn adjust(old: i64, date: i64, sent: i64, received: i64) -> i64 {
    let date = date.saturating_mul(1000);
    let lower = date.saturating_sub(received);
    let upper = date.saturating_add(999).saturating_sub(sent).max(lower);
    if old == UNSET {
        lower
    } else {
        old.clamp(lower, upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replies of a server whose clock is `true_offset` ms ahead of local time.
    fn replay(true_offset: i64, exchanges: &[(i64, i64, i64)]) -> i64 {
        exchanges
            .iter()
            .fold(UNSET, |old, &(sent, served, received)| {
                adjust(old, (true_offset + served).div_euclid(1000), sent, received)
            })
    }

    #[test]
    fn one_reply_is_within_a_second_and_its_round_trip() {
        for true_offset in [0, 1, 999, 1_000, 123_456_789] {
            let offset = replay(true_offset, &[(10_000, 10_020, 10_040)]);
            let error = true_offset - offset;
            assert!((0..=1_020).contains(&error), "{true_offset}: {error}");
        }
    }

    #[test]
    fn many_replies_settle_and_never_overshoot() {
        let exchanges: Vec<_> = (0..50)
            .map(|i| (i * 1_013, i * 1_013 + 5, i * 1_013 + 10))
            .collect();
        let error = 777_777 - replay(777_777, &exchanges);
        assert!((0..=50).contains(&error), "{error}");
    }

    #[test]
    fn follows_a_server_clock_that_is_set_back() {
        let before = replay(3_600_000, &[(0, 5, 10)]);
        let after = adjust(before, 20, 20_000, 20_010);
        assert!((-1_000..=1_000).contains(&after), "{after}");
    }

    #[test]
    fn runs_on_local_time_until_the_first_reply() {
        let clock = ServerClock::new();
        assert!(!clock.is_synced());
        assert!(clock.now() > 1_700_000_000);
        let at = Instant::now();
        clock.observe(1_000, at, at);
        assert!(clock.is_synced());
        assert!((1_000..1_010).contains(&clock.now()));
    }
}
