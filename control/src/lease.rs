//! Who reconciles: a Lease elects one control of several, so that not all of them do everything.
//!
//! It is an economy and no lock: correctness comes from conditional writes, whoever leads. Every
//! write of the Lease states the version that was read, so two never hold it by accident. A holder
//! counts as gone once its Lease has stayed as it is for the whole duration by our own monotonic
//! clock: clocks of other machines play no part. Who cannot renew in time stops before that.

use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use prometheus_client::metrics::gauge::Gauge;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// Name of the Lease, in control's own namespace.
pub const NAME: &str = "nogoo9-control";
/// So long a Lease that nobody renews keeps others away.
const DURATION: Duration = Duration::from_secs(10);
/// The longest that another one's Lease is believed to be good for.
const MOST: Duration = Duration::from_secs(60);
/// So long its holder works without having renewed it.
const RENEW_DEADLINE: Duration = Duration::from_secs(7);
/// Time between two looks at the Lease.
const RETRY: Duration = Duration::from_secs(2);
/// Longest time for one look.
const LOOK: Duration = Duration::from_secs(3);

/// Whether this control leads. Clones share it.
#[derive(Debug, Clone)]
pub struct Leadership(watch::Receiver<bool>);

impl Leadership {
    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves once it leads; never, if nobody stands for election any more.
    pub async fn gained(&mut self) {
        if self.0.wait_for(|leads| *leads).await.is_err() {
            std::future::pending().await
        }
    }

    /// Resolves once it does not lead.
    pub async fn lost(&mut self) {
        // Without an election nobody renews anything.
        let _ended = self.0.wait_for(|leads| !leads).await;
    }

    /// Does `work` whenever this control leads, until it is told to stop. When leadership is lost
    /// the work is dropped wherever it is; when it is told to stop it may end by itself.
    pub async fn while_leading<W>(
        mut self,
        stop: CancellationToken,
        work: impl Fn(CancellationToken) -> W,
    ) where
        W: Future<Output = ()>,
    {
        loop {
            tokio::select! {
                () = self.gained() => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = work(stop.clone()) => return,
                () = self.lost() => {}
            }
        }
    }
}

/// Stands for election. To be ended by [`Self::resign`].
#[derive(Debug)]
pub struct Election {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Election {
    /// Stands for election under a name that no other control has; `gauge` shows 1 while it leads.
    #[must_use]
    pub fn start(cluster: Cluster, instance: String, gauge: Gauge) -> (Self, Leadership) {
        let (leads, leadership) = watch::channel(false);
        let stop = CancellationToken::new();
        let candidate = Candidate {
            cluster,
            instance,
            gauge,
            leads,
            renewed: None,
            seen: None,
        };
        let task = tokio::spawn(candidate.run(stop.clone()));
        (Self { stop, task }, Leadership(leadership))
    }

    /// Stops leading and lets another one lead at once.
    pub async fn resign(self) {
        self.stop.cancel();
        let _ended = self.task.await;
    }
}

struct Candidate {
    cluster: Cluster,
    instance: String,
    gauge: Gauge,
    leads: watch::Sender<bool>,
    /// When the newest renewal that succeeded was begun.
    renewed: Option<Instant>,
    /// Somebody else's Lease: its version, and since when it has been that.
    seen: Option<(String, Instant)>,
}

impl Candidate {
    async fn run(mut self, stop: CancellationToken) {
        loop {
            let begun = Instant::now();
            tokio::select! {
                () = self.look(begun) => {}
                () = stop.cancelled() => break,
            }
            tokio::select! {
                () = sleep_until(begun + RETRY) => {}
                () = stop.cancelled() => break,
            }
        }
        self.release().await;
    }

    /// Takes, renews or only reads the Lease.
    async fn look(&mut self, begun: Instant) {
        // Whoever leads must know in time that it does not any more.
        let until = self.renewed.map_or(begun + LOOK, |renewed| {
            (renewed + RENEW_DEADLINE).min(begun + LOOK)
        });
        match timeout_at(until, self.attempt(begun)).await {
            Ok(Ok(true)) => {
                self.renewed = Some(begun);
                self.seen = None;
                self.set(true);
            }
            Ok(Ok(false)) => {
                self.renewed = None;
                self.set(false);
            }
            failed => {
                match failed {
                    // Another one was first, or somebody has edited it: the next look tells.
                    Ok(Err(
                        error @ (ClusterError::Conflict { .. } | ClusterError::Exists { .. }),
                    )) => {
                        tracing::debug!(%error, "the Lease has changed");
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the Lease cannot be read or renewed; trying again");
                    }
                    _ => tracing::warn!(
                        "the API server does not answer about the Lease; trying again"
                    ),
                }
                let expired = |renewed: Instant| renewed.elapsed() >= RENEW_DEADLINE;
                if self.renewed.is_none_or(expired) {
                    self.renewed = None;
                    self.set(false);
                }
            }
        }
    }

    /// Whether the Lease is ours now.
    async fn attempt(&mut self, begun: Instant) -> Result<bool, ClusterError> {
        let Some(lease) = self.cluster.lease(NAME).await? else {
            self.cluster.create_lease(&self.ours(None)).await?;
            return Ok(true);
        };
        let spec = lease.spec.as_ref();
        let holder = spec.and_then(|spec| spec.holder_identity.as_deref());
        let free = match holder {
            None | Some("") => true,
            Some(holder) if holder == self.instance => true,
            Some(_) => self.has_expired(&lease, begun),
        };
        if !free {
            return Ok(false);
        }
        self.cluster.put_lease(&self.ours(Some(lease))).await?;
        Ok(true)
    }

    /// Whether somebody else's Lease has not changed for as long as it is good for.
    fn has_expired(&mut self, lease: &Lease, now: Instant) -> bool {
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        match &self.seen {
            Some((seen, since)) if *seen == version => {
                let good = lease
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.lease_duration_seconds);
                let good = good.and_then(|seconds| u64::try_from(seconds).ok());
                let good = good.map_or(DURATION, Duration::from_secs);
                let good = good.clamp(DURATION, MOST);
                now.saturating_duration_since(*since) >= good
            }
            _ => {
                self.seen = Some((version, now));
                false
            }
        }
    }

    /// The Lease as we hold it.
    fn ours(&self, lease: Option<Lease>) -> Lease {
        let Lease { metadata, spec } = lease.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(self.cluster.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let before = spec.unwrap_or_default();
        let now = jiff::Timestamp::from_second(self.cluster.now()).ok();
        let now = now.map(MicroTime);
        let same = before.holder_identity.as_ref() == Some(&self.instance);
        let transitions = before.lease_transitions.unwrap_or(0);
        let (acquire_time, transitions) = if same {
            (before.acquire_time.clone(), transitions)
        } else {
            (now.clone(), transitions.saturating_add(1))
        };
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.instance.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time,
                renew_time: now,
                lease_transitions: Some(transitions),
                ..before
            }),
        }
    }

    fn set(&self, leads: bool) {
        let changed = self.leads.send_if_modified(|now| {
            let before = std::mem::replace(now, leads);
            before != leads
        });
        self.gauge.set(i64::from(leads));
        if changed && leads {
            tracing::info!(instance = self.instance, "this control leads");
        } else if changed {
            tracing::warn!(
                instance = self.instance,
                "this control does not lead any more"
            );
        }
    }

    /// Lets go of the Lease, if it is ours. A last courtesy: without it others only wait longer.
    async fn release(&mut self) {
        self.set(false);
        let until = Instant::now() + LOOK;
        let released = timeout_at(until, async {
            let Some(mut lease) = self.cluster.lease(NAME).await? else {
                return Ok(());
            };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_ref() != Some(&self.instance) {
                return Ok(());
            }
            spec.holder_identity = None;
            self.cluster.put_lease(&lease).await
        });
        if let Ok(Err(error)) = released.await {
            tracing::debug!(%error, "the Lease was not let go of");
        }
    }
}
