//! What containers wrote.

use super::{Cluster, ClusterError, limited};
use futures::AsyncReadExt;
use kube::api::LogParams;

/// What is read of a log at most, in bytes. A line may be of any length.
const MOST: u64 = 1024 * 1024;

/// Which end of which log.
#[derive(Debug, Clone, Copy)]
pub struct LogEnd<'a> {
    /// Name of the pod.
    pub pod: &'a str,
    /// Name of the container.
    pub container: &'a str,
    /// Whether of the run before the last restart.
    pub previous: bool,
    /// The last so many lines.
    pub lines: u32,
}

impl Cluster {
    /// The end of a container's log, and whether there are fewer lines than asked for since they are
    /// so long. The API server cuts at the end, so where lines are long fewer are asked for.
    ///
    /// # Errors
    /// `Rejected`, with the API server's own words, if there is none; or another [`ClusterError`].
    pub async fn log_end(&self, end: &LogEnd<'_>) -> Result<(Vec<u8>, bool), ClusterError> {
        let mut lines = end.lines.max(1);
        loop {
            let read = limited("read log of", end.pod, self.read_log(end, lines)).await?;
            let cut = read.len() as u64 >= MOST;
            if !cut || lines == 1 {
                return Ok((read, cut || lines < end.lines));
            }
            lines = (lines / 8).max(1);
        }
    }

    async fn read_log(&self, end: &LogEnd<'_>, lines: u32) -> Result<Vec<u8>, kube::Error> {
        let params = LogParams {
            container: Some(end.container.to_owned()),
            previous: end.previous,
            tail_lines: Some(lines.into()),
            limit_bytes: i64::try_from(MOST).ok(),
            ..LogParams::default()
        };
        let stream = self.pods_api().log_stream(end.pod, &params).await?;
        let mut bytes = Vec::new();
        // Not trusted to keep to the limit: it may be slightly more, says its documentation.
        std::pin::pin!(stream)
            .take(MOST)
            .read_to_end(&mut bytes)
            .await
            .map_err(kube::Error::ReadEvents)?;
        Ok(bytes)
    }
}
