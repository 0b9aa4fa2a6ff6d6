//! The audit trail: one record for each sign-in, refusal, and change that somebody asked for, written
//! by [`write()`] and by nothing else.
//!
//! A record is an ordinary log line, with the target `audit` and the message `audit`, so that
//! `--log` filters it and whatever collects logs routes it. Its fields and the closed list of what it
//! can tell are in `docs/audit.md`, which is printed from here.
//!
//! No record holds a token, a cookie, a code or a query. What comes from clients is bounded and
//! escaped, and left out where it looks like a token. Records of refusals are bounded in number
//! ([`refusals`]), so that whoever is refused a thousand times a second fills no disk.

mod refusals;
mod text;

pub use text::shown;

use crate::client::Source;
use refusals::{LeftOut, Refusals};
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often what was left out is told, while nothing else is.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Longest subject that is written whole, in bytes: longer ones are in no token that counts.
const MAX_WHO: usize = 255;
/// Longest name of an object that is written whole, in bytes: that of a Kubernetes object.
const MAX_OBJECT: usize = 253;
/// Longest reason and request id that are written whole, in bytes.
const MAX_WORD: usize = 64;

macro_rules! closed {
    ($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal, $means:literal;)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $means] $variant,)+
        }

        impl $name {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// As it is written.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// What it means, for the documentation.
            #[must_use]
            pub fn means(self) -> &'static str {
                match self { $(Self::$variant => $means),+ }
            }
        }
    };
}

closed! {
    /// What was done, or tried.
    What {
        SignIn = "sign-in", "A sign-in ended: a session begins (`object` is its id), or why it does not";
        SignOut = "sign-out", "A session was ended by signing out; `object` is its id";
        HandOver = "hand-over", "A session was handed over to a workspace's host, which is `object`, or why it was not";
        SessionRenew = "session.renew", "A session does not go on: it was revoked, its user is not let in by the provider any more, or it is over";
        SessionEnd = "session.end", "A session was ended by its user, from the list of their sessions";
        SessionDisplace = "session.displace", "A session was ended because its user has too many; the newest stay";
        TokenCreate = "token.create", "A personal access token was made; `object` is its id";
        TokenRevoke = "token.revoke", "A personal access token was revoked; `object` is its id";
        KeysMake = "keys.make", "Keys that sign sessions were made, the first ones or since they were deleted; `object` is their Secret";
        KeysRotate = "keys.rotate", "The keys that sign sessions were changed";
        Request = "request", "A request was refused before anything else was looked at; `object` is the workspace that it was for, if any";
        Read = "read", "Looking at something was refused; `object` is what";
        WorkspaceSpawn = "workspace.spawn", "A workspace was made";
        WorkspaceStart = "workspace.start", "A workspace was started";
        WorkspaceStop = "workspace.stop", "A workspace was stopped";
        WorkspaceDelete = "workspace.delete", "A workspace was deleted; its volumes stay";
        WorkspaceDeleteData = "workspace.delete-data", "A workspace was deleted with its volumes";
        WorkspaceRelease = "workspace.release", "A workspace was deleted, or had been, and its id given free for others";
        WorkspaceKeep = "workspace.keep", "The time before which others do not upgrade a workspace was set or lifted";
        WorkspaceUpgrade = "workspace.upgrade", "An upgrade of a workspace was begun";
        WorkspaceRollback = "workspace.rollback", "A rollback of a workspace was begun";
        UpgradeAll = "upgrade-all", "An upgrade of many workspaces was begun; `object` is the operation. Dry runs are not told";
        OperationPause = "operation.pause", "An operation was paused";
        OperationResume = "operation.resume", "An operation was resumed, or approved after its canary";
        OperationCancel = "operation.cancel", "An operation was called off";
        OperationRetry = "operation.retry", "What failed in an operation is tried again; `object` is the new operation";
        TemplateCreate = "template.create", "A template was made";
        TemplateUpdate = "template.update", "A template was changed";
        TemplateDelete = "template.delete", "A template was deleted";
        LeftOut = "left-out", "So many further refusals of that minute have no record of their own (`left_out`)";
    }
}

closed! {
    /// What proves who asks.
    How {
        None = "none", "nothing that counts";
        Session = "session", "the cookie of a browser session";
        Bearer = "bearer", "a bearer token of the identity provider";
        PersonalToken = "personal-token", "a personal access token";
    }
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It was done.
    Ok,
    /// It was not, by a rule; a short word says which.
    Refused(&'a str),
    /// It was not, or nobody can tell, since something is broken or away; a short word says what.
    Failed(&'a str),
}

impl Outcome<'_> {
    fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused(_) => "refused",
            Self::Failed(_) => "failed",
        }
    }
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// What was done, or tried.
    pub what: What,
    /// Subject of who asked, if they are known.
    pub who: Option<&'a str>,
    /// Address of the client, if it is known.
    pub from: Option<IpAddr>,
    /// What proves who asked.
    pub how: How,
    /// What it was done to, by id or name.
    pub object: Option<&'a str>,
    /// What became of it.
    pub outcome: Outcome<'a>,
    /// Id of the request, if it came with one.
    pub request: Option<&'a str>,
}

static REFUSALS: LazyLock<Mutex<Refusals>> = LazyLock::new(|| Mutex::new(Refusals::default()));

/// Writes a record to the log; of refusals and failures, as many as are let through.
pub fn write(record: &Record<'_>) {
    if record.outcome == Outcome::Ok {
        line(record);
        return;
    }
    let (through, before) = {
        let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.next(record.from.map(Source::from), record.who, Instant::now())
    };
    before.iter().for_each(left_out);
    if through {
        line(record);
    }
}

/// Tells every minute what was left out, for as long as it is polled: so that the end of a flood is
/// told although nothing comes after it. One for each process.
pub async fn tell_what_is_left_out() {
    loop {
        tokio::time::sleep(TELL_EVERY).await;
        let before = {
            let mut refusals = REFUSALS.lock().unwrap_or_else(PoisonError::into_inner);
            refusals.over(Instant::now())
        };
        before.iter().for_each(left_out);
    }
}

fn line(record: &Record<'_>) {
    let reason = match record.outcome {
        Outcome::Ok => None,
        Outcome::Refused(reason) | Outcome::Failed(reason) => Some(shown(reason, MAX_WORD)),
    };
    tracing::info!(
        target: "audit",
        what = record.what.as_str(),
        who = record.who.map(|who| shown(who, MAX_WHO)).as_deref(),
        from = record.from.map(|from| from.to_canonical().to_string()).as_deref(),
        how = record.how.as_str(),
        object = record.object.map(|object| shown(object, MAX_OBJECT)).as_deref(),
        result = record.outcome.word(),
        reason = reason.as_deref(),
        request = record.request.map(|request| shown(request, MAX_WORD)).as_deref(),
        "audit"
    );
}

fn left_out(left_out: &LeftOut) {
    tracing::info!(
        target: "audit",
        what = What::LeftOut.as_str(),
        who = left_out.who.as_deref().map(|who| shown(who, MAX_WHO)).as_deref(),
        from = left_out.from.map(|from| from.to_string()).as_deref(),
        left_out = left_out.count,
        "audit"
    );
}

#[cfg(test)]
mod tests;
