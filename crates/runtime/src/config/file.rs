//! The optional TOML file: each key is the name of a flag, and becomes that flag unless
//! the command line or the environment already gave it.

use std::{ffi::OsString, path::Path};

use clap::{ArgAction, ArgMatches, Command, parser::ValueSource};
use toml::Value;

use super::Problems;

/// Flags that make sense on a command line only.
const LINE_ONLY: [&str; 4] = ["config", "check-config", "help", "version"];

/// The flags that the file adds to the command line. Mistakes go to `problems`, named by
/// key and file.
pub(super) fn flags(
    path: &Path,
    command: &Command,
    matches: &ArgMatches,
    problems: &mut Problems,
) -> Vec<OsString> {
    let Some(table) = read(path, problems) else {
        return Vec::new();
    };
    let mut added = Vec::new();
    for (key, value) in table {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(key.as_str()))
            .filter(|_| !LINE_ONLY.contains(&key.as_str()));
        let Some(arg) = arg else {
            let hint = nearest(&key, command)
                .map_or_else(String::new, |near| format!("; did you mean {near}?"));
            problems.add(
                "config",
                format!("{} has an unknown key `{key}`{hint}", path.display()),
            );
            continue;
        };
        let given = matches!(
            matches.value_source(arg.get_id().as_str()),
            Some(ValueSource::CommandLine | ValueSource::EnvVariable)
        );
        let list = matches!(arg.get_action(), ArgAction::Append);
        match values(&value, list) {
            Ok(values) if !given => {
                added.extend(values.iter().map(|v| format!("--{key}={v}").into()));
            }
            Ok(_) => {}
            Err(reason) => problems.add(&key, format!("{reason} (in {})", path.display())),
        }
    }
    added
}

fn read(path: &Path, problems: &mut Problems) -> Option<toml::Table> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| problems.add("config", format!("{} cannot be read: {e}", path.display())))
        .ok()?;
    text.parse::<toml::Table>()
        .map_err(|e| {
            // The parser's own report quotes the line, which may hold something private.
            let line = e.span().map_or(1, |span| {
                let before = text.get(..span.start).unwrap_or_default();
                before.matches('\n').count() + 1
            });
            let message = format!("{} line {line}: {}", path.display(), e.message());
            problems.add("config", message);
        })
        .ok()
}

fn values(value: &Value, list: bool) -> Result<Vec<String>, &'static str> {
    match value {
        Value::Array(items) if list => items.iter().map(scalar).collect(),
        Value::Array(_) => Err("takes one value, not a list"),
        one => scalar(one).map(|v| vec![v]),
    }
}

fn scalar(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::String(s) => Ok(s.clone()),
        Value::Integer(n) => Ok(n.to_string()),
        Value::Float(n) => Ok(n.to_string()),
        Value::Boolean(b) => Ok(b.to_string()),
        Value::Array(_) | Value::Table(_) | Value::Datetime(_) => {
            Err("must be a string, a number or true/false")
        }
    }
}

/// The flag that differs by dashes and underscores only, or contains the key.
fn nearest(key: &str, command: &Command) -> Option<String> {
    let wanted = key.replace('_', "-");
    command
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .find(|long| *long == wanted || long.contains(&wanted) || wanted.contains(long))
        .map(ToOwned::to_owned)
}
