//! What a request asks for, and how it is refused.

use crate::api::Kind;
use crate::wire::Answer;
use serde_json::json;

/// Kind, namespace and name, if it names one.
pub(crate) fn target(path: &str) -> Option<(Kind, String, Option<String>)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (["api", "v1", "namespaces", rest @ ..] | ["apis", _, _, "namespaces", rest @ ..]) =
        parts.as_slice()
    else {
        return None;
    };
    match rest {
        [namespace, plural] => Some((Kind::parse(plural)?, (*namespace).into(), None)),
        [namespace, plural, name] => Some((
            Kind::parse(plural)?,
            (*namespace).into(),
            Some((*name).into()),
        )),
        _ => None,
    }
}

/// Whether a selector of equalities and sets holds.
pub(crate) fn selects<'a>(selector: &str, value: impl Fn(&str) -> Option<&'a str>) -> bool {
    let mut rest = selector;
    while !rest.is_empty() {
        let end = match (rest.find(','), rest.find('(')) {
            (Some(comma), Some(open)) if open < comma => rest.find(')').map(|at| at + 1),
            (comma, _) => comma,
        };
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.trim_start_matches(',');
        let holds = if let Some((key, set)) = part.split_once(" in ") {
            let mut set = set.trim_matches(['(', ')']).split(',');
            set.any(|wanted| value(key.trim()) == Some(wanted.trim()))
        } else {
            let (key, wanted) = part
                .split_once('=')
                .unwrap_or_else(|| panic!("selector {selector}"));
            value(key) == Some(wanted.trim_start_matches('='))
        };
        if !holds {
            return false;
        }
    }
    true
}

pub(crate) fn not_found(name: &str) -> Answer {
    failure(404, "NotFound", &format!("\"{name}\" not found"))
}

pub(crate) fn conflict(name: &str) -> Answer {
    let message =
        format!("Operation cannot be fulfilled on \"{name}\": the object has been modified");
    failure(409, "Conflict", &message)
}

pub(crate) fn failure(code: u16, reason: &str, message: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    Answer::of(code, body)
}
