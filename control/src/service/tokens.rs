//! Personal access tokens: made, listed and revoked by whom they speak for.

use super::sessions::scope;
use super::types::{
    CreateToken, CreatedToken, PersonalAccessToken, PersonalAccessTokens, RevokedToken,
};
use super::view::time;
use super::{Answer, Parts, ServiceError, allow_reading, ids};
use crate::cluster::{Cluster, ClusterError, Stored};
use crate::personal::Credential;
use nogoo9_model::access::{Action, Caller, Denied};
use nogoo9_model::personal_token::{self, MOST, PersonalToken, Wanted};

pub(super) async fn create(
    parts: &Parts,
    caller: &Caller,
    by: Credential,
    args: &CreateToken,
) -> Answer<CreatedToken> {
    by_a_person(by)?;
    // Else what may only read would make what may write.
    scope(caller, Action::Manage)?;
    let cluster = &parts.cluster;
    let token = personal_token::token(&ids::random()?);
    let wanted = Wanted {
        name: &args.name,
        scopes: args.scopes.as_deref(),
        days: args.expires_in_days,
    };
    let kept = PersonalToken::new(&token, caller, &wanted, cluster.now())?;
    // Refused without a write, where it can be seen beforehand.
    within_bound(cluster, &caller.sub, 1).await?;
    let made = keep(cluster, &kept).await?;
    // Of several at once, the last to be stored sees all others, and gives way if they are too many.
    // So there are never too many; that each may give way to the other is the lesser evil.
    if let Err(error) = within_bound(cluster, &caller.sub, 0).await {
        discard(cluster, &kept).await;
        return Err(error);
    }
    Ok(CreatedToken {
        token,
        kept: shown(&made.value, cluster.now()),
    })
}

pub(super) async fn list(
    parts: &Parts,
    caller: &Caller,
    by: Credential,
) -> Answer<PersonalAccessTokens> {
    by_a_person(by)?;
    allow_reading(caller)?;
    let mut tokens = parts.cluster.personal_tokens_of(&caller.sub).await?;
    tokens.sort_by(|a, b| {
        let order = |token: &PersonalToken| (-token.created, token.hash.clone());
        order(&a.value).cmp(&order(&b.value))
    });
    let now = parts.cluster.now();
    Ok(PersonalAccessTokens {
        tokens: tokens
            .iter()
            .map(|token| shown(&token.value, now))
            .collect(),
        most: MOST,
    })
}

/// Of another's token and of none there is one answer.
pub(super) async fn revoke(
    parts: &Parts,
    caller: &Caller,
    by: Credential,
    id: &str,
) -> Answer<RevokedToken> {
    by_a_person(by)?;
    scope(caller, Action::Manage)?;
    let found = if personal_token::is_id(id) {
        parts.cluster.personal_token(id).await?
    } else {
        None
    };
    let Some(stored) = found.filter(|stored| caller.is(&stored.value.owner)) else {
        return Err(Denied::AccessDenied.into());
    };
    parts
        .cluster
        .delete_personal_token(id, Some(&stored.uid))
        .await?;
    Ok(RevokedToken {
        id: id.to_owned(),
        message: "Revoked; open pages and sockets end within a minute".to_owned(),
    })
}

/// Whoever got hold of a token must not make another by it, nor take away its owner's.
pub(super) fn by_a_person(by: Credential) -> Answer<()> {
    match by {
        Credential::Session | Credential::Provider => Ok(()),
        Credential::Personal => Err(ServiceError::NotByToken),
    }
}

/// Whether `more` tokens still fit beside those of the user that count.
async fn within_bound(cluster: &Cluster, sub: &str, more: usize) -> Answer<()> {
    let now = cluster.now();
    let tokens = cluster.personal_tokens_of(sub).await?;
    let count = tokens.iter().filter(|token| !token.value.is_expired(now));
    if count.count() + more > MOST {
        return Err(ServiceError::TooManyTokens { most: MOST });
    }
    Ok(())
}

/// Stores it. If whether it was stored is not known, it is taken back: nobody will ever have it.
async fn keep(cluster: &Cluster, token: &PersonalToken) -> Answer<Stored<PersonalToken>> {
    match cluster.create_personal_token(token).await {
        Ok(made) => Ok(made),
        Err(error) => {
            if matches!(
                error,
                ClusterError::TimedOut { .. } | ClusterError::Unavailable { .. }
            ) {
                discard(cluster, token).await;
            }
            Err(error.into())
        }
    }
}

/// What fails here stays in its owner's list, to be revoked there.
async fn discard(cluster: &Cluster, token: &PersonalToken) {
    if let Err(error) = cluster.delete_personal_token(token.id(), None).await {
        tracing::warn!(%error, "an access token that nobody has could not be taken back");
    }
}

fn shown(token: &PersonalToken, now: i64) -> PersonalAccessToken {
    PersonalAccessToken {
        id: token.id().to_owned(),
        name: token.name.clone(),
        scopes: token.scopes.iter().cloned().collect(),
        created_at: time(token.created),
        expires_at: time(token.expires),
        expired: token.is_expired(now),
        last_used_at: token.last_used.map(time),
    }
}
