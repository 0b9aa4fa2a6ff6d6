//! What one candidate knows of an election, and what follows from it. Pure: it is told what time it
//! is, by a clock of this machine that never jumps.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use std::time::{Duration, Instant};

/// So long a Lease that nobody renews keeps others away.
const DURATION: Duration = Duration::from_secs(10);
/// The longest that another one's Lease is believed to be good for.
const MOST: Duration = Duration::from_secs(60);
/// So long its holder works without having renewed it.
const RENEW_DEADLINE: Duration = Duration::from_secs(7);
/// Time between two looks at the Lease.
pub(super) const RETRY: Duration = Duration::from_secs(2);
/// Longest time for one look.
const LOOK: Duration = Duration::from_secs(3);

/// One candidate.
#[derive(Debug)]
pub(super) struct Tenure {
    instance: String,
    /// When the newest renewal that succeeded was begun. None: it does not lead.
    renewed: Option<Instant>,
    /// Somebody else's Lease: its version, and since when it has been that.
    seen: Option<(String, Instant)>,
}

impl Tenure {
    pub(super) fn new(instance: String) -> Self {
        Self {
            instance,
            renewed: None,
            seen: None,
        }
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    pub(super) fn leads(&self) -> bool {
        self.renewed.is_some()
    }

    /// When a look that begins now has failed. Whoever leads knows in time that it does not any more.
    pub(super) fn give_up(&self, begun: Instant) -> Instant {
        let look = begun + LOOK;
        self.renewed
            .map_or(look, |renewed| look.min(renewed + RENEW_DEADLINE))
    }

    /// The Lease to write in place of the one that was read, if it may be taken; `clock` is the time
    /// to write into it.
    pub(super) fn take(
        &mut self,
        read: Option<Lease>,
        now: Instant,
        clock: Option<MicroTime>,
    ) -> Option<Lease> {
        let holder = read
            .as_ref()
            .and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref())
            .filter(|holder| !holder.is_empty());
        let free = match (holder, &read) {
            (Some(holder), Some(lease)) => holder == self.instance || self.is_over(lease, now),
            _ => true,
        };
        free.then(|| self.ours(read, clock))
    }

    /// The Lease is another one's.
    pub(super) fn another_leads(&mut self) {
        self.renewed = None;
    }

    /// The Lease was taken or renewed by a look that began then.
    pub(super) fn renewed(&mut self, begun: Instant) {
        self.renewed = Some(begun);
        self.seen = None;
    }

    /// A look came to nothing.
    pub(super) fn failed(&mut self, now: Instant) {
        let over = |renewed: Instant| now >= renewed + RENEW_DEADLINE;
        if self.renewed.is_some_and(over) {
            self.renewed = None;
        }
    }

    /// The Lease, let go of, if it is ours.
    pub(super) fn release(&mut self, read: Option<Lease>) -> Option<Lease> {
        self.renewed = None;
        let mut lease = read?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() != Some(&self.instance) {
            return None;
        }
        spec.holder_identity = None;
        Some(lease)
    }

    /// Whether another one's Lease has not changed for as long as it is good for.
    fn is_over(&mut self, lease: &Lease, now: Instant) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == version => {
                let good = lease
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.lease_duration_seconds);
                let good = good.and_then(|seconds| u64::try_from(seconds).ok());
                let good = good.map_or(DURATION, Duration::from_secs);
                now.saturating_duration_since(*since) >= good.clamp(DURATION, MOST)
            }
            _ => {
                self.seen = Some((version, now));
                false
            }
        }
    }

    fn ours(&self, read: Option<Lease>, clock: Option<MicroTime>) -> Lease {
        let Lease { metadata, spec } = read.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(super::NAME.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let before = spec.unwrap_or_default();
        let same = before.holder_identity.as_ref() == Some(&self.instance);
        let terms = before.lease_transitions.unwrap_or(0);
        let (acquire_time, terms) = if same {
            (before.acquire_time.clone(), terms)
        } else {
            (clock.clone(), terms.saturating_add(1))
        };
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.instance.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time,
                renew_time: clock,
                lease_transitions: Some(terms),
                ..before
            }),
        }
    }
}

#[cfg(test)]
mod tests;
