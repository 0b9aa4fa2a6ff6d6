//! What a user may set on a workspace: the annotation `nogoo9/parameters`, a subset of JSON Schema.
//!
//! An object schema with `properties` and `required`; each property has `type` (string, integer,
//! boolean) and may have `enum`, `pattern`, `minLength`, `maxLength`, `minimum`, `maximum`,
//! `default`, `title`, `description` and our `x-env`. Any other keyword makes the template broken:
//! a rule that is written down and not applied would be worse than none.
//!
//! **The rule for values:** input `NAME` becomes the environment variable `x-env`, or else `NAME` in
//! upper case with `-` as `_`, of the first container; a user's value wins over `default`. The
//! inputs `name` and `port` are nogoo9's own: the workspace's name and the port that it serves on.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Inputs that every template takes.
const RESERVED: [&str; 2] = ["name", "port"];
/// Longest string that is taken where the parameter sets no `maxLength`.
const MAX_LENGTH: u64 = 1024;
/// Longest name of a workspace, in characters.
const MAX_NAME: usize = 100;

/// The parameters of a template, by name.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    by_name: BTreeMap<String, Parameter>,
    schema: Option<Value>,
}

/// One parameter.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// What values it takes.
    pub kind: ParameterType,
    /// Environment variable that gets the value.
    pub env: String,
    /// Whether a value must be given.
    pub required: bool,
    /// Value where none is given.
    pub default: Option<Value>,
    /// Allowed values; empty: any.
    pub allowed: Vec<Value>,
    /// Short name for people.
    pub title: Option<String>,
    /// Help for people.
    pub description: Option<String>,
    pattern: Option<regex::Regex>,
    /// Characters of a string, or value of an integer.
    min: Option<i64>,
    max: Option<i64>,
}

/// Types that a parameter may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    /// Text.
    String,
    /// Whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
}

/// What to do about inputs that the template does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Refuse them: somebody is typing.
    Spawn,
    /// Leave them be: an older version of the template took them, a newer may again.
    Upgrade,
}

/// An input that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("input '{name}' {problem}")]
pub struct InputError {
    /// The input.
    pub name: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

fn refuse(name: &str, problem: impl Into<String>) -> InputError {
    InputError {
        name: name.chars().take(60).collect(),
        problem: problem.into(),
    }
}

impl Parameters {
    /// The parameters, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.by_name
            .iter()
            .map(|(name, parameter)| (name.as_str(), parameter))
    }

    /// The schema as the template has it.
    pub fn schema(&self) -> Option<&Value> {
        self.schema.as_ref()
    }

    /// Reads the annotation.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let schema: Value = serde_json::from_str(text).map_err(|e| format!("is no JSON: {e}"))?;
        let object = schema
            .as_object()
            .ok_or("must be a JSON Schema of type object")?;
        known(
            object,
            &[
                "type",
                "properties",
                "required",
                "title",
                "description",
                "$schema",
                "additionalProperties",
            ],
        )?;
        if object.get("type").is_some_and(|t| t != "object") {
            return Err("must be a JSON Schema of type object".into());
        }
        let mut by_name = BTreeMap::new();
        if let Some(properties) = object.get("properties") {
            for (name, property) in properties
                .as_object()
                .ok_or("has properties that are no object")?
            {
                let parameter = Parameter::parse(name, property)
                    .map_err(|e| format!("has the parameter '{name}' which {e}"))?;
                by_name.insert(name.clone(), parameter);
            }
        }
        for name in object
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let parameter = name.as_str().and_then(|name| by_name.get_mut(name));
            parameter
                .ok_or_else(|| format!("requires {name}, which is not among its properties"))?
                .required = true;
        }
        Ok(Self {
            by_name,
            schema: Some(schema),
        })
    }

    /// Checks what a user set.
    ///
    /// # Errors
    /// [`InputError`] of the first input that is unknown, missing or wrong.
    pub fn check(
        &self,
        inputs: &Map<String, Value>,
        strictness: Strictness,
    ) -> Result<(), InputError> {
        for (name, value) in inputs {
            if RESERVED.contains(&name.as_str()) {
                check_reserved(name, value)?;
            } else if let Some(parameter) = self.by_name.get(name) {
                parameter
                    .check(value)
                    .map_err(|problem| refuse(name, problem))?;
            } else if strictness == Strictness::Spawn {
                let known: Vec<&str> = self
                    .by_name
                    .keys()
                    .map(String::as_str)
                    .chain(RESERVED)
                    .collect();
                return Err(refuse(
                    name,
                    format!(
                        "is not a parameter of this template; it takes: {}",
                        known.join(", ")
                    ),
                ));
            }
        }
        let missing = |(name, parameter): &(&String, &Parameter)| {
            parameter.required && parameter.default.is_none() && !inputs.contains_key(*name)
        };
        match self.by_name.iter().find(missing) {
            Some((name, _)) => Err(refuse(
                name,
                "is required by this template and was not given",
            )),
            None => Ok(()),
        }
    }

    /// The environment variables that these inputs amount to, by name. Check them first.
    pub(super) fn environment(&self, inputs: &Map<String, Value>) -> BTreeMap<&str, String> {
        let value = |(name, parameter): (&String, &'_ Parameter)| {
            let value = inputs
                .get(name)
                .cloned()
                .or_else(|| parameter.default.clone())?;
            Some(match value {
                Value::String(text) => text,
                other => other.to_string(),
            })
        };
        self.by_name
            .iter()
            .filter_map(|entry| Some((entry.1.env.as_str(), value(entry)?)))
            .collect()
    }
}

fn check_reserved(name: &str, value: &Value) -> Result<(), InputError> {
    match (name, value) {
        ("port", Value::Number(port))
            if port.as_u64().is_some_and(|p| (1..=65_535).contains(&p)) =>
        {
            Ok(())
        }
        ("port", _) => Err(refuse(name, "must be a whole number from 1 to 65535")),
        (_, Value::String(text)) => {
            let length = text.chars().count();
            if (1..=MAX_NAME).contains(&length)
                && !text.chars().any(char::is_control)
                && text.trim() == text
            {
                Ok(())
            } else {
                Err(refuse(
                    name,
                    format!(
                        "must be 1 to {MAX_NAME} printable characters without surrounding spaces"
                    ),
                ))
            }
        }
        _ => Err(refuse(name, "must be text")),
    }
}

/// Refuses schema keywords that would be ignored.
fn known(object: &Map<String, Value>, keywords: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !keywords.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "uses '{key}', which nogoo9 does not apply; it knows: {}",
            keywords.join(", ")
        )),
        None => Ok(()),
    }
}

impl Parameter {
    fn parse(name: &str, schema: &Value) -> Result<Self, String> {
        if RESERVED.contains(&name) {
            return Err("has a name that nogoo9 keeps for itself; rename it".into());
        }
        let object = schema.as_object().ok_or("is no object")?;
        let kind = match object.get("type").and_then(Value::as_str) {
            Some("string") => ParameterType::String,
            Some("integer") => ParameterType::Integer,
            Some("boolean") => ParameterType::Boolean,
            _ => return Err("needs the type string, integer or boolean".into()),
        };
        let common = [
            "type",
            "enum",
            "default",
            "title",
            "description",
            "examples",
            "x-env",
        ];
        let (own, min, max): (&[&str], _, _) = match kind {
            ParameterType::String => (
                &["pattern", "minLength", "maxLength"],
                "minLength",
                "maxLength",
            ),
            ParameterType::Integer => (&["minimum", "maximum"], "minimum", "maximum"),
            ParameterType::Boolean => (&[], "", ""),
        };
        known(object, &[&common[..], own].concat())?;
        let text = |key: &str| object.get(key).and_then(Value::as_str);
        let bound = |key: &str| match object.get(key) {
            None => Ok(None),
            Some(value) => value
                .as_i64()
                .map(Some)
                .ok_or(format!("has a {key} that is no whole number")),
        };
        let env = text("x-env").map_or_else(
            || name.to_ascii_uppercase().replace('-', "_"),
            ToOwned::to_owned,
        );
        if !is_env_name(&env) {
            return Err(format!(
                "would set the environment variable '{env}'; name one of A-Z, 0-9 and _ in x-env"
            ));
        }
        let pattern = text("pattern")
            .map(regex::Regex::new)
            .transpose()
            .map_err(|_| "has a pattern that is no regular expression")?;
        let allowed = match object.get("enum") {
            None => Vec::new(),
            Some(Value::Array(values)) if !values.is_empty() => values.clone(),
            Some(_) => return Err("has an enum that is no list of values".into()),
        };
        let parameter = Self {
            kind,
            env,
            required: false,
            default: object.get("default").cloned(),
            allowed,
            title: text("title").map(ToOwned::to_owned),
            description: text("description").map(ToOwned::to_owned),
            pattern,
            min: bound(min)?,
            max: bound(max)?,
        };
        if let Some(default) = &parameter.default {
            parameter
                .check(default)
                .map_err(|e| format!("has a default that {e}"))?;
        }
        Ok(parameter)
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let within = |n: i64, unit: &str, max: Option<i64>| {
            if self.min.is_some_and(|min| n < min) {
                Err(format!(
                    "must be at least {}{unit}",
                    self.min.unwrap_or_default()
                ))
            } else if max.is_some_and(|max| n > max) {
                Err(format!("must be at most {}{unit}", max.unwrap_or_default()))
            } else {
                Ok(())
            }
        };
        match (self.kind, value) {
            (ParameterType::String, Value::String(text)) => {
                let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
                within(
                    length,
                    " characters long",
                    self.max.or(i64::try_from(MAX_LENGTH).ok()),
                )?;
                if text.contains('\0') {
                    return Err("holds a NUL character, which no environment variable can".into());
                }
                if let Some(pattern) = &self.pattern
                    && !pattern.is_match(text)
                {
                    return Err(format!("must match the pattern {pattern}"));
                }
            }
            (ParameterType::Integer, Value::Number(number)) => {
                let number = number.as_i64().ok_or("must be a whole number")?;
                within(number, "", self.max)?;
            }
            (ParameterType::Boolean, Value::Bool(_)) => {}
            (ParameterType::String, _) => return Err("must be text".into()),
            (ParameterType::Integer, _) => return Err("must be a whole number".into()),
            (ParameterType::Boolean, _) => return Err("must be true or false".into()),
        }
        if self.allowed.is_empty() || self.allowed.contains(value) {
            return Ok(());
        }
        let values: Vec<String> = self.allowed.iter().map(ToString::to_string).collect();
        Err(format!("must be one of {}", values.join(", ")))
    }
}

fn is_env_name(name: &str) -> bool {
    name.bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}
