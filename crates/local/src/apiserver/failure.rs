//! Refusals: every error that a request can meet, as a Kubernetes `Status` object.
//!
//! Wording follows `k8s.io/apimachinery/pkg/api/errors`, since clients and people match on it.

use serde_json::{Map, Value, json};

use super::registry::Resource;

/// One field at fault: a `causes` entry of an Invalid status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        let message = if detail.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {detail}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let message = format!("Invalid value: {value}: {detail}");
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message,
        }
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {detail}"),
        }
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message: format!("Duplicate value: {value}"),
        }
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message: format!(
                "Unsupported value: {value}: supported values: {}",
                list.join(", ")
            ),
        }
    }

    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self {
            reason: "FieldValueNotFound",
            field: field.into(),
            message: format!("Not found: {value}"),
        }
    }
}

/// A refused request.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
}

impl Failure {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
        }
    }

    fn about(mut self, resource: Resource, name: &str) -> Self {
        let info = resource.info();
        if !name.is_empty() {
            self.details.insert("name".into(), name.into());
        }
        if !info.group.is_empty() {
            self.details.insert("group".into(), info.group.into());
        }
        self.details.insert("kind".into(), info.plural.into());
        self
    }

    /// HTTP status code.
    pub(crate) fn code(&self) -> u16 {
        self.code
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let (Some(map), false) = (status.as_object_mut(), self.details.is_empty()) {
            map.insert("details".into(), Value::Object(self.details.clone()));
        }
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The caller's role does not allow the request. `scope` is `in the namespace "x"` or
    /// `at the cluster scope`.
    pub(crate) fn denied(
        user: &str,
        verb: &str,
        group: &str,
        plural: &str,
        name: &str,
        scope: &str,
    ) -> Self {
        let target = if name.is_empty() {
            String::new()
        } else {
            format!(" {name:?}")
        };
        let mut failure = Self::new(
            403,
            "Forbidden",
            format!(
                "{plural}{target} is forbidden: User {user:?} cannot {verb} resource {plural:?} \
                 in API group {group:?} {scope}"
            ),
        );
        failure.details.insert("kind".into(), plural.into());
        failure
    }

    /// The caller's role does not allow this path.
    pub(crate) fn denied_path(user: &str, verb: &str, path: &str) -> Self {
        Self::new(
            403,
            "Forbidden",
            format!("forbidden: User {user:?} cannot {verb} path {path:?}"),
        )
    }

    pub(crate) fn forbidden(resource: Resource, name: &str, why: &str) -> Self {
        let info = resource.info();
        Self::new(
            403,
            "Forbidden",
            format!("{} {name:?} is forbidden: {why}", info.qualified()),
        )
        .about(resource, name)
    }

    pub(crate) fn not_found(resource: Resource, name: &str) -> Self {
        let info = resource.info();
        Self::new(
            404,
            "NotFound",
            format!("{} {name:?} not found", info.qualified()),
        )
        .about(resource, name)
    }

    /// No such path.
    pub(crate) fn no_resource() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn already_exists(resource: Resource, name: &str) -> Self {
        let info = resource.info();
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", info.qualified()),
        )
        .about(resource, name)
    }

    pub(crate) fn conflict(resource: Resource, name: &str, why: &str) -> Self {
        let info = resource.info();
        Self::new(
            409,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {} {name:?}: {why}",
                info.qualified()
            ),
        )
        .about(resource, name)
    }

    /// The resourceVersion of a write is not the stored one.
    pub(crate) fn modified(resource: Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The resource version asked for has left the event log.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The object breaks rules of its kind.
    pub(crate) fn invalid(resource: Resource, name: &str, causes: &[Cause]) -> Self {
        let info = resource.info();
        let texts: Vec<String> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let kind = if info.group.is_empty() {
            info.kind.to_owned()
        } else {
            format!("{}.{}", info.kind, info.group)
        };
        let mut failure = Self::new(
            422,
            "Invalid",
            format!("{kind} {name:?} is invalid: {list}"),
        )
        .about(resource, name);
        failure.details.insert("kind".into(), info.kind.into());
        let causes: Vec<Value> = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        failure
            .details
            .insert("causes".into(), Value::Array(causes));
        failure
    }

    /// A JSON patch that does not apply, `test` operations included.
    pub(crate) fn patch_rejected(why: &str) -> Self {
        let mut failure = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        failure.details.insert(
            "causes".into(),
            json!([{"reason": "UnexpectedServerResponse", "message": why}]),
        );
        failure
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {}", message.into()),
        )
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message)
    }

    /// A resource version that this server has not reached, asked for with a bounded wait.
    pub(crate) fn future_version(asked: u64, current: u64) -> Self {
        let mut failure = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        );
        failure.details.insert(
            "causes".into(),
            json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]),
        );
        failure.details.insert("retryAfterSeconds".into(), 1.into());
        failure
    }
}
