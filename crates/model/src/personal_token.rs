//! Personal access tokens, for scripts and for clients that cannot sign in.
//!
//! The token itself is shown once and stored nowhere: what is kept, in a Secret whose name is part of
//! the token's hash, is who it speaks for and how far it reaches. It never reaches further than its
//! owner did when it was made, and may reach less far by its scopes.

use crate::UnixSeconds;
use crate::access::{Caller, Role};
use crate::label::base32_sha256;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How tokens begin: people and secret scanners know them by it.
pub const PREFIX: &str = "ng9_";
/// Random bytes in a token. 200 bits, so a plain hash of it is as good as a slow one.
pub const ENTROPY: usize = 25;
/// Characters after the prefix.
const LETTERS: usize = 40;
/// Characters of an id: 130 bits of the hash.
const ID: usize = 26;
/// Most tokens of one user that have not expired.
pub const MOST: usize = 20;
/// How long a token counts if nothing is said, in days.
pub const DEFAULT_DAYS: u16 = 30;
/// How long a token may count at most, in days.
pub const MAX_DAYS: u16 = 365;
/// Longest name, in characters.
pub const MAX_NAME: usize = 64;
/// The last use is written again after so many seconds.
const NOTE_EVERY: UnixSeconds = 3600;
const DAY: UnixSeconds = 24 * 3600;

/// To look.
pub const READ: &str = "nogoo9:read";
/// To change what is one's own.
pub const WRITE: &str = "nogoo9:write";
/// To upgrade everyone's. Never given unless it is named.
pub const ADMIN: &str = "nogoo9:admin";

/// Where a proxy asks control whom a token speaks for, with the token as bearer. Not reachable from
/// outside.
pub const PATH: &str = "/.nogoo9/personal-token";
/// Version of [`Proven`].
pub const VERSION: u32 = 1;

/// What control tells a proxy of a token that counts. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proven {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// Whom it speaks for, and how far it reaches.
    pub caller: Caller,
    /// When it ends.
    pub expires: UnixSeconds,
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonalToken {
    /// [`hash`] of the token.
    pub hash: String,
    /// Raw subject of whoever it speaks for.
    pub owner: String,
    /// For people.
    pub name: String,
    /// The owner's role when it was made; it never amounts to more.
    pub role: Role,
    /// The owner's roles when it was made, as the identity provider named them.
    pub roles: Vec<String>,
    /// What it may be used for.
    pub scopes: BTreeSet<String>,
    /// When it was made.
    pub created: UnixSeconds,
    /// From when on it counts no more.
    pub expires: UnixSeconds,
    /// When it was last used, to the hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<UnixSeconds>,
}

/// What somebody wants of a new token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// For people.
    pub name: &'a str,
    /// What it may be used for; `None`: all that its owner may do to what is their own.
    pub scopes: Option<&'a [String]>,
    /// Days that it counts; `None`: [`DEFAULT_DAYS`].
    pub days: Option<u16>,
}

/// Why such a token cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{argument}: {problem}")]
pub struct Refusal {
    /// Which argument is wrong.
    pub argument: &'static str,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The token that these random bytes make.
#[must_use]
pub fn token(entropy: &[u8; ENTROPY]) -> String {
    let mut text = data_encoding::BASE32_NOPAD.encode(entropy);
    text.make_ascii_lowercase();
    format!("{PREFIX}{text}")
}

/// Whether it has the form of a token. What has not need not be looked up.
#[must_use]
pub fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.len() == LETTERS && is_base32(rest))
}

/// What a token is known by to its owner, and its Secret is named by.
#[must_use]
pub fn id(token: &str) -> String {
    base32_sha256(token.as_bytes(), ID)
}

/// Whether it is such an id; nothing else gets into the name of an object.
#[must_use]
pub fn is_id(text: &str) -> bool {
    text.len() == ID && is_base32(text)
}

/// The whole hash of a token, in base32.
#[must_use]
pub fn hash(token: &str) -> String {
    base32_sha256(token.as_bytes(), 52)
}

fn is_base32(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte))
}

impl PersonalToken {
    /// What is kept of `token`, made by `caller` at `now`.
    ///
    /// # Errors
    /// Its name, scopes or days cannot be had.
    pub fn new(
        token: &str,
        caller: &Caller,
        wanted: &Wanted<'_>,
        now: UnixSeconds,
    ) -> Result<Self, Refusal> {
        let days = wanted.days.unwrap_or(DEFAULT_DAYS);
        if !(1..=MAX_DAYS).contains(&days) {
            return Err(Refusal {
                argument: "expiresInDays",
                problem: format!("a token counts for 1 to {MAX_DAYS} days"),
            });
        }
        Ok(Self {
            hash: hash(token),
            owner: caller.sub.clone(),
            name: name(wanted.name)?,
            role: caller.role,
            roles: caller.roles.clone(),
            scopes: scopes(wanted.scopes, caller)?,
            created: now,
            expires: now.saturating_add(UnixSeconds::from(days) * DAY),
            last_used: None,
        })
    }

    /// What it is known by; see [`id`].
    #[must_use]
    pub fn id(&self) -> &str {
        self.hash.get(..ID).unwrap_or_default()
    }

    /// Whether it counts no more.
    #[must_use]
    pub fn is_expired(&self, now: UnixSeconds) -> bool {
        self.expires <= now
    }

    /// Whether `token` is the one, and counts at `now`. Both hashes come from here, so how long it
    /// takes to compare them tells nothing.
    #[must_use]
    pub fn is_proven_by(&self, token: &str, now: UnixSeconds) -> bool {
        self.hash == hash(token) && !self.is_expired(now)
    }

    /// Whom it speaks for. `now_is` is what the owner's roles of then amount to by the rules of now:
    /// the lesser of both counts.
    #[must_use]
    pub fn caller(&self, now_is: Caller) -> Caller {
        Caller {
            role: now_is.role.min(self.role),
            scopes: Some(self.scopes.clone()),
            ..now_is
        }
    }

    /// The same as used at `now`; `None`: that is written already, or nearly so.
    #[must_use]
    pub fn used(&self, now: UnixSeconds) -> Option<Self> {
        let due = self
            .last_used
            .is_none_or(|last| now >= last.saturating_add(NOTE_EVERY));
        due.then(|| Self {
            last_used: Some(now),
            ..self.clone()
        })
    }
}

fn name(text: &str) -> Result<String, Refusal> {
    let name = text.trim();
    let usable =
        !name.is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(char::is_control);
    if usable {
        return Ok(name.to_owned());
    }
    Err(Refusal {
        argument: "name",
        problem: format!(
            "say what the token is for, in 1 to {MAX_NAME} characters without control characters"
        ),
    })
}

fn scopes(wanted: Option<&[String]>, caller: &Caller) -> Result<BTreeSet<String>, Refusal> {
    let refused = |problem: String| {
        Err(Refusal {
            argument: "scopes",
            problem,
        })
    };
    let has = |scope: &str| {
        caller
            .scopes
            .as_ref()
            .is_none_or(|scopes| scopes.contains(scope))
    };
    let Some(wanted) = wanted else {
        let all: BTreeSet<String> = [READ, WRITE]
            .into_iter()
            .filter(|scope| has(scope))
            .map(ToOwned::to_owned)
            .collect();
        if all.is_empty() {
            return refused("what you are signed in by has no scope to hand on".to_owned());
        }
        return Ok(all);
    };
    for scope in wanted {
        if ![READ, WRITE, ADMIN].contains(&scope.as_str()) {
            return refused(format!("use some of {READ}, {WRITE} and {ADMIN}"));
        }
        if scope == ADMIN && !caller.is_admin() {
            return refused(format!("{ADMIN} is for admins"));
        }
        if !has(scope) {
            return refused(format!(
                "what you are signed in by has not the scope {scope} itself"
            ));
        }
    }
    if wanted.is_empty() {
        return refused(format!(
            "name at least one of {READ}, {WRITE} and {ADMIN}, or leave scopes out"
        ));
    }
    Ok(wanted.iter().cloned().collect())
}

#[cfg(test)]
mod tests;
