//! What control tells a proxy of a workspace that the proxy knows no pods of. Unknown fields are
//! ignored, unknown words read as [`Status::Other`], and the version is stated, so either side may be
//! upgraded first.

use serde::{Deserialize, Serialize};

/// Version of [`Absent`].
pub const VERSION: u32 = 1;
/// Where a proxy asks, with the id behind it. Not reachable from outside.
pub const PATH: &str = "/.nogoo9/absent/";
/// Where a proxy passes the start button on to, with the id behind it. Not reachable from outside.
pub const START_PATH: &str = "/.nogoo9/start/";

/// Header in which it says, percent-encoded, which path inside the workspace was asked for, as far as that
/// tells whether it is an extra port's; see [`crate::ports`].
pub const AT: &str = "x-nogoo9-at";

/// Answer for somebody who may open the workspace; everybody else gets 404, as for an id that nobody
/// has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Absent {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// What the workspace is doing.
    pub status: Status,
    /// The same in a sentence; why it fails is said to its owner and to admins only.
    pub message: String,
    /// Whether the caller may start it.
    #[serde(default)]
    pub can_start: bool,
}

/// What a workspace without pods is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It has no pod and shall have none.
    Stopped,
    /// Its pod is on the way.
    Starting,
    /// Its pod is going.
    Stopping,
    /// It shall run and cannot.
    Failing,
    /// It is being removed.
    Deleting,
    /// Something that this version does not know.
    #[serde(other)]
    Other,
}

impl Status {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Stopping => "stopping",
            Self::Failing => "failing",
            Self::Deleting => "deleting",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_senders_are_understood() {
        let newer = r#"{"version":2,"status":"hibernating","message":"Asleep","since":7}"#;
        let read: Absent = serde_json::from_str(newer).unwrap();
        assert_eq!((read.status, read.can_start), (Status::Other, false));
        for status in [
            Status::Stopped,
            Status::Starting,
            Status::Stopping,
            Status::Failing,
            Status::Deleting,
        ] {
            let written = serde_json::to_string(&status).unwrap();
            assert_eq!(written, format!("\"{}\"", status.as_str()));
        }
    }
}
