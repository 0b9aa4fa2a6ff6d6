//! Browser sessions, as their owner sees them.

use schemars::JsonSchema;
use serde::Serialize;

/// The caller's sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// Those that go on, the one seen last first.
    pub sessions: Vec<Session>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id, by which it can be ended.
    pub id: String,
    /// When it began (RFC 3339).
    pub created_at: String,
    /// When it was last in use, to within a quarter of an hour (RFC 3339).
    pub last_seen_at: String,
    /// When it ends (RFC 3339).
    pub ends_at: String,
    /// Whether it is the one that asks.
    pub current: bool,
}

/// What was ended. Open pages and sockets follow within a quarter of an hour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedSessions {
    /// How many sessions.
    pub ended: usize,
}
