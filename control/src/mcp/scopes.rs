//! Which scope a tool call needs, read off the request before anything of it is carried out, and which
//! one a call turned out to lack, read off its answer.
//!
//! The service decides, call by call; this is so that what it decides becomes HTTP's 403, by which
//! clients ask for more, instead of an error that only the model reads.

use super::Tools;
use nogoo9_model::access::{Action, SCOPES};
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::Arc;

/// Longest answer that may be a refusal, in bytes: one error, as JSON within JSON.
pub const MAX_REFUSAL: u64 = 4096;

/// The scope that each tool needs at least.
#[derive(Debug, Clone)]
pub struct ToolScopes(Arc<HashMap<String, &'static str>>);

impl ToolScopes {
    /// As the tools' hints say: what changes nothing reads.
    pub(super) fn of(tools: &Tools) -> Self {
        let needed = |tool: &rmcp::model::Tool| {
            let reads = tool
                .annotations
                .as_ref()
                .and_then(|hints| hints.read_only_hint);
            let action = match tool.name.as_ref() {
                // Tells whoever calls who they are.
                "get_capabilities" => return None,
                "upgrade_all_workspaces" => Action::UpgradeAll,
                _ if reads == Some(true) => Action::Read,
                _ => Action::Manage,
            };
            Some((tool.name.to_string(), action.scope()))
        };
        Self(Arc::new(tools.list().iter().filter_map(needed).collect()))
    }

    /// The scope that the call in this request body needs; `None`: none, or it is no call of a tool.
    #[must_use]
    pub fn of_call(&self, body: &[u8]) -> Option<&'static str> {
        let call: Call = serde_json::from_slice(body).ok()?;
        let name = (call.method == "tools/call").then_some(call.params?.name?)?;
        self.0.get(&name).copied()
    }
}

#[derive(Deserialize)]
struct Call {
    method: String,
    params: Option<Params>,
}

#[derive(Deserialize)]
struct Params {
    name: Option<String>,
}

/// The scope for want of which a tool refused, if that is what this JSON answer says.
#[must_use]
pub fn lacking(answer: &[u8]) -> Option<&'static str> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let result = answer.result.filter(|result| result.is_error)?;
    let [text] = result.content.as_slice() else {
        return None;
    };
    let refusal: Refusal = serde_json::from_str(&text.text).ok()?;
    SCOPES.into_iter().find(|scope| *scope == refusal.scope)
}

#[derive(Deserialize)]
struct Answer {
    result: Option<ToolResult>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult {
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    content: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

/// The body of [`crate::service::ServiceError`]; the scope is there if one is lacking.
#[derive(Deserialize)]
struct Refusal {
    scope: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(text: &serde_json::Value, is_error: bool) -> Vec<u8> {
        let content = json!([{"type": "text", "text": text.to_string()}]);
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content, "isError": is_error}})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn only_a_refusal_for_want_of_a_scope_is_one() {
        let body = json!({"code": "insufficient_scope", "scope": "nogoo9:admin"});
        assert_eq!(lacking(&answer(&body, true)), Some("nogoo9:admin"));
        assert_eq!(lacking(&answer(&body, false)), None);
        for other in [
            json!({"code": "access_denied", "message": "Access Denied"}),
            json!({"scope": "somebody's"}),
            json!("nogoo9:admin"),
        ] {
            assert_eq!(lacking(&answer(&other, true)), None, "{other}");
        }
        assert_eq!(lacking(br#"{"error": {"code": -32602}}"#), None);
        assert_eq!(lacking(b""), None);
    }

    #[test]
    fn a_call_is_read_as_it_is_sent() {
        let scopes = ToolScopes(Arc::new(
            [("stop_workspace".to_owned(), "nogoo9:write")].into(),
        ));
        for (body, needed) in [
            (
                r#"{"method":"tools/call","params":{"name":"stop_workspace","arguments":{"id":"x"}}}"#,
                Some("nogoo9:write"),
            ),
            (
                r#"{"params":{"arguments":{"name":"x"},"name":"stop\u005fworkspace"},"method":"tools/call"}"#,
                Some("nogoo9:write"),
            ),
            (r#"{"method":"tools/call","params":{"name":"none"}}"#, None),
            (
                r#"{"method":"tools/list","params":{"name":"stop_workspace"}}"#,
                None,
            ),
            (r#"{"method":"tools/call","params":{}}"#, None),
            (r#"{"method":"tools/call"}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(scopes.of_call(body.as_bytes()), needed, "{body}");
        }
    }
}
