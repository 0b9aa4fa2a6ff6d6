//! How things stand with a workspace: the status document, and the events that follow it.

use super::Reply;
use crate::table::progress::WaitsFor;
use bytes::Bytes;
use http::StatusCode;
use nogoo9_model::absent::{Absent, Status};
use serde_json::{Value, json};

/// What is said of a workspace, as far as it is the caller's business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// One word.
    pub word: &'static str,
    /// A sentence.
    pub message: String,
    /// What its next pod waits for.
    pub waits_for: Option<WaitsFor>,
    /// How its last upgrade failed; `None` for whoever is neither owner nor admin.
    pub last_error: Option<String>,
}

impl Told {
    /// Whether nothing is left to wait for: it is there, or does not come by itself.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.word == crate::table::Status::Serving.word() || self.word == Status::Stopped.as_str()
    }

    fn json(&self) -> Value {
        let mut document = json!({"status": self.word, "message": self.message});
        if let Some(waits_for) = &self.waits_for {
            document["waitsFor"] = json!(waits_for.word());
            document["reason"] = json!(waits_for.sentence());
        }
        if let Some(error) = &self.last_error {
            document["lastError"] = json!(error);
        }
        document
    }

    /// As an event of a stream (WHATWG HTML, section 9.2).
    #[must_use]
    pub fn event(&self) -> Bytes {
        // One line: JSON escapes what ends lines.
        Bytes::from(format!("data: {}\n\n", self.json()))
    }
}

impl From<&Absent> for Told {
    fn from(absent: &Absent) -> Self {
        Self {
            word: absent.status.as_str(),
            message: absent.message.clone(),
            waits_for: None,
            last_error: None,
        }
    }
}

impl Reply {
    /// The status document.
    #[must_use]
    pub fn status(told: &Told) -> Self {
        Self::json(StatusCode::OK, &told.json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let told = Told {
            word: "starting",
            message: "a\nb\r\nc".to_owned(),
            waits_for: Some(WaitsFor::Image),
            last_error: Some("X: y\n\ndata: {}".to_owned()),
        };
        let event = String::from_utf8(told.event().to_vec()).unwrap();
        let line = event
            .strip_prefix("data: ")
            .unwrap()
            .strip_suffix("\n\n")
            .unwrap();
        assert!(!line.contains(['\n', '\r']), "{event:?}");
        let read: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&read["waitsFor"], &read["message"]),
            (&json!("image"), &json!("a\nb\r\nc"))
        );
        assert!(!told.is_final());
    }
}
