//! Whether a quota may refuse the next pod of a bulk: then its upgrades begin one after the other, each
//! once the pod of the one before is there. A quota speaks the truth about a pod only once those before
//! it are counted.

use crate::cluster::Cluster;

/// Seconds for which it counts what was read of quotas.
const READ_COUNTS: i64 = 60;

/// What a driver knows of quotas.
#[derive(Default)]
pub(super) struct Quota {
    /// Whether one had no room once.
    tight: bool,
    /// Whether there is one that limits pods, and until when that counts.
    read: Option<(bool, i64)>,
}

impl Quota {
    /// One had no room.
    pub(super) fn was_tight(&mut self) {
        self.tight = true;
    }

    /// Whether one had no room once.
    pub(super) fn is_tight(&self) -> bool {
        self.tight
    }

    /// Whether one may refuse a pod: there is one that limits pods, or nobody can tell.
    pub(super) async fn may_refuse(&mut self, cluster: &Cluster, now: i64) -> bool {
        if self.tight {
            return true;
        }
        if let Some((limits, until)) = self.read
            && now < until
        {
            return limits;
        }
        let limits = cluster.quota_limits_pods().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "quotas cannot be read; upgrades of a bulk begin one after the other");
            true
        });
        self.read = Some((limits, now.saturating_add(READ_COUNTS)));
        limits
    }
}
