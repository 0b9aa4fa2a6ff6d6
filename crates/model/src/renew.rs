//! What a proxy asks control about browser sessions: whether they still count, and for new tokens of
//! those that do. Unknown fields are ignored, unknown words read as [`Answer::Other`], and the version
//! is stated, so either side may be upgraded first.

use serde::{Deserialize, Serialize};

/// Version of these payloads.
pub const VERSION: u32 = 1;
/// Where a proxy asks, by POST. Not reachable from outside: the answer holds tokens, which no page may
/// ever read.
pub const PATH: &str = "/.nogoo9/renew";
/// Most sessions of one question.
pub const MOST: usize = 100;

/// The question: some sessions, each proven by its own token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// [`MOST`] at most.
    pub sessions: Vec<Held>,
}

/// A session token as a browser sent it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// The host that it was sent to, and is bound to.
    pub host: String,
    /// The token.
    pub token: String,
}

/// Answers, in the order of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answers {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// One a session.
    pub answers: Vec<Answer>,
}

/// What became of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "verdict",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Answer {
    /// It goes on.
    Renewed {
        /// Its new token, for the same host.
        token: String,
        /// Until when that counts without control being asked, in Unix seconds.
        fresh_until: i64,
        /// When the session ends, in Unix seconds.
        ends: i64,
    },
    /// It is over: revoked, ended, or not one of ours.
    Refused,
    /// Control cannot tell now.
    Unknown,
    /// Something that a later version says.
    #[serde(other)]
    Other,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Renewed {
                fresh_until, ends, ..
            } => f
                .debug_struct("Renewed")
                .field("fresh_until", fresh_until)
                .field("ends", ends)
                .finish_non_exhaustive(),
            Self::Refused => f.write_str("Refused"),
            Self::Unknown => f.write_str("Unknown"),
            Self::Other => f.write_str("Other"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_what_a_later_version_may_say() {
        let text = r#"{"version":2,"more":1,"answers":[
            {"verdict":"renewed","token":"t","freshUntil":5,"ends":9,"more":1},
            {"verdict":"refused"},{"verdict":"unknown"},{"verdict":"postponed"}]}"#;
        let read: Answers = serde_json::from_str(text).unwrap();
        let renewed = Answer::Renewed {
            token: "t".to_owned(),
            fresh_until: 5,
            ends: 9,
        };
        assert_eq!(
            read.answers,
            [renewed, Answer::Refused, Answer::Unknown, Answer::Other]
        );
        let written = serde_json::to_string(&read.answers[0]).unwrap();
        assert_eq!(
            written,
            r#"{"verdict":"renewed","token":"t","freshUntil":5,"ends":9}"#
        );
    }

    #[test]
    fn tokens_are_not_shown() {
        let held = Held {
            host: "dev.localhost".to_owned(),
            token: "secret".to_owned(),
        };
        let renewed = Answer::Renewed {
            token: "secret".to_owned(),
            fresh_until: 5,
            ends: 9,
        };
        let shown = format!("{held:?} {renewed:?}");
        assert!(
            shown.contains("dev.localhost") && !shown.contains("secret"),
            "{shown}"
        );
    }
}
