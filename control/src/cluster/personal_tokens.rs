//! Personal access tokens, one Secret each, named by the token's hash. Read live: what is revoked is
//! out at once, whichever control revoked it.

use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use nogoo9_model::personal_token::{self, PersonalToken};
use nogoo9_model::{keys, label, name};

/// Where in the Secret it is.
const DATA: &str = "token.json";
/// Tokens that one call lists.
const PAGE: u32 = 500;

impl Cluster {
    /// What is kept of the token of that id, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn personal_token(
        &self,
        id: &str,
    ) -> Result<Option<Stored<PersonalToken>>, ClusterError> {
        let name = name::personal_token(id);
        let secret = limited("read access token", id, self.secrets_api().get_opt(&name)).await?;
        secret.as_ref().map(read).transpose()
    }

    /// All tokens of a user, read live; what cannot be read is left out.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn personal_tokens_of(
        &self,
        owner: &str,
    ) -> Result<Vec<Stored<PersonalToken>>, ClusterError> {
        let theirs = format!(",{}={}", keys::USER_SUB, label::owner(owner));
        let mut tokens = self.list_personal_tokens(&theirs).await?;
        tokens.retain(|token| token.value.owner == owner);
        Ok(tokens)
    }

    /// All tokens of everyone, read live; what cannot be read is left out.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn personal_tokens(&self) -> Result<Vec<Stored<PersonalToken>>, ClusterError> {
        self.list_personal_tokens("").await
    }

    async fn list_personal_tokens(
        &self,
        more: &str,
    ) -> Result<Vec<Stored<PersonalToken>>, ClusterError> {
        let selector = format!("{}={}{more}", keys::KIND, keys::KIND_PERSONAL_TOKEN);
        let mut params = ListParams::default().labels(&selector).limit(PAGE);
        let mut found = Vec::new();
        loop {
            let api = self.secrets_api();
            let page = limited("list", "access tokens", api.list(&params)).await?;
            found.extend(page.items.iter().filter_map(|secret| {
                read(secret)
                    .inspect_err(|error| tracing::warn!(%error, "unreadable access token"))
                    .ok()
            }));
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => return Ok(found),
            }
        }
    }

    /// Keeps a new token. Returns it as it is stored.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn create_personal_token(
        &self,
        token: &PersonalToken,
    ) -> Result<Stored<PersonalToken>, ClusterError> {
        let (id, secret) = self.token_secret(token, None)?;
        let params = PostParams::default();
        let create = self.secrets_api();
        let create = create.create(&params, &secret);
        read(&limited("create access token", &id, create).await?)
    }

    /// Replaces what is kept, if it is still what was read.
    ///
    /// # Errors
    /// `Conflict` if it is not, `NotFound` if it was revoked, or another [`ClusterError`].
    pub async fn put_personal_token(
        &self,
        read: &Stored<PersonalToken>,
        next: &PersonalToken,
    ) -> Result<(), ClusterError> {
        let (id, secret) = self.token_secret(next, Some(read))?;
        let (api, name) = (self.secrets_api(), name::personal_token(&id));
        let params = PostParams::default();
        let write = api.replace(&name, &params, &secret);
        limited("write access token", &id, write).await.map(|_| ())
    }

    /// Forgets a token, which ends it. One that is gone already is as good as forgotten.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn delete_personal_token(
        &self,
        id: &str,
        uid: Option<&str>,
    ) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let (api, name) = (self.secrets_api(), name::personal_token(id));
        match limited("delete access token", id, api.delete(&name, &params)).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn token_secret(
        &self,
        token: &PersonalToken,
        read: Option<&Stored<PersonalToken>>,
    ) -> Result<(String, Secret), ClusterError> {
        let id = token.id().to_owned();
        let data = serde_json::to_vec(token).map_err(|error| malformed(&id, &error.to_string()))?;
        let labels = [
            (keys::KIND.to_owned(), keys::KIND_PERSONAL_TOKEN.to_owned()),
            (keys::USER_SUB.to_owned(), label::owner(&token.owner)),
        ];
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name::personal_token(&id)),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.into()),
                uid: read.map(|read| read.uid.clone()),
                resource_version: read.map(|read| read.resource_version.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("nogoo9/personal-token".to_owned()),
            data: Some([(DATA.to_owned(), ByteString(data))].into()),
            ..Secret::default()
        };
        Ok((id, secret))
    }
}

/// Reads what is kept. A Secret that is not named by the hash in it is none of ours: it would count
/// for one token and be revoked as another.
fn read(secret: &Secret) -> Result<Stored<PersonalToken>, ClusterError> {
    let name = secret.metadata.name.clone().unwrap_or_default();
    let data = secret.data.as_ref().and_then(|data| data.get(DATA));
    let data = data.ok_or_else(|| malformed(&name, "the Secret has no token.json"))?;
    let value: PersonalToken =
        serde_json::from_slice(&data.0).map_err(|error| malformed(&name, &error.to_string()))?;
    if !personal_token::is_id(value.id()) || name != name::personal_token(value.id()) {
        return Err(malformed(&name, "its name is not that of its hash"));
    }
    Ok(Stored {
        value,
        resource_version: secret.metadata.resource_version.clone().unwrap_or_default(),
        uid: secret.metadata.uid.clone().unwrap_or_default(),
    })
}

fn malformed(object: &str, reason: &str) -> ClusterError {
    ClusterError::Malformed {
        object: format!("access token {object}"),
        reason: reason.to_owned(),
    }
}
