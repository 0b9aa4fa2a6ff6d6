//! Workspace records, one Secret each: a record holds manifests, and manifests hold secrets.

use super::secrets::{Kept, Kind};
use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use nogoo9_model::record::Record;
use nogoo9_model::{keys, name};

/// Largest record, in bytes.
const LIMIT: usize = 200 * 1024;
/// What an upgrade under way may add to it, in bytes: it must be able to end, whatever its pods say.
const HEADROOM: usize = 64 * 1024;
const KIND: Kind = Kind {
    what: "record",
    listing: "list records",
    deleting: "delete record",
    label: keys::KIND_RECORD,
    type_: "nogoo9/workspace-record",
    data: "record.json",
    // They may be large.
    page: 50,
};

impl Cluster {
    /// The record of a workspace, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn record(&self, id: &str) -> Result<Option<Stored<Record>>, ClusterError> {
        let name = name::record(id);
        let secret = limited("read record", id, self.secrets_api().get_opt(&name)).await?;
        secret.as_ref().map(read).transpose()
    }

    /// The record of a workspace that is more than remembered, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn living(&self, id: &str) -> Result<Option<Stored<Record>>, ClusterError> {
        let stored = self.record(id).await?;
        Ok(stored.filter(|stored| !stored.value.is_gone()))
    }

    /// All records of a user, read live, tombstones too; what cannot be read is left out, as it is in
    /// every list.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn records_of(&self, owner: &str) -> Result<Vec<Stored<Record>>, ClusterError> {
        let mut records = self.list_secrets(&KIND, Some(owner), read).await?;
        records.retain(|record| record.value.owner == owner);
        Ok(records)
    }

    /// Creates a record; that no other of this name exists is what makes the id unique.
    ///
    /// # Errors
    /// `Exists` if the id is taken, `TooLarge`, or another [`ClusterError`].
    pub async fn create_record(&self, record: &Record) -> Result<(), ClusterError> {
        let secret = self.secret(record, None)?;
        limited(
            "create record",
            &record.id,
            self.secrets_api().create(&PostParams::default(), &secret),
        )
        .await
        .map(|_| ())
    }

    /// Replaces a record, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, `TooLarge`, or another [`ClusterError`].
    pub async fn put_record(
        &self,
        read: &Stored<Record>,
        next: &Record,
    ) -> Result<(), ClusterError> {
        let secret = self.secret(next, Some(read))?;
        let name = name::record(&next.id);
        let params = PostParams::default();
        limited(
            "write record",
            &next.id,
            self.secrets_api().replace(&name, &params, &secret),
        )
        .await
        .map(|_| ())
    }

    /// Deletes a record, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn delete_record(&self, read: &Stored<Record>) -> Result<(), ClusterError> {
        let (id, only) = (&read.value.id, read.unchanged());
        self.delete_secret(&KIND, id, &name::record(id), Some(only))
            .await
    }

    fn secret(
        &self,
        record: &Record,
        read: Option<&Stored<Record>>,
    ) -> Result<Secret, ClusterError> {
        let data = KIND.json(&record.id, record)?;
        // What is begun is refused in time; what has begun goes on.
        let begins =
            read.is_none_or(|read| read.value.upgrade.is_none() && record.upgrade.is_some());
        let limit = if begins { LIMIT } else { LIMIT + HEADROOM };
        if data.len() > limit {
            return Err(ClusterError::TooLarge {
                size: data.len(),
                limit,
            });
        }
        let kept = Kept {
            name: name::record(&record.id),
            owner: &record.owner,
            labels: vec![(keys::WORKSPACE_ID.to_owned(), record.id.clone())],
            data,
            read,
        };
        Ok(self.secret_of(&KIND, kept))
    }
}

/// Reads a record out of its Secret.
pub(super) fn read(secret: &Secret) -> Result<Stored<Record>, ClusterError> {
    KIND.read(secret)
}
