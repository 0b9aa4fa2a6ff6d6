//! Workspace records, one Secret each: a record holds manifests, and manifests hold secrets.

use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use nogoo9_model::record::Record;
use nogoo9_model::{keys, label, name};

/// Largest record, in bytes.
const LIMIT: usize = 200 * 1024;
/// What an upgrade under way may add to it, in bytes: it must be able to end, whatever its pods say.
const HEADROOM: usize = 64 * 1024;
/// Records that one call lists: they may be large.
const PAGE: u32 = 50;
/// Where in the Secret it is.
const DATA: &str = "record.json";

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
        let (kind, sub) = (keys::KIND_RECORD, label::owner(owner));
        let theirs = format!("{}={kind},{}={sub}", keys::KIND, keys::USER_SUB);
        let mut params = ListParams::default().labels(&theirs).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let page = limited("list records", owner, self.secrets_api().list(&params)).await?;
            let records = page.items.iter().filter_map(|secret| {
                read(secret)
                    .inspect_err(|error| tracing::warn!(%error, "unreadable record"))
                    .ok()
            });
            // Subjects that are no label share one only if their hashes do; still, it is one's own
            // that count.
            found.extend(records.filter(|record| record.value.owner == owner));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(found),
            }
        }
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
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(read.uid.clone()),
                resource_version: Some(read.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let name = name::record(&read.value.id);
        match limited(
            "delete record",
            &read.value.id,
            self.secrets_api().delete(&name, &params),
        )
        .await
        {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn secret(
        &self,
        record: &Record,
        read: Option<&Stored<Record>>,
    ) -> Result<Secret, ClusterError> {
        let data = serde_json::to_vec(record)
            .map_err(|error| malformed(&record.id, &error.to_string()))?;
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
        let labels = [
            (keys::KIND.to_owned(), keys::KIND_RECORD.to_owned()),
            (keys::WORKSPACE_ID.to_owned(), record.id.clone()),
            (keys::USER_SUB.to_owned(), label::owner(&record.owner)),
        ];
        Ok(Secret {
            metadata: ObjectMeta {
                name: Some(name::record(&record.id)),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("nogoo9/workspace-record".to_owned()),
            data: Some([(DATA.to_owned(), ByteString(data))].into()),
            ..Secret::default()
        })
    }
}

/// Reads a record out of its Secret.
pub(super) fn read(secret: &Secret) -> Result<Stored<Record>, ClusterError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let data = secret.data.as_ref().and_then(|data| data.get(DATA));
    let data = data.ok_or_else(|| malformed(&name, "the Secret has no record.json"))?;
    let value =
        serde_json::from_slice(&data.0).map_err(|error| malformed(&name, &error.to_string()))?;
    Ok(Stored {
        value,
        resource_version: secret.metadata.resource_version.clone().unwrap_or_default(),
        uid: secret.metadata.uid.clone().unwrap_or_default(),
    })
}

fn malformed(object: &str, reason: &str) -> ClusterError {
    ClusterError::Malformed {
        object: format!("record {object}"),
        reason: reason.to_owned(),
    }
}
