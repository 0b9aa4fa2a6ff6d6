//! Ending a session early, whoever wants it ended.

use super::SessionRecord;
use crate::cluster::{Cluster, ClusterError};
use nogoo9_model::UnixSeconds;

/// Attempts at a record that others change too.
const ATTEMPTS: usize = 5;

/// Ends the session with that public id. One that is gone, or ended, stays so. Returns what this has
/// ended, as it was.
///
/// # Errors
/// [`ClusterError`]; then it goes on.
pub async fn end(
    cluster: &Cluster,
    id: &str,
    now: UnixSeconds,
) -> Result<Option<SessionRecord>, ClusterError> {
    let mut left = ATTEMPTS;
    loop {
        let Some(stored) = cluster.session(id).await? else {
            return Ok(None);
        };
        if stored.value.revoked.is_some() {
            return Ok(None);
        }
        let revoked = stored.value.clone().revoke(now);
        match cluster.put_session(&stored, &revoked).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => return Ok(Some(stored.value)),
            Err(ClusterError::Conflict { .. }) if left > 0 => left -= 1,
            Err(error) => return Err(error),
        }
    }
}
