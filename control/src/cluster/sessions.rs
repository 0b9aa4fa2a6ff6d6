//! Records of browser sessions, one Secret each: a record holds a sealed refresh token.

use super::{Cluster, ClusterError, Stored, limited};
use crate::session::SessionRecord;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use nogoo9_model::{keys, label, name};

/// Where in the Secret it is.
const DATA: &str = "session.json";
/// Records of one page of a list.
const PAGE: u32 = 500;

impl Cluster {
    /// The record of the session with that public id, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn session(&self, id: &str) -> Result<Option<Stored<SessionRecord>>, ClusterError> {
        let name = name::session(id);
        let secret = limited("read session", id, self.secrets_api().get_opt(&name)).await?;
        secret.as_ref().map(read).transpose()
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
        let mut selector = format!("{}={}", keys::KIND, keys::KIND_SESSION);
        if let Some(sub) = sub {
            selector.push_str(&format!(",{}={}", keys::USER_SUB, label::owner(sub)));
        }
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        let mut all = Vec::new();
        loop {
            let page = limited("list sessions", "", self.secrets_api().list(&params)).await?;
            for secret in &page.items {
                match read(secret) {
                    // A label is short for a subject, so two may have the same.
                    Ok(stored) if sub.is_none_or(|sub| stored.value.sub == sub) => all.push(stored),
                    Ok(_) => {}
                    Err(error) => tracing::warn!(%error, "unreadable session"),
                }
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
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
        self::read(&written)
    }

    /// Deletes a record, if it is still the one that was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, or another [`ClusterError`].
    pub async fn delete_session(&self, read: &Stored<SessionRecord>) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(read.uid.clone()),
                resource_version: Some(read.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let id = read.value.id();
        let name = name::session(&id);
        let api = self.secrets_api();
        match limited("delete session", &id, api.delete(&name, &params)).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn session_secret(
        &self,
        record: &SessionRecord,
        read: Option<&Stored<SessionRecord>>,
    ) -> Result<Secret, ClusterError> {
        let data = serde_json::to_vec(record)
            .map_err(|error| malformed(&record.id(), &error.to_string()))?;
        let labels = [
            (keys::KIND.to_owned(), keys::KIND_SESSION.to_owned()),
            (keys::USER_SUB.to_owned(), label::owner(&record.sub)),
        ];
        Ok(Secret {
            metadata: ObjectMeta {
                name: Some(name::session(&record.id())),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("nogoo9/session".to_owned()),
            data: Some([(DATA.to_owned(), ByteString(data))].into()),
            ..Secret::default()
        })
    }
}

fn read(secret: &Secret) -> Result<Stored<SessionRecord>, ClusterError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let data = secret.data.as_ref().and_then(|data| data.get(DATA));
    let data = data.ok_or_else(|| malformed(&name, "the Secret has no session.json"))?;
    let value: SessionRecord =
        serde_json::from_slice(&data.0).map_err(|error| malformed(&name, &error.to_string()))?;
    Ok(Stored {
        value,
        resource_version: secret.metadata.resource_version.clone().unwrap_or_default(),
        uid: secret.metadata.uid.clone().unwrap_or_default(),
    })
}

fn malformed(object: &str, reason: &str) -> ClusterError {
    ClusterError::Malformed {
        object: format!("session {object}"),
        reason: reason.to_owned(),
    }
}
