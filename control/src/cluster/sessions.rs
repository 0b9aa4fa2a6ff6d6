//! Records of browser sessions, one Secret each: a record holds a sealed refresh token.

use super::secrets::{Kept, Kind};
use super::{Cluster, ClusterError, Stored, limited};
use crate::session::SessionRecord;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use nogoo9_model::{keys, name};

const KIND: Kind = Kind {
    what: "session",
    listing: "list sessions",
    deleting: "delete session",
    label: keys::KIND_SESSION,
    type_: "nogoo9/session",
    data: "session.json",
    page: 500,
};

impl Cluster {
    /// The record of the session with that public id, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn session(&self, id: &str) -> Result<Option<Stored<SessionRecord>>, ClusterError> {
        let name = name::session(id);
        let secret = limited("read session", id, self.secrets_api().get_opt(&name)).await?;
        secret.as_ref().map(|secret| KIND.read(secret)).transpose()
    }

    /// Records of somebody's sessions, or of all, read live. One that cannot be read is left out, and
    /// told.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn sessions(
        &self,
        sub: Option<&str>,
    ) -> Result<Vec<Stored<SessionRecord>>, ClusterError> {
        let read = |secret: &_| KIND.read::<SessionRecord>(secret);
        let mut all = self.list_secrets(&KIND, sub, read).await?;
        all.retain(|stored| sub.is_none_or(|sub| stored.value.sub == sub));
        Ok(all)
    }

    /// Creates a record.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn create_session(&self, record: &SessionRecord) -> Result<(), ClusterError> {
        let secret = self.session_secret(record, None)?;
        let (api, params) = (self.secrets_api(), PostParams::default());
        let create = api.create(&params, &secret);
        limited("create session", &record.id(), create)
            .await
            .map(|_| ())
    }

    /// Replaces a record, if it is still the one that was read. Returns it as it is stored now.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn put_session(
        &self,
        read: &Stored<SessionRecord>,
        next: &SessionRecord,
    ) -> Result<Stored<SessionRecord>, ClusterError> {
        let secret = self.session_secret(next, Some(read))?;
        let name = name::session(&next.id());
        let (api, params) = (self.secrets_api(), PostParams::default());
        let replace = api.replace(&name, &params, &secret);
        let written = limited("write session", &next.id(), replace).await?;
        KIND.read(&written)
    }

    /// Deletes a record, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn delete_session(&self, read: &Stored<SessionRecord>) -> Result<(), ClusterError> {
        let (id, only) = (read.value.id(), read.unchanged());
        self.delete_secret(&KIND, &id, &name::session(&id), Some(only))
            .await
    }

    fn session_secret(
        &self,
        record: &SessionRecord,
        read: Option<&Stored<SessionRecord>>,
    ) -> Result<Secret, ClusterError> {
        let id = record.id();
        let kept = Kept {
            name: name::session(&id),
            owner: &record.sub,
            labels: Vec::new(),
            data: KIND.json(&id, record)?,
            read,
        };
        Ok(self.secret_of(&KIND, kept))
    }
}
