//! Clearing away sessions that are over.

use crate::cluster::{Cluster, ClusterError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(600);

/// Deletes what is over, now and then, until it is told to stop. One of several controls does.
pub async fn sweep(cluster: Cluster, stop: CancellationToken) {
    loop {
        match once(&cluster).await {
            Ok(0) => {}
            Ok(deleted) => tracing::info!(deleted, "sessions that are over were cleared away"),
            Err(error) => {
                tracing::warn!(%error, "sessions that are over could not be cleared away");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn once(cluster: &Cluster) -> Result<usize, ClusterError> {
    let now = cluster.now();
    let mut deleted = 0;
    for stored in cluster.sessions(None).await? {
        if stored.value.is_over(now) {
            cluster.delete_session(&stored).await?;
            deleted += 1;
        }
    }
    Ok(deleted)
}
