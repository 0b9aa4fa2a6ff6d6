//! What can go wrong between control and the API server.

use nogoo9_model::container::Trouble;

/// A failed call. `object` names what it was about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// Somebody else changed the object in between; read it again.
    #[error("{what} {object}: it was changed in between")]
    Conflict {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
    },
    /// An object of that name exists.
    #[error("{what} {object}: it exists already")]
    Exists {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
    },
    /// There is no such object.
    #[error("{what} {object}: there is none")]
    NotFound {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
    },
    /// The API server refuses it, and will again: quota, admission, validation, missing rights.
    #[error("{what} {object}: {trouble}")]
    Rejected {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
        /// What it said.
        trouble: Trouble,
    },
    /// The API server cannot answer now.
    #[error("{what} {object}: the API server cannot answer: {reason}")]
    Unavailable {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
        /// What happened.
        reason: String,
    },
    /// No answer in time; the write may have happened.
    #[error("{what} {object}: no answer within {seconds} s")]
    TimedOut {
        /// What was tried.
        what: &'static str,
        /// On which object.
        object: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The object holds something else than it should.
    #[error("{object} cannot be read: {reason}")]
    Malformed {
        /// Which object.
        object: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The record would be larger than a Secret should be.
    #[error(
        "the workspace's record would take {size} bytes, more than {limit}: use a smaller template"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
}

impl ClusterError {
    pub(super) fn from_kube(what: &'static str, object: &str, error: &kube::Error) -> Self {
        let object = object.to_owned();
        let kube::Error::Api(status) = error else {
            return Self::Unavailable {
                what,
                object,
                reason: deepest(error),
            };
        };
        match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => Self::Exists { what, object },
            (409, _) => Self::Conflict { what, object },
            // A patch that states a uid which is not the object's any more. A field's value may speak
            // of it too; that is no conflict, and would be one for ever.
            (422, "Invalid") if status.message.contains(" metadata.uid: ") => {
                Self::Conflict { what, object }
            }
            (404, _) => Self::NotFound { what, object },
            // Also 401: a token that was rotated a moment ago says nothing of the object.
            (401 | 408 | 429 | 500.., reason) => Self::Unavailable {
                what,
                object,
                reason: format!("{reason} ({})", status.code),
            },
            (_, reason) => {
                let reason = if reason.is_empty() { "Refused" } else { reason };
                Self::Rejected {
                    what,
                    object,
                    trouble: Trouble::new(reason, status.message.clone()),
                }
            }
        }
    }

    /// Whether the same call may succeed later without anybody doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::TimedOut { .. } | Self::Conflict { .. }
        )
    }
}

fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16, reason: &str, message: &str) -> ClusterError {
        let status = kube::core::Status::failure(message, reason).with_code(code);
        ClusterError::from_kube("create pod", "p", &kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn statuses() {
        assert!(matches!(
            answered(409, "AlreadyExists", ""),
            ClusterError::Exists { .. }
        ));
        assert!(matches!(
            answered(409, "Conflict", ""),
            ClusterError::Conflict { .. }
        ));
        assert!(matches!(
            answered(404, "NotFound", ""),
            ClusterError::NotFound { .. }
        ));
        let moved = "Pod \"p\" is invalid: metadata.uid: Invalid value: \"a\": field is immutable";
        assert!(matches!(
            answered(422, "Invalid", moved),
            ClusterError::Conflict { .. }
        ));
        let slip = "Pod \"p\" is invalid: spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \
            \"metadata.uidd\": error converting fieldPath: field label not supported: metadata.uidd";
        assert!(matches!(
            answered(422, "Invalid", slip),
            ClusterError::Rejected { .. }
        ));
        for code in [401, 429, 500, 503, 504] {
            assert!(answered(code, "x", "").is_transient(), "{code}");
        }
        let quota = answered(403, "Forbidden", "exceeded quota: q");
        assert!(!quota.is_transient());
        assert_eq!(
            quota.to_string(),
            "create pod p: Forbidden: exceeded quota: q"
        );
    }
}
