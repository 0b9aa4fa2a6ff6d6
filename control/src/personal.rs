//! Whom a personal access token speaks for. Looked up live, so that what is revoked is out at once;
//! the proxy alone remembers answers, for less than a minute.

use crate::cluster::{Cluster, ClusterError, Stored};
use nogoo9_identity::TokenError;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_model::personal_token::{self, PersonalToken, Proven, VERSION};
use nogoo9_runtime::limit::Failures;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Most look-ups at once: a flood of made-up tokens must not become a flood at the API server.
const LOOK_UPS: usize = 64;
/// Longest wait for a place among them.
const PLACE: Duration = Duration::from_secs(5);
/// Most notes of a last use under way; further ones wait for the next use.
const NOTES: usize = 8;
/// How often expired tokens are looked for.
const SWEEP: Duration = Duration::from_secs(3600);
/// An expired token stays in its owner's list for so many seconds, so that they see why it failed.
const KEEP: i64 = 7 * 24 * 3600;
/// Deletions of one sweep.
const CAP: usize = 200;

/// By what a caller is known. What may be done with each differs: an access token makes no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Credential {
    /// The session of a browser.
    Session,
    /// A token of the identity provider.
    Provider,
    /// A personal access token.
    Personal,
}

impl Credential {
    /// As it is logged.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Provider => "provider-token",
            Self::Personal => "personal-token",
        }
    }
}

/// Why a token proves nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// It does not count.
    #[error(transparent)]
    Refused(#[from] TokenError),
    /// Whether it counts cannot be told now.
    #[error("whether the access token counts cannot be told at the moment; try again")]
    Unavailable,
}

/// Verifies personal access tokens. Clones share the bounds.
#[derive(Clone)]
pub struct PersonalTokens {
    cluster: Cluster,
    policy: Arc<ClaimPolicy>,
    places: Arc<Semaphore>,
    notes: Arc<Semaphore>,
    failures: Option<Arc<Failures>>,
}

impl PersonalTokens {
    /// Over the Secrets of this cluster; `policy` says what roles amount to.
    #[must_use]
    pub fn new(cluster: Cluster, policy: Arc<ClaimPolicy>) -> Self {
        Self {
            cluster,
            policy,
            places: Arc::new(Semaphore::new(LOOK_UPS)),
            notes: Arc::new(Semaphore::new(NOTES)),
            failures: None,
        }
    }

    /// The same, which looks up what comes from where much of it is made up one after the other.
    #[must_use]
    pub fn limited_by(self, failures: Option<Arc<Failures>>) -> Self {
        Self { failures, ..self }
    }

    /// Whom the token speaks for that came from there, where that is known. Unknown, expired and revoked
    /// are one.
    ///
    /// # Errors
    /// [`Unproven`].
    pub async fn prove(&self, token: &str, from: Option<IpAddr>) -> Result<Proven, Unproven> {
        if !personal_token::is_token(token) {
            return Err(TokenError::UnknownToken.into());
        }
        let place = tokio::time::timeout(PLACE, async {
            let among_suspects = match &self.failures {
                Some(failures) => failures.place(from).await,
                None => None,
            };
            (among_suspects, self.places.acquire().await)
        });
        let Ok((_among_suspects, Ok(_place))) = place.await else {
            return Err(Unproven::Unavailable);
        };
        let found = match self
            .cluster
            .personal_token(&personal_token::id(token))
            .await
        {
            Ok(found) => found,
            Err(ClusterError::Malformed { .. }) => None,
            Err(error) => {
                tracing::warn!(%error, "an access token cannot be looked up");
                return Err(Unproven::Unavailable);
            }
        };
        let now = self.cluster.now();
        let stored = found
            .filter(|stored| stored.value.is_proven_by(token, now))
            .ok_or(TokenError::UnknownToken)?;
        self.note(&stored, now);
        let kept = &stored.value;
        let now_is = self.policy.caller(&kept.owner, kept.roles.clone());
        Ok(Proven {
            version: VERSION,
            caller: kept.caller(now_is),
            expires: kept.expires,
        })
    }

    /// Writes the last use, beside the request and at most every hour. Somebody else may have written
    /// it, or the token be gone: either is fine.
    fn note(&self, stored: &Stored<PersonalToken>, now: i64) {
        let Some(next) = stored.value.used(now) else {
            return;
        };
        let Ok(place) = Arc::clone(&self.notes).try_acquire_owned() else {
            return;
        };
        let (cluster, stored) = (self.cluster.clone(), stored.clone());
        tokio::spawn(async move {
            if let Err(error) = cluster.put_personal_token(&stored, &next).await {
                tracing::debug!(%error, "the last use of an access token was not noted");
            }
            drop(place);
        });
    }
}

/// Deletes tokens that expired long ago, every hour, until `stop`.
pub async fn sweep_expired(cluster: Cluster, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            () = stop.cancelled() => return,
        }
        if let Err(error) = delete_expired(&cluster).await {
            tracing::warn!(%error, "expired access tokens could not be deleted");
        }
    }
}

/// Deletes tokens that expired a week ago or earlier; says how many.
///
/// # Errors
/// [`ClusterError`].
pub async fn delete_expired(cluster: &Cluster) -> Result<usize, ClusterError> {
    let before = cluster.now().saturating_sub(KEEP);
    let all = cluster.personal_tokens().await?;
    let mut deleted = 0;
    for token in all
        .iter()
        .filter(|token| token.value.is_expired(before))
        .take(CAP)
    {
        cluster
            .delete_personal_token(token.value.id(), Some(&token.uid))
            .await?;
        deleted += 1;
    }
    Ok(deleted)
}
