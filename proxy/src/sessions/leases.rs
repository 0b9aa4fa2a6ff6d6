//! Pods that are kept a little longer than anything of ours is open on them, since another proxy was
//! told that something is, and is about to send a request there: see the module [`crate::peers`]. Pure.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a pod is kept: longer than the other proxy goes by what it was told
/// ([`crate::peers::word::KEPT`]), and beyond that longer than control takes to hear all proxies (2 s).
pub const LEASE: Duration = Duration::from_secs(5);

/// Leases by workspace and pod, with their ends.
#[derive(Debug, Default)]
pub(super) struct Leases(HashMap<Arc<str>, HashMap<Arc<str>, Instant>>);

impl Leases {
    /// Keeps these pods of a workspace from `now` on.
    pub(super) fn enter(&mut self, workspace: &str, pods: &[Arc<str>], now: Instant) {
        self.0.retain(|_, pods| {
            pods.retain(|_, end| now < *end);
            !pods.is_empty()
        });
        if pods.is_empty() {
            return;
        }
        let kept = self.0.entry(Arc::from(workspace)).or_default();
        kept.extend(pods.iter().map(|pod| (pod.clone(), now + LEASE)));
    }

    /// The pods of a workspace that are kept.
    pub(super) fn of(&self, workspace: &str, now: Instant) -> impl Iterator<Item = &Arc<str>> {
        let pods = self.0.get(workspace).into_iter().flatten();
        pods.filter(move |(_, end)| now < **end).map(|(pod, _)| pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_and_leaves_nothing_behind() {
        let mut leases = Leases::default();
        let (start, old) = (Instant::now(), Arc::<str>::from("old"));
        let kept = |leases: &Leases, id, after| {
            let pods = leases.of(id, start + after);
            pods.map(ToString::to_string).collect::<Vec<_>>()
        };
        let moment = Duration::from_millis(1);
        leases.enter("dev", std::slice::from_ref(&old), start);
        assert_eq!(kept(&leases, "dev", LEASE - moment), ["old"]);
        assert!(kept(&leases, "other", Duration::ZERO).is_empty());
        assert!(kept(&leases, "dev", LEASE).is_empty());
        // Entered once more, it is kept for longer.
        leases.enter("dev", &[old], start + LEASE - moment);
        assert_eq!(kept(&leases, "dev", LEASE), ["old"]);
        leases.enter("other", &[], start + 2 * LEASE);
        assert!(leases.0.is_empty());
    }
}
