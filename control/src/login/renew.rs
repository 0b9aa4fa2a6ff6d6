//! Whether a session goes on: its record says so, and, every ten minutes at most, the provider.
//!
//! One renewal of a session at a time, in this process by a lock, among several by the record, which
//! is claimed before the refresh token is used: a provider that rotates refresh tokens takes the use
//! of an old one for theft. A renewal that has begun ends, whether or not anybody still waits.

use super::Login;
use super::provider::Vouched;
use crate::cluster::{ClusterError, Stored};
use crate::session::{Refusal, Roles, SessionRecord, Step, end};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::session::{Freshness, Session, SignError};
use nogoo9_identity::{TokenError, Verified};
use nogoo9_model::access::Caller;
use nogoo9_model::{UnixSeconds, name};
use nogoo9_runtime::audit::{Outcome, What};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// How long somebody waits for a renewal without which they cannot go on; it goes on without them.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a page waits for one in passing: a slow provider shall slow nobody down.
const IN_PASSING: Duration = Duration::from_millis(800);
/// After how long a stream is looked at again that began while nobody could tell, in seconds.
const LOOKED_AT_AGAIN: UnixSeconds = 60;
/// Attempts at a change of the record that others change too.
const ATTEMPTS: usize = 5;
/// Pause between two attempts at writing what the provider has said, and between two looks at whether
/// it has said anything to another control.
const PAUSE: Duration = Duration::from_millis(200);

/// What became of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// It goes on.
    Renewed(Session),
    /// It is over.
    Refused(Refusal),
    /// Nobody can tell now.
    Unknown,
}

/// What a session's cookie comes to on the console's host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It counts until then.
    Counts {
        /// The session as it goes on, where it was renewed: roles may have changed.
        renewed: Option<Session>,
        /// For a stream: when it is to be looked at again.
        until: UnixSeconds,
        /// `Set-Cookie` of its successor.
        cookie: Option<String>,
    },
    /// It is as good as none.
    Over,
}

/// One renewal of a session at a time.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn of(&self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Bounded by what is under way.
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        turns.insert(id.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

impl Login {
    /// What the session of a verified console cookie comes to: renewed where it is time.
    pub async fn keep(self: &Arc<Self>, held: &Verified) -> Kept {
        let now = self.now();
        let as_it_is = |until: UnixSeconds| Kept::Counts {
            renewed: None,
            until: until.min(held.expires),
            cookie: None,
        };
        let Some(fresh_until) = held.fresh_until else {
            return as_it_is(held.expires);
        };
        let freshness = held.freshness(now);
        if freshness == Freshness::Fresh {
            return as_it_is(fresh_until);
        }
        let patience = match freshness {
            Freshness::Stale => PATIENCE,
            Freshness::Fresh | Freshness::Due => IN_PASSING,
        };
        match self.renew_within(held, patience).await {
            Renewal::Renewed(session) => {
                let host = self.config.console_host();
                let cookie = self.cookie(&session, host).inspect_err(
                    |error| tracing::error!(%error, "a renewed session could not be signed"),
                );
                Kept::Counts {
                    until: session.fresh_until.unwrap_or(session.expires),
                    cookie: cookie.ok(),
                    renewed: Some(session),
                }
            }
            Renewal::Refused(_) => Kept::Over,
            Renewal::Unknown if freshness == Freshness::Due => as_it_is(fresh_until),
            Renewal::Unknown => {
                let grace = fresh_until.saturating_add(self.config.limits.grace);
                if now < grace {
                    as_it_is(grace.min(now.saturating_add(LOOKED_AT_AGAIN)))
                } else {
                    Kept::Over
                }
            }
        }
    }

    /// Whether the session of a verified token goes on, and with what.
    pub async fn renew(self: &Arc<Self>, held: &Verified) -> Renewal {
        self.renew_within(held, PATIENCE).await
    }

    async fn renew_within(self: &Arc<Self>, held: &Verified, patience: Duration) -> Renewal {
        let Some(sid) = held.sid.clone() else {
            return Renewal::Refused(Refusal::Unknown);
        };
        let (login, sub) = (Arc::clone(self), held.caller.sub.clone());
        let seen = crate::audit::seen().unwrap_or_default();
        let going_on = tokio::spawn(async move {
            let id = name::session_id(&sid);
            let turn = login.turns.of(&id);
            let _mine = turn.lock().await;
            let outcome = login.go_on(&id, &sid, &sub).await;
            if let Ok(Renewal::Refused(why)) = &outcome {
                let refused = Outcome::Refused(why.reason());
                seen.write(What::SessionRenew, Some(&sub), Some(&id), refused);
            }
            outcome
        });
        match tokio::time::timeout(patience, going_on).await {
            Ok(Ok(Ok(outcome))) => outcome,
            Ok(Ok(Err(error))) => {
                tracing::warn!(%error, "whether a session goes on cannot be told");
                Renewal::Unknown
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "a renewal broke off");
                Renewal::Unknown
            }
            Err(_) => Renewal::Unknown,
        }
    }

    /// Whether a session that was renewed a moment ago has not been ended since; `false` where that
    /// cannot be told soon.
    pub async fn still_lives(&self, sid: &str) -> bool {
        let id = name::session_id(sid);
        let read = tokio::time::timeout(IN_PASSING, self.cluster.session(&id)).await;
        matches!(read, Ok(Ok(Some(found))) if found.value.is_live(self.now()))
    }

    /// Whom a session speaks for.
    #[must_use]
    pub fn caller(&self, session: &Session) -> Caller {
        self.policy.caller(&session.sub, session.roles.clone())
    }

    /// A token of `session` on `host`, as `Set-Cookie` value.
    pub(super) fn cookie(&self, session: &Session, host: &str) -> Result<String, SignError> {
        let now = self.now();
        let token = self.signer().sign_session(session, host, now)?;
        let names: CookieNames = self.config.cookies();
        let life = session.expires.saturating_sub(now);
        Ok(names.set(names.session(), &token, life))
    }

    /// Whose session a token is, on whatever host it says.
    pub(super) fn verify(&self, token: &str, host: &str) -> Result<Arc<Verified>, TokenError> {
        self.sessions.verify(token, host, self.now())
    }

    async fn go_on(&self, id: &str, sid: &str, sub: &str) -> Result<Renewal, ClusterError> {
        for _ in 0..ATTEMPTS {
            let stored = self.cluster.session(id).await?;
            let Some(stored) = stored.filter(|stored| stored.value.sid == sid) else {
                return Ok(Renewal::Refused(Refusal::Unknown));
            };
            let now = self.now();
            match stored.value.step(sub, now) {
                Step::Refuse(why) => return Ok(Renewal::Refused(why)),
                Step::Sign(until) => {
                    if let Some(noted) = stored.value.note(now)
                        && let Err(error) = self.cluster.put_session(&stored, &noted).await
                    {
                        // Somebody else has, or will.
                        tracing::debug!(%error, "when a session was last seen is not noted");
                    }
                    return Ok(Renewal::Renewed(session(&stored.value, until)));
                }
                Step::Wait => tokio::time::sleep(PAUSE).await,
                Step::Refresh => {
                    let claim = stored.value.clone().claim(now);
                    match self.cluster.put_session(&stored, &claim).await {
                        Ok(claimed) => return self.ask(claimed).await,
                        Err(ClusterError::Conflict { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(Renewal::Unknown)
    }

    /// Asks the provider about a session whose refresh token is claimed.
    async fn ask(&self, claimed: Stored<SessionRecord>) -> Result<Renewal, ClusterError> {
        let record = &claimed.value;
        let sealed = record.refresh.as_deref().unwrap_or_default();
        let Ok(token) = self.keys.seal().open(sealed, &record.sid) else {
            tracing::error!(session = record.id(), "a refresh token cannot be opened");
            return self.over(claimed).await;
        };
        match self.provider.refresh(token).await {
            Ok(Vouched {
                who: Some((sub, _)),
                ..
            }) if sub != record.sub => {
                tracing::error!(
                    session = record.id(),
                    "the provider answers for somebody else"
                );
                self.over(claimed).await
            }
            Ok(vouched) => self.vouched(claimed, vouched).await,
            Err(error) if error.says_no() => self.over(claimed).await,
            Err(error) => {
                tracing::warn!(%error, session = record.id(), "the provider cannot be asked whether a session goes on");
                let now = self.now();
                let until = if error.is_away() {
                    Some(record.unchecked(now))
                } else {
                    record.untaken(now, self.config.limits.grace)
                };
                match until {
                    Some(until) => self.unanswered(claimed, until).await,
                    None => self.over(claimed).await,
                }
            }
        }
    }

    /// Notes for the others until when tokens count that are signed before the provider is asked
    /// again.
    async fn unanswered(
        &self,
        claimed: Stored<SessionRecord>,
        until: UnixSeconds,
    ) -> Result<Renewal, ClusterError> {
        let noted = claimed.value.clone().unanswered(until);
        match self.cluster.put_session(&claimed, &noted).await {
            Ok(_) => Ok(Renewal::Renewed(session(&noted, until))),
            // Perhaps it was ended meanwhile. Whoever asks next sees that.
            Err(ClusterError::Conflict { .. }) => Ok(Renewal::Unknown),
            Err(error) => Err(error),
        }
    }

    async fn over(&self, claimed: Stored<SessionRecord>) -> Result<Renewal, ClusterError> {
        end(&self.cluster, &claimed.value.id(), self.now()).await?;
        Ok(Renewal::Refused(Refusal::Provider))
    }

    /// Writes down what the provider said. The refresh token that it gave may be the only one that
    /// counts now, so this is tried again for a while.
    async fn vouched(
        &self,
        mut stored: Stored<SessionRecord>,
        vouched: Vouched,
    ) -> Result<Renewal, ClusterError> {
        let id = stored.value.id();
        let refresh = vouched.refresh.and_then(|token| {
            let sealed = self.keys.seal().seal(&token, &stored.value.sid);
            sealed
                .inspect_err(|error| tracing::error!(%error, "a refresh token could not be sealed"))
                .ok()
        });
        let roles = vouched.who.map(|(_, claims)| self.roles(&claims));
        let mut left = ATTEMPTS;
        loop {
            let now = self.now();
            let next = stored
                .value
                .clone()
                .vouched(refresh.clone(), roles.clone(), now);
            match self.cluster.put_session(&stored, &next).await {
                Ok(stored) => {
                    let until = match stored.value.step(&stored.value.sub, now) {
                        Step::Sign(until) => until,
                        Step::Refuse(why) => return Ok(Renewal::Refused(why)),
                        Step::Refresh | Step::Wait => stored.value.unchecked(now),
                    };
                    return Ok(Renewal::Renewed(session(&stored.value, until)));
                }
                Err(error) if left == 0 || !error.is_transient() => return Err(error),
                Err(_) => left -= 1,
            }
            tokio::time::sleep(PAUSE).await;
            match self.cluster.session(&id).await {
                // Ended meanwhile: that stands.
                Ok(None) => return Ok(Renewal::Refused(Refusal::Unknown)),
                Ok(Some(now)) if now.value.revoked.is_some() => {
                    return Ok(Renewal::Refused(Refusal::Revoked));
                }
                Ok(Some(now)) => stored = now,
                Err(_) => {}
            }
        }
    }

    /// The roles that a session carries.
    pub(super) fn roles(&self, claims: &serde_json::Map<String, serde_json::Value>) -> Roles {
        let carries = |role: &str| self.config.session_roles.carries(role);
        Roles {
            named: self.policy.names_roles(claims),
            roles: self.policy.roles_where(claims, carries),
        }
    }
}

/// What a record's tokens say until then.
pub(super) fn session(record: &SessionRecord, until: UnixSeconds) -> Session {
    Session {
        sub: record.sub.clone(),
        roles: record.roles.clone(),
        sid: record.sid.clone(),
        expires: record.ends,
        fresh_until: Some(until),
    }
}
