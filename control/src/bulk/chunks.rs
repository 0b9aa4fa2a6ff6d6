//! Chunks as a driver reads them, also those that somebody laid hands on.

use crate::cluster::{Cluster, ClusterError, FoundChunk, Stored};
use nogoo9_model::bulk::{Chunk, Head, Loss};

/// Reads a chunk. Where somebody deleted it, or made something else of it, one takes its place in
/// which all have failed: the bulk has to come to an end, and nobody can tell any more what was in it.
pub(super) async fn read(
    cluster: &Cluster,
    id: &str,
    head: &Head,
    index: usize,
) -> Result<Stored<Chunk>, ClusterError> {
    let targets = head.targets_of_chunk(index);
    let revision = head.chunks.get(index).copied().unwrap_or_default();
    let lost = |how| Chunk::lost(id, index, revision, targets, how);
    match cluster.find_chunk(id, index, targets).await? {
        FoundChunk::Whole(chunk) => Ok(chunk),
        FoundChunk::Missing => {
            tracing::error!(
                operation = id,
                chunk = index,
                targets,
                "somebody deleted a chunk of a bulk; its targets count as failed"
            );
            match cluster.create_chunk(&lost(Loss::Deleted)).await {
                Err(ClusterError::Exists { .. }) => cluster.chunk(id, index).await,
                other => other,
            }
        }
        FoundChunk::Broken(found) => {
            tracing::error!(
                operation = id,
                chunk = index,
                targets,
                error = found.value,
                "somebody changed a chunk of a bulk; its targets count as failed"
            );
            cluster.put_chunk(&found, &lost(Loss::Changed)).await
        }
    }
}
