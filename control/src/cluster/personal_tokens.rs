//! Personal access tokens, one Secret each, named by the token's hash. Read live: what is revoked is
//! out at once, whichever control revoked it.

use super::secrets::{Kept, Kind};
use super::{Cluster, ClusterError, Stored, limited};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{PostParams, Preconditions};
use nogoo9_model::personal_token::{self, PersonalToken};
use nogoo9_model::{keys, name};

const KIND: Kind = Kind {
    what: "access token",
    listing: "list access tokens",
    deleting: "delete access token",
    label: keys::KIND_PERSONAL_TOKEN,
    type_: "nogoo9/personal-token",
    data: "token.json",
    page: 500,
};

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
        let mut tokens = self.list_secrets(&KIND, Some(owner), read).await?;
        tokens.retain(|token| token.value.owner == owner);
        Ok(tokens)
    }

    /// All tokens of everyone, read live; what cannot be read is left out.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn personal_tokens(&self) -> Result<Vec<Stored<PersonalToken>>, ClusterError> {
        self.list_secrets(&KIND, None, read).await
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
        let only = uid.map(|uid| Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        let name = name::personal_token(id);
        self.delete_secret(&KIND, id, &name, only).await
    }

    fn token_secret(
        &self,
        token: &PersonalToken,
        read: Option<&Stored<PersonalToken>>,
    ) -> Result<(String, Secret), ClusterError> {
        let id = token.id().to_owned();
        let kept = Kept {
            name: name::personal_token(&id),
            owner: &token.owner,
            labels: Vec::new(),
            data: KIND.json(&id, token)?,
            read,
        };
        let secret = self.secret_of(&KIND, kept);
        Ok((id, secret))
    }
}

/// Reads what is kept. A Secret that is not named by the hash in it is none of ours: it would count
/// for one token and be revoked as another.
fn read(secret: &Secret) -> Result<Stored<PersonalToken>, ClusterError> {
    let stored: Stored<PersonalToken> = KIND.read(secret)?;
    let (name, id) = (secret.metadata.name.as_deref(), stored.value.id());
    if !personal_token::is_id(id) || name != Some(&name::personal_token(id)) {
        let name = name.unwrap_or_default();
        return Err(KIND.malformed(name, "its name is not that of its hash".to_owned()));
    }
    Ok(stored)
}
