//! What a template's annotations ask for.

use crate::access::{Action, AllowedRoles, Caller, Denied, Target, may};
use crate::keys;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times of an upgrade, in seconds, as the template sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timing {
    /// How long the successor may take to become Ready.
    pub deadline: u32,
    /// How long it must stay Ready before commit.
    pub settle: u32,
    /// How long open sessions may keep the old pod.
    pub drain_timeout: u32,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            deadline: 600,
            settle: 5,
            drain_timeout: 1800,
        }
    }
}

/// A template's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Whom it is for.
    pub allowed_roles: AllowedRoles,
    /// Whether shared claims may be upgraded side by side.
    pub side_by_side: bool,
    /// Times of its upgrades.
    pub timing: Timing,
}

/// An annotation that cannot be used, by name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} is '{value}': {expected}")]
pub struct BadAnnotation {
    key: &'static str,
    value: String,
    expected: &'static str,
}

/// Longest time that a template may set: a day.
const MAX_SECONDS: u32 = 86_400;

impl Settings {
    /// Reads the annotations of a template.
    ///
    /// # Errors
    /// [`BadAnnotation`], naming the key: such a template is not used, since a guessed deadline
    /// would surprise at the worst moment.
    pub fn parse(annotations: &BTreeMap<String, String>) -> Result<Self, BadAnnotation> {
        let get = |key: &str| annotations.get(key).map(|value| value.trim());
        let seconds = |key: &'static str, default: u32| match get(key) {
            None => Ok(default),
            Some(value) => value
                .parse()
                .ok()
                .filter(|s| *s <= MAX_SECONDS)
                .ok_or_else(|| BadAnnotation {
                    key,
                    value: value.chars().take(40).collect(),
                    expected: "use whole seconds, 86400 at most",
                }),
        };
        let defaults = Timing::default();
        let mode = get(keys::UPGRADE_MODE).unwrap_or_default();
        if !matches!(mode, "" | "side-by-side") {
            return Err(BadAnnotation {
                key: keys::UPGRADE_MODE,
                value: mode.chars().take(40).collect(),
                expected: "the only value is side-by-side",
            });
        }
        Ok(Self {
            allowed_roles: AllowedRoles::parse(get(keys::ALLOWED_ROLES)),
            side_by_side: mode == "side-by-side",
            timing: Timing {
                deadline: seconds(keys::UPGRADE_DEADLINE, defaults.deadline)?,
                settle: seconds(keys::SETTLE, defaults.settle)?,
                drain_timeout: seconds(keys::DRAIN_TIMEOUT, defaults.drain_timeout)?,
            },
        })
    }

    /// Whether the caller may see and use the template.
    ///
    /// # Errors
    /// [`Denied`].
    pub fn may_use(&self, caller: &Caller) -> Result<(), Denied> {
        may(
            caller,
            Action::ReadTemplate,
            Target::Template {
                allowed_roles: &self.allowed_roles,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, BadAnnotation> {
        Settings::parse(
            &pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn settings() {
        assert_eq!(parse(&[]).unwrap(), Settings::default());
        let set = parse(&[
            (keys::ALLOWED_ROLES, "data, ops"),
            (keys::UPGRADE_MODE, "side-by-side"),
            (keys::SETTLE, "0"),
            (keys::DRAIN_TIMEOUT, "60"),
        ])
        .unwrap();
        let two = AllowedRoles::Only(["data", "ops"].map(str::to_owned).into());
        assert_eq!(set.allowed_roles, two);
        assert_eq!(
            set.timing,
            Timing {
                deadline: 600,
                settle: 0,
                drain_timeout: 60
            }
        );
        for (key, value) in [
            (keys::SETTLE, "5s"),
            (keys::UPGRADE_DEADLINE, "86401"),
            (keys::UPGRADE_MODE, "blue"),
        ] {
            let refused = parse(&[(key, value)]).unwrap_err().to_string();
            assert!(
                refused.contains(key) && refused.contains(value),
                "{refused}"
            );
        }
    }
}
