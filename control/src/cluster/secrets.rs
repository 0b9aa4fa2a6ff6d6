//! What is kept as JSON, one Secret each: how it is named, labelled, read and listed.

use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, Preconditions};
use nogoo9_model::{keys, label};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind of Secret.
#[derive(Debug)]
pub(super) struct Kind {
    /// What one holds, in errors and logs.
    pub(super) what: &'static str,
    /// The call that lists them, in errors.
    pub(super) listing: &'static str,
    /// The call that deletes one, in errors.
    pub(super) deleting: &'static str,
    /// Value of the label [`keys::KIND`].
    pub(super) label: &'static str,
    /// The Secret's `type`.
    pub(super) type_: &'static str,
    /// Where in the Secret it is.
    pub(super) data: &'static str,
    /// How many one call lists.
    pub(super) page: u32,
}

impl Kind {
    /// A Secret's content.
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn read<T: DeserializeOwned>(
        &self,
        secret: &Secret,
    ) -> Result<Stored<T>, ClusterError> {
        let name = secret.metadata.name.clone().unwrap_or_default();
        let data = secret.data.as_ref().and_then(|data| data.get(self.data));
        let data = data.ok_or_else(|| {
            self.malformed(&name, format!("the Secret has no {data}", data = self.data))
        })?;
        let value = serde_json::from_slice(&data.0)
            .map_err(|error| self.malformed(&name, error.to_string()))?;
        Ok(Stored {
            value,
            resource_version: secret.metadata.resource_version.clone().unwrap_or_default(),
            uid: secret.metadata.uid.clone().unwrap_or_default(),
        })
    }

    /// What a Secret of `id` is to hold.
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn json<T: Serialize>(&self, id: &str, value: &T) -> Result<Vec<u8>, ClusterError> {
        serde_json::to_vec(value).map_err(|error| self.malformed(id, error.to_string()))
    }

    pub(super) fn malformed(&self, object: &str, reason: String) -> ClusterError {
        ClusterError::Malformed {
            object: format!("{} {object}", self.what),
            reason,
        }
    }
}

/// The Secret itself, and of what it takes the place.
#[derive(Debug)]
pub(super) struct Kept<'a, T> {
    /// Its name.
    pub(super) name: String,
    /// Whose it is.
    pub(super) owner: &'a str,
    /// Labels beside kind and owner.
    pub(super) labels: Vec<(String, String)>,
    /// What it holds, by [`Kind::json`].
    pub(super) data: Vec<u8>,
    /// What was read before: it is replaced only if it is still that.
    pub(super) read: Option<&'a Stored<T>>,
}

impl Cluster {
    /// A Secret in control's own namespace.
    pub(super) fn secret_of<T>(&self, kind: &Kind, kept: Kept<'_, T>) -> Secret {
        let mut labels = kept.labels;
        labels.push((keys::KIND.to_owned(), kind.label.to_owned()));
        labels.push((keys::USER_SUB.to_owned(), label::owner(kept.owner)));
        let read = kept.read;
        Secret {
            metadata: ObjectMeta {
                name: Some(kept.name),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into_iter().collect()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            type_: Some(kind.type_.to_owned()),
            data: Some([(kind.data.to_owned(), ByteString(kept.data))].into()),
            ..Secret::default()
        }
    }

    /// All of a kind that carry an owner's label, or of everyone, read live. What cannot be read is left
    /// out, and told. A label is short for a subject, so two owners may have the same.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(super) async fn list_secrets<T>(
        &self,
        kind: &Kind,
        owner: Option<&str>,
        read: impl Fn(&Secret) -> Result<Stored<T>, ClusterError>,
    ) -> Result<Vec<Stored<T>>, ClusterError> {
        let mut selector = format!("{}={}", keys::KIND, kind.label);
        if let Some(owner) = owner {
            selector.push_str(&format!(",{}={}", keys::USER_SUB, label::owner(owner)));
        }
        let mut params = ListParams::default().labels(&selector).limit(kind.page);
        let mut found = Vec::new();
        loop {
            let list = self.secrets_api();
            let page = limited(kind.listing, owner.unwrap_or_default(), list.list(&params)).await?;
            found.extend(page.items.iter().filter_map(|secret| {
                let unreadable =
                    |error: &_| tracing::warn!(%error, kind = kind.what, "unreadable Secret");
                read(secret).inspect_err(unreadable).ok()
            }));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(found),
            }
        }
    }

    /// Deletes a Secret, if it is still that. One that is gone already is as good as deleted.
    ///
    /// # Errors
    /// `Conflict` if it is another by now, or another [`ClusterError`].
    pub(super) async fn delete_secret(
        &self,
        kind: &Kind,
        id: &str,
        name: &str,
        only: Option<Preconditions>,
    ) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: only,
            ..DeleteParams::default()
        };
        let api = self.secrets_api();
        match limited(kind.deleting, id, api.delete(name, &params)).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl<T> Stored<T> {
    /// That it is still exactly this.
    pub(super) fn unchanged(&self) -> Preconditions {
        Preconditions {
            uid: Some(self.uid.clone()),
            resource_version: Some(self.resource_version.clone()),
        }
    }
}
