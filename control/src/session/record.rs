//! The record of a browser session, and every decision about it. Pure: `now` is an argument.
//!
//! Tokens live for a quarter of an hour by themselves; the record decides whether there is another
//! one. Where the provider gave a refresh token, it is asked again before a token that counts for
//! longer than a quarter of an hour after its last yes: somebody whom it has disabled is out by then.
//! While it is away, tokens count for a few minutes each. Where it answers and yet says nothing of the
//! person, since it does not take us, that has an end.

use nogoo9_identity::session::FRESH_FOR;
use nogoo9_model::{UnixSeconds, name};
use serde::{Deserialize, Serialize};

/// Least time from one question to the provider about a session to the next, in seconds.
pub const CHECK_EVERY: UnixSeconds = 10 * 60;
/// For how long one control has the refresh token to itself, in seconds: longer than a call takes.
/// Also the pause before a provider that does not answer is asked again.
pub const CLAIM_FOR: UnixSeconds = 60;
/// How long a token counts for which the provider could not be asked, in seconds.
const UNCHECKED_FOR: UnixSeconds = 5 * 60;
/// Least time between two notes of when a session was last seen, in seconds.
const NOTE_EVERY: UnixSeconds = 5 * 60;
/// How long a revoked session is remembered, in seconds. After that it is as unknown as any.
const REVOKED_FOR: UnixSeconds = 3600;
/// Live sessions of one person, and ended ones that are remembered; beyond it the oldest go.
pub const MOST: usize = 50;

/// How long sessions last, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Any (`--session-length`).
    pub length: UnixSeconds,
    /// One whose provider gave no refresh token, and so cannot be asked again
    /// (`--session-unrefreshable`).
    pub unrefreshable: UnixSeconds,
    /// How long a token is accepted beyond its freshness while nobody can be asked
    /// (`--session-grace`).
    pub grace: UnixSeconds,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            length: 12 * 3600,
            unrefreshable: 3600,
            grace: 3600,
        }
    }
}

/// What is kept of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// Id of the session in its tokens.
    pub sid: String,
    /// Who is signed in.
    pub sub: String,
    /// Roles, as the provider last said.
    pub roles: Vec<String>,
    /// Whether the provider's ID tokens about it have said anything of roles. From then on one that does
    /// not says that there are none.
    #[serde(default)]
    pub roles_named: bool,
    /// When it began.
    pub started: UnixSeconds,
    /// When it ends, whatever happens.
    pub ends: UnixSeconds,
    /// When it was last renewed, to within five minutes.
    pub seen: UnixSeconds,
    /// When it was ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<UnixSeconds>,
    /// When the provider last vouched for it.
    pub checked: UnixSeconds,
    /// The provider's refresh token, sealed; none: it gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    /// Until when one control has the refresh token to itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed: Option<UnixSeconds>,
    /// Until when tokens count that were signed since the provider was asked and said neither yes nor
    /// no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<UnixSeconds>,
}

impl std::fmt::Debug for SessionRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionRecord")
            .field("id", &self.id())
            .field("sub", &self.sub)
            .field("ends", &self.ends)
            .field("revoked", &self.revoked)
            .finish_non_exhaustive()
    }
}

/// What an ID token says of roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// Whether it has the claim.
    pub named: bool,
    /// What is in it.
    pub roles: Vec<String>,
}

/// Those of a claim that was there.
impl From<Vec<String>> for Roles {
    fn from(roles: Vec<String>) -> Self {
        Self { named: true, roles }
    }
}

/// Why there is no further token. Closed set: log field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is no record, or it is somebody else's.
    Unknown,
    /// It was ended early.
    Revoked,
    /// Its time is over.
    Over,
    /// The provider does not vouch for it any more.
    Provider,
}

impl Refusal {
    /// A short fixed word.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Revoked => "revoked",
            Self::Over => "over",
            Self::Provider => "provider",
        }
    }
}

/// What a renewal does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// No.
    Refuse(Refusal),
    /// Signs a token that counts until then by itself.
    Sign(UnixSeconds),
    /// Asks the provider first.
    Refresh,
    /// Another control asks it now, and only its answer leads on.
    Wait,
}

impl SessionRecord {
    /// A session that begins now.
    #[must_use]
    pub fn begin(
        sid: String,
        sub: String,
        roles: impl Into<Roles>,
        refresh: Option<String>,
        limits: &Limits,
        now: UnixSeconds,
    ) -> Self {
        let length = match refresh {
            Some(_) => limits.length,
            None => limits.length.min(limits.unrefreshable),
        };
        let roles = roles.into();
        Self {
            sid,
            sub,
            roles: roles.roles,
            roles_named: roles.named,
            started: now,
            ends: now.saturating_add(length),
            seen: now,
            revoked: None,
            checked: now,
            refresh,
            claimed: None,
            unanswered: None,
        }
    }

    /// The id by which people and logs know it.
    #[must_use]
    pub fn id(&self) -> String {
        name::session_id(&self.sid)
    }

    /// Whether it goes on.
    #[must_use]
    pub fn is_live(&self, now: UnixSeconds) -> bool {
        self.revoked.is_none() && now < self.ends
    }

    /// Whether nothing is lost by forgetting it.
    #[must_use]
    pub fn is_over(&self, now: UnixSeconds) -> bool {
        let forgotten = |at: UnixSeconds| now >= at.saturating_add(REVOKED_FOR);
        now >= self.ends || self.revoked.is_some_and(forgotten)
    }

    /// What a renewal for `sub` does.
    #[must_use]
    pub fn step(&self, sub: &str, now: UnixSeconds) -> Step {
        if self.sub != sub {
            return Step::Refuse(Refusal::Unknown);
        }
        if self.revoked.is_some() {
            return Step::Refuse(Refusal::Revoked);
        }
        if now >= self.ends {
            return Step::Refuse(Refusal::Over);
        }
        if self.refresh.is_none() {
            return Step::Sign(self.until(now, FRESH_FOR));
        }
        // What a clock far ahead has written counts as now.
        let checked = self.checked.min(now);
        if now < checked.saturating_add(CHECK_EVERY) {
            return Step::Sign(self.until(checked, FRESH_FOR));
        }
        // Likewise: a claim is never longer than it can be.
        let claimed = |until: UnixSeconds| until > now && until <= now.saturating_add(CLAIM_FOR);
        if self.claimed.is_some_and(claimed) {
            // The same for all: what the last word was good for.
            let longest = now.saturating_add(UNCHECKED_FOR);
            let unanswered = self.unanswered.unwrap_or(checked).min(longest);
            let until = checked.saturating_add(FRESH_FOR).max(unanswered);
            return if now < until {
                Step::Sign(self.until(until, 0))
            } else {
                Step::Wait
            };
        }
        Step::Refresh
    }

    /// Until when a token counts for which the provider could not be asked.
    #[must_use]
    pub fn unchecked(&self, now: UnixSeconds) -> UnixSeconds {
        self.until(now, UNCHECKED_FOR)
    }

    /// As [`Self::unchecked`] where the provider answers, and does not take us. `None`: it has not
    /// vouched for `grace` seconds beyond what its last yes was good for.
    #[must_use]
    pub fn untaken(&self, now: UnixSeconds, grace: UnixSeconds) -> Option<UnixSeconds> {
        let checked = self.checked.min(now);
        let longest = checked.saturating_add(FRESH_FOR).saturating_add(grace);
        (now < longest).then(|| self.unchecked(now).min(longest))
    }

    /// The provider said neither yes nor no; what is signed meanwhile counts until then.
    #[must_use]
    pub fn unanswered(mut self, until: UnixSeconds) -> Self {
        self.unanswered = Some(until);
        self
    }

    /// The refresh token to oneself.
    #[must_use]
    pub fn claim(mut self, now: UnixSeconds) -> Self {
        self.claimed = Some(now.saturating_add(CLAIM_FOR));
        self
    }

    /// The provider has said yes, perhaps with another refresh token and, where there was an ID token,
    /// other roles.
    #[must_use]
    pub fn vouched(
        mut self,
        refresh: Option<String>,
        roles: Option<Roles>,
        now: UnixSeconds,
    ) -> Self {
        self.checked = now;
        self.seen = now;
        self.claimed = None;
        self.unanswered = None;
        if refresh.is_some() {
            self.refresh = refresh;
        }
        if let Some(Roles { named, roles }) = roles
            && (named || self.roles_named)
        {
            self.roles = roles;
            self.roles_named = true;
        }
        self
    }

    /// Ended. A second time changes nothing.
    #[must_use]
    pub fn revoke(mut self, now: UnixSeconds) -> Self {
        self.revoked.get_or_insert(now);
        self.refresh = None;
        self.claimed = None;
        self
    }

    /// Seen now, if that is worth a write.
    #[must_use]
    pub fn note(&self, now: UnixSeconds) -> Option<Self> {
        (now >= self.seen.saturating_add(NOTE_EVERY)).then(|| Self {
            seen: now,
            ..self.clone()
        })
    }

    fn until(&self, from: UnixSeconds, seconds: UnixSeconds) -> UnixSeconds {
        from.saturating_add(seconds).min(self.ends)
    }
}

/// The oldest of somebody's live sessions, so many that with one more there are [`MOST`]; and those that
/// do not live beyond the [`MOST`] newest. Nothing is lost by forgetting these: what has no record is
/// refused likewise.
#[must_use]
pub fn surplus<T, F>(mut sessions: Vec<T>, record: F, now: UnixSeconds) -> Vec<T>
where
    F: Fn(&T) -> &SessionRecord,
{
    sessions.sort_by(|a, b| {
        let (a, b) = (record(a), record(b));
        (a.started, &a.sid).cmp(&(b.started, &b.sid))
    });
    let lives = |one: &T| record(one).is_live(now);
    let (mut live, mut ended): (Vec<T>, Vec<T>) = sessions.into_iter().partition(lives);
    live.truncate((live.len() + 1).saturating_sub(MOST));
    ended.truncate(ended.len().saturating_sub(MOST));
    live.extend(ended);
    live
}

#[cfg(test)]
mod tests;
