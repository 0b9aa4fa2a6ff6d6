//! Who reconciles: a Lease elects one control of several, so that not all of them do everything.
//!
//! It is an economy and no lock: correctness comes from conditional writes, whoever leads. Every
//! write of the Lease states the version that was read, so two never hold it by accident. A holder
//! counts as gone once its Lease has stayed as it is for the whole duration by our own monotonic
//! clock: clocks of other machines play no part. Who cannot renew in time stops before that.

mod tenure;

use crate::cluster::{Cluster, ClusterError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prometheus_client::metrics::gauge::Gauge;
use std::time::{Duration, Instant};
use tenure::{RETRY, Tenure};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Name of the Lease, in control's own namespace.
pub const NAME: &str = "nogoo9-control";
/// Longest time for letting go of it.
const RELEASE: Duration = Duration::from_secs(3);

/// Whether this control leads. Clones share it.
#[derive(Debug, Clone)]
pub struct Leadership(watch::Receiver<bool>);

impl Leadership {
    /// Leads for ever, without an election: for one that has no others beside it.
    #[must_use]
    pub fn unopposed() -> Self {
        Self(watch::channel(true).1)
    }

    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves once it leads; never, if nobody stands for election any more.
    pub async fn gained(&mut self) {
        if self.0.wait_for(|leads| *leads).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Resolves once it does not lead.
    pub async fn lost(&mut self) {
        // Whoever resigns says so first. Without an election there is nothing to lose.
        if self.0.wait_for(|leads| !leads).await.is_err() {
            std::future::pending::<()>().await;
        }
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
            tenure: Tenure::new(instance),
            gauge,
            leads,
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
    tenure: Tenure,
    gauge: Gauge,
    leads: watch::Sender<bool>,
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
                () = sleep_until((begun + RETRY).into()) => {}
                () = stop.cancelled() => break,
            }
        }
        self.release().await;
    }

    /// Takes, renews or only reads the Lease.
    async fn look(&mut self, begun: Instant) {
        let until = self.tenure.give_up(begun);
        match timeout_at(until.into(), self.attempt()).await {
            Ok(Ok(true)) => self.tenure.renewed(begun),
            Ok(Ok(false)) => self.tenure.another_leads(),
            Ok(Err(error)) => {
                // Another one was first, or somebody has edited it: the next look tells.
                if matches!(
                    error,
                    ClusterError::Conflict { .. } | ClusterError::Exists { .. }
                ) {
                    tracing::debug!(%error, "the Lease has changed");
                } else {
                    tracing::warn!(%error, "the Lease cannot be read or renewed; trying again");
                }
                self.tenure.failed(Instant::now());
            }
            Err(_) => {
                tracing::warn!("the API server does not answer about the Lease; trying again");
                self.tenure.failed(Instant::now());
            }
        }
        self.show();
    }

    /// Whether the Lease is ours now.
    async fn attempt(&mut self) -> Result<bool, ClusterError> {
        let read = self.cluster.lease(NAME).await?;
        let exists = read.is_some();
        let clock = jiff::Timestamp::from_second(self.cluster.now()).ok();
        let Some(lease) = self.tenure.take(read, Instant::now(), clock.map(MicroTime)) else {
            return Ok(false);
        };
        if exists {
            self.cluster.put_lease(&lease).await?;
        } else {
            self.cluster.create_lease(&lease).await?;
        }
        Ok(true)
    }

    fn show(&self) {
        let leads = self.tenure.leads();
        self.gauge.set(i64::from(leads));
        let changed = self.leads.send_if_modified(|now| {
            let before = std::mem::replace(now, leads);
            before != leads
        });
        let instance = self.tenure.instance();
        if changed && leads {
            tracing::info!(instance, "this control leads");
        } else if changed {
            tracing::warn!(instance, "this control does not lead any more");
        }
    }

    /// Lets go of the Lease, if it is ours. A courtesy: without it the next one only waits longer.
    async fn release(&mut self) {
        let released = timeout(RELEASE, async {
            let read = self.cluster.lease(NAME).await?;
            match self.tenure.release(read) {
                Some(lease) => self.cluster.put_lease(&lease).await,
                None => Ok(()),
            }
        });
        if let Ok(Err(error)) = released.await {
            tracing::debug!(%error, "the Lease was not let go of");
        }
        self.tenure.another_leads();
        self.show();
    }
}
