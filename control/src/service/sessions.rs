//! Somebody's own browser sessions: to look at, and to end.

use super::tokens::by_a_person;
use super::types::{EndedSessions, Session, Sessions};
use super::view::time;
use super::{Answer, Parts, ServiceError};
use crate::audit;
use crate::personal::Credential;
use crate::session::{SessionRecord, end};
use nogoo9_model::access::{Action, Caller, Denied};
use nogoo9_model::name::{SESSION_ID, session_id};
use nogoo9_runtime::audit::{Outcome, What};

pub(super) async fn list(
    parts: &Parts,
    caller: &Caller,
    current: Option<&str>,
) -> Answer<Sessions> {
    scope(caller, Action::Read)?;
    let current = current.map(session_id);
    let mut sessions: Vec<SessionRecord> = live(parts, caller).await?;
    sessions.sort_by_key(|record| std::cmp::Reverse((record.seen, record.started)));
    Ok(Sessions {
        sessions: sessions
            .iter()
            .map(|record| Session {
                current: current.as_ref() == Some(&record.id()),
                id: record.id(),
                created_at: time(record.started),
                last_seen_at: time(record.seen),
                ends_at: time(record.ends),
            })
            .collect(),
    })
}

/// Another's and one that is not there give the same answer.
pub(super) async fn end_one(
    parts: &Parts,
    caller: &Caller,
    by: Credential,
    id: &str,
) -> Answer<EndedSessions> {
    by_a_person(by)?;
    scope(caller, Action::Manage)?;
    let found = if is_id(id) {
        parts.cluster.session(id).await?
    } else {
        None
    };
    let now = parts.cluster.now();
    let mine = found.filter(|stored| caller.is(&stored.value.sub) && stored.value.is_live(now));
    if mine.is_none() {
        return Err(ServiceError::Denied(Denied::AccessDenied));
    }
    end(&parts.cluster, id, now).await?;
    Ok(EndedSessions { ended: 1 })
}

/// All but the current one.
pub(super) async fn end_others(
    parts: &Parts,
    caller: &Caller,
    by: Credential,
    current: Option<&str>,
) -> Answer<EndedSessions> {
    by_a_person(by)?;
    scope(caller, Action::Manage)?;
    let current = current.map(session_id);
    let mut ended = 0;
    for record in live(parts, caller).await? {
        let id = record.id();
        if current.as_ref() != Some(&id) {
            end(&parts.cluster, &id, parts.cluster.now()).await?;
            audit::write(What::SessionEnd, Some(&caller.sub), Some(&id), Outcome::Ok);
            ended += 1;
        }
    }
    Ok(EndedSessions { ended })
}

async fn live(parts: &Parts, caller: &Caller) -> Answer<Vec<SessionRecord>> {
    let now = parts.cluster.now();
    let all = parts.cluster.sessions(Some(&caller.sub)).await?;
    let mine = all.into_iter().map(|stored| stored.value);
    Ok(mine.filter(|record| record.is_live(now)).collect())
}

/// Whatever the role, one's own sessions and tokens are one's own; a token needs the scope all the same.
pub(super) fn scope(caller: &Caller, action: Action) -> Answer<()> {
    let needed = action.scope();
    match &caller.scopes {
        Some(scopes) if !scopes.contains(needed) => Err(Denied::Scope { needed }.into()),
        _ => Ok(()),
    }
}

fn is_id(id: &str) -> bool {
    id.len() == SESSION_ID
        && id
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
