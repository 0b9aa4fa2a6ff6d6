//! `${{name}}` in string values.
//!
//! Works on parsed values only: what is put in can never become structure, whatever it holds. Keys
//! of maps are left alone, and what was put in is not looked at again.

use serde_json::Value;

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// What the variables of a template stand for. Always the owner's, whoever asked.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// `${{user}}`: the owner's subject.
    pub user: &'a str,
    /// `${{workspace_id}}`: the workspace's id.
    pub workspace_id: &'a str,
    /// `${{workspace}}`: the name that people gave it.
    pub workspace: &'a str,
}

/// A variable that cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    /// Not one of ours.
    #[error(
        "${{{{{name}}}}} is not known; use ${{{{user}}}}, ${{{{workspace_id}}}} or ${{{{workspace}}}}"
    )]
    Unknown {
        /// Its name, shortened.
        name: String,
    },
    /// `${{` without its `}}`.
    #[error("'${{{{' is not closed by '}}}}' in '{text}'")]
    Unclosed {
        /// What follows it, shortened.
        text: String,
    },
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "user" => Some(self.user),
            "workspace_id" => Some(self.workspace_id),
            "workspace" => Some(self.workspace),
            _ => None,
        }
    }

    /// Replaces the variables of one string.
    ///
    /// # Errors
    /// [`SubstituteError`]: an unknown variable or one that is not closed.
    pub fn text(&self, text: &str) -> Result<String, SubstituteError> {
        let short = |text: &str| text.chars().take(40).collect::<String>();
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            out.push_str(before);
            let Some((name, tail)) = after.split_once(CLOSE) else {
                return Err(SubstituteError::Unclosed { text: short(after) });
            };
            let name = name.trim();
            let value = self
                .get(name)
                .ok_or_else(|| SubstituteError::Unknown { name: short(name) })?;
            out.push_str(value);
            rest = tail;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// Replaces the variables in every string value below `value`.
    ///
    /// # Errors
    /// [`SubstituteError`], of the first that cannot be replaced.
    pub fn value(&self, value: &Value) -> Result<Value, SubstituteError> {
        Ok(match value {
            Value::String(text) => Value::String(self.text(text)?),
            Value::Array(items) => Value::Array(
                items
                    .iter()
                    .map(|item| self.value(item))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| Ok((key.clone(), self.value(value)?)))
                    .collect::<Result<_, SubstituteError>>()?,
            ),
            other => other.clone(),
        })
    }
}
