//! Label and field selectors: parsing and matching.

use std::fmt;

use serde_json::Value;

use super::failure::Failure;
use super::object;
use super::registry::{EVENTS_GROUP, Resource, Served};
use super::validate;

/// One term of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Term {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Greater(String, i64),
    Less(String, i64),
}

/// A label selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Labels(pub(crate) Vec<Term>);

impl Term {
    fn matches(&self, labels: Option<&Value>) -> bool {
        let value = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
        let number = |key: &str| value(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Term::Exists(key) => value(key).is_some(),
            Term::Absent(key) => value(key).is_none(),
            Term::In(key, list) => value(key).is_some_and(|v| list.iter().any(|x| x == v)),
            Term::NotIn(key, list) => value(key).is_none_or(|v| list.iter().all(|x| x != v)),
            Term::Greater(key, than) => number(key).is_some_and(|n| n > *than),
            Term::Less(key, than) => number(key).is_some_and(|n| n < *than),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Exists(key) => write!(f, "{key}"),
            Term::Absent(key) => write!(f, "!{key}"),
            Term::In(key, list) => match list.as_slice() {
                [one] => write!(f, "{key}={one}"),
                many => write!(f, "{key} in ({})", many.join(",")),
            },
            Term::NotIn(key, list) => match list.as_slice() {
                [one] => write!(f, "{key}!={one}"),
                many => write!(f, "{key} notin ({})", many.join(",")),
            },
            Term::Greater(key, than) => write!(f, "{key}>{than}"),
            Term::Less(key, than) => write!(f, "{key}<{than}"),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&terms.join(","))
    }
}

impl Labels {
    /// Parses the `labelSelector` parameter.
    pub(crate) fn parse(input: &str) -> Result<Self, Failure> {
        let terms: Result<Vec<Term>, String> = split_terms(input)
            .into_iter()
            .filter(|t| !t.is_empty())
            .map(term)
            .collect();
        match terms {
            Ok(terms) => Ok(Self(terms)),
            Err(why) => Err(Failure::bad_request(format!(
                "unable to parse requirement: {why}"
            ))),
        }
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels");
        self.0.iter().all(|term| term.matches(labels))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits at commas outside parentheses.
fn split_terms(input: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    input
        .split(move |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .map(str::trim)
        .collect()
}

fn key(text: &str) -> Result<String, String> {
    let text = text.trim();
    match validate::qualified_name(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(format!("key: Invalid value: {text:?}: {why}")),
    }
}

fn value(text: &str) -> Result<String, String> {
    let text = text.trim();
    match validate::label_value(text) {
        None => Ok(text.to_owned()),
        Some(why) => Err(format!("values: Invalid value: {text:?}: {why}")),
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.trim()
        .parse()
        .map_err(|_| format!("values[0]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer"))
}

fn term(text: &str) -> Result<Term, String> {
    if let Some(rest) = text.strip_prefix('!') {
        return Ok(Term::Absent(key(rest)?));
    }
    if let Some(open) = text.find('(') {
        let (head, tail) = text.split_at(open);
        let inner = tail
            .strip_prefix('(')
            .and_then(|t| t.strip_suffix(')'))
            .ok_or_else(|| format!("found {text:?}, expected: ')'"))?;
        let values: Result<Vec<String>, String> = inner.split(',').map(value).collect();
        let mut values = values?;
        values.sort_unstable();
        values.dedup();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(k), Some("in"), None) => Ok(Term::In(key(k)?, values)),
            (Some(k), Some("notin"), None) => Ok(Term::NotIn(key(k)?, values)),
            _ => Err(format!("found {text:?}, expected: in, notin")),
        };
    }
    if let Some((k, v)) = text.split_once("!=") {
        return Ok(Term::NotIn(key(k)?, vec![value(v)?]));
    }
    if let Some((k, v)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Term::In(key(k)?, vec![value(v)?]));
    }
    if let Some((k, v)) = text.split_once('>') {
        return Ok(Term::Greater(key(k)?, number(v)?));
    }
    if let Some((k, v)) = text.split_once('<') {
        return Ok(Term::Less(key(k)?, number(v)?));
    }
    Ok(Term::Exists(key(text)?))
}

/// One term of a field selector, resolved to where its value lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldTerm {
    pointers: &'static [&'static str],
    value: String,
    equal: bool,
}

/// A field selector: all terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<FieldTerm>);

const COMMON: &[(&str, &[&str])] = &[
    ("metadata.name", &["/metadata/name"]),
    ("metadata.namespace", &["/metadata/namespace"]),
];

impl Fields {
    /// Parses the `fieldSelector` parameter for a kind.
    pub(crate) fn parse(served: Served, input: &str) -> Result<Self, Failure> {
        let mut terms = Vec::new();
        for part in split_escaped(input) {
            if part.is_empty() {
                continue;
            }
            let (field, raw, equal) = if let Some((f, v)) = part.split_once("!=") {
                (f, v, false)
            } else if let Some((f, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (f, v, true)
            } else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: {input:?}; can't understand {part:?}"
                )));
            };
            let info = served.resource.info();
            // The second events group names the same fields in its own words.
            let stored = match (served.resource, served.group, field) {
                (Resource::Events, EVENTS_GROUP, f) => match f.strip_prefix("regarding.") {
                    Some(rest) => format!("involvedObject.{rest}"),
                    None if f == "reportingController" => "reportingComponent".to_owned(),
                    None => f.to_owned(),
                },
                (_, _, f) => f.to_owned(),
            };
            let found = COMMON
                .iter()
                .chain(info.fields)
                .find(|(name, _)| *name == stored);
            let Some((_, pointers)) = found else {
                return Err(Failure::bad_request(format!(
                    "Unable to find {:?} that match label selector \"\", field selector {input:?}: \
                     field label not supported: {field}",
                    format!("{}, Resource={}", served.api_version(), info.plural)
                )));
            };
            terms.push(FieldTerm {
                pointers,
                value: unescape(raw),
                equal,
            });
        }
        Ok(Self(terms))
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let found = term.pointers.iter().find_map(|p| match object.pointer(p) {
                Some(Value::String(s)) if !s.is_empty() => Some(s.clone()),
                Some(Value::Bool(b)) => Some(b.to_string()),
                _ => None,
            });
            // Absent booleans read as "false", absent texts as "".
            let found = match (found, term.pointers) {
                (Some(value), _) => value,
                (None, ["/spec/unschedulable"]) => "false".to_owned(),
                (None, _) => String::new(),
            };
            (found == term.value) == term.equal
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits at commas that no backslash precedes.
fn split_escaped(input: &str) -> Vec<&str> {
    let mut escaped = false;
    input
        .split(move |c: char| {
            let comma = c == ',' && !escaped;
            escaped = c == '\\' && !escaped;
            comma
        })
        .map(str::trim)
        .collect()
}

fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// A label and a field selector together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: Labels,
    pub(crate) fields: Fields,
}

impl Selector {
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.labels.matches(object) && self.fields.matches(object)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The name that the field selector pins, if it pins one: the object a `watch` is for.
    pub(crate) fn pinned_name(&self) -> Option<&str> {
        self.fields
            .0
            .iter()
            .find(|t| t.equal && t.pointers == ["/metadata/name"])
            .map(|t| t.value.as_str())
    }

    /// Only the object of this name.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.fields.0.push(FieldTerm {
            pointers: &["/metadata/name"],
            value: name.to_owned(),
            equal: true,
        });
        self
    }
}

/// Whether an object stands in a namespace; `None` means all.
pub(crate) fn in_namespace(object: &Value, namespace: Option<&str>) -> bool {
    namespace.is_none_or(|ns| object::namespace(object) == ns)
}

#[cfg(test)]
#[path = "selectors_tests.rs"]
mod tests;
