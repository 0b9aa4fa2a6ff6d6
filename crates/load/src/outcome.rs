//! How one request ended, in the words a user would use.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How one request ended, after at most one retry of a stale connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A whole answer that met the expectation.
    Ok,
    /// Anything else.
    Failed(FailureKind),
}

/// Why a request counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// No connection came about.
    Connect,
    /// A whole answer, with another status than expected.
    Status,
    /// A whole answer with the right status, whose headers or body are not as expected.
    Content,
    /// The connection ended before the answer's head was complete.
    ResetBeforeHead,
    /// The connection ended in the middle of the answer's body.
    ResetInBody,
    /// The deadline passed.
    Timeout,
    /// The answer is not HTTP/1.1.
    Protocol,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect error",
            Self::Status => "unexpected status",
            Self::Content => "unexpected content",
            Self::ResetBeforeHead => "reset before the head",
            Self::ResetInBody => "reset in the body",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol error",
        })
    }
}

/// Why a request was sent again on a fresh connection, as browsers and HTTP clients do.
/// Counted, never hidden; whatever the second try yields is the request's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// The server had closed the idle connection; not a byte of the request had left.
    Unsent,
    /// The server closed the idle connection while an idempotent request was under way
    /// to it: not a byte of an answer came, and the end came at once.
    Sent,
}

/// A try that failed, as far as the retry rule cares.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Try {
    pub(crate) kind: FailureKind,
    /// The connection had carried a request before.
    pub(crate) reused: bool,
    /// The request may have left.
    pub(crate) sent: bool,
    /// A byte of the answer came.
    pub(crate) answered: bool,
    /// From sending to the failure.
    pub(crate) took: std::time::Duration,
}

/// The retry rule: only a connection that was closed while it lay idle.
///
/// RFC 9110, section 9.2.2 lets clients retry idempotent requests. A close that comes
/// later than `window` after the request was sent is no such race: the server had the
/// request and dropped it, and that is a failure.
pub(crate) fn stale(failed: Try, idempotent: bool, window: std::time::Duration) -> Option<Stale> {
    if failed.kind != FailureKind::ResetBeforeHead || !failed.reused || failed.answered {
        return None;
    }
    if !failed.sent {
        return Some(Stale::Unsent);
    }
    (idempotent && failed.took <= window).then_some(Stale::Sent)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_a_close_of_an_idle_connection_is_retried() {
        let race = Try {
            kind: FailureKind::ResetBeforeHead,
            reused: true,
            sent: true,
            answered: false,
            took: Duration::from_millis(3),
        };
        let window = Duration::from_millis(100);
        let rule = |t: Try, idempotent| stale(t, idempotent, window);
        assert_eq!(rule(race, true), Some(Stale::Sent));
        assert_eq!(rule(race, false), None, "not idempotent");
        assert_eq!(
            rule(
                Try {
                    sent: false,
                    ..race
                },
                false
            ),
            Some(Stale::Unsent)
        );
        assert_eq!(
            rule(
                Try {
                    reused: false,
                    ..race
                },
                true
            ),
            None,
            "a fresh connection"
        );
        assert_eq!(
            rule(
                Try {
                    reused: false,
                    sent: false,
                    ..race
                },
                true
            ),
            None
        );
        assert_eq!(
            rule(
                Try {
                    answered: true,
                    ..race
                },
                true
            ),
            None,
            "part of a head came"
        );
        assert_eq!(
            rule(
                Try {
                    took: Duration::from_millis(101),
                    ..race
                },
                true
            ),
            None,
            "no race"
        );
        for kind in [
            FailureKind::Connect,
            FailureKind::Status,
            FailureKind::ResetInBody,
            FailureKind::Timeout,
        ] {
            assert_eq!(rule(Try { kind, ..race }, true), None, "{kind}");
        }
    }
}
