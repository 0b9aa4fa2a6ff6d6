//! Whom a template is for: the annotation `allowed-roles`.

use super::Caller;

/// Longest role, in bytes; tokens keep no longer ones.
const MAX_ROLE: usize = 128;
/// What is kept of a text that is not understood, in characters.
const SHOWN: usize = 60;

/// Whom a template is for, beside admins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AllowedRoles {
    /// Everyone.
    #[default]
    Everyone,
    /// Whoever has one of these roles.
    Only(Vec<String>),
    /// Nobody, since what it says is not understood: the beginning of that.
    Unclear(String),
}

impl AllowedRoles {
    /// Reads the annotation, a list with commas. Absent: everyone. One that names no role, or in which
    /// one entry can be none, is for nobody: half a rule is not what its author meant.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        let Some(text) = text else {
            return Self::Everyone;
        };
        let roles: Vec<&str> = text.split(',').map(str::trim).collect();
        if roles.iter().all(|role| is_role(role)) {
            return Self::Only(roles.into_iter().map(ToOwned::to_owned).collect());
        }
        Self::Unclear(text.trim().chars().take(SHOWN).collect())
    }

    /// Why it is for nobody but admins, and what to do.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let Self::Unclear(text) = self else {
            return None;
        };
        Some(format!(
            "annotation {} is '{text}', which is no list of roles: only admins may use the template \
             until it says, as in data,ops, whom it is for, or is removed",
            crate::keys::ALLOWED_ROLES
        ))
    }

    /// Whether one of the roles that the caller's token names is meant.
    pub(super) fn name(&self, caller: &Caller) -> bool {
        match self {
            Self::Everyone => true,
            Self::Only(roles) => roles.iter().any(|role| caller.roles.contains(role)),
            Self::Unclear(_) => false,
        }
    }
}

/// Whether a provider could call a role that. Brackets and quotes are a list in another notation.
fn is_role(text: &str) -> bool {
    let other = |c: char| c.is_control() || "[]{}\"'*;".contains(c);
    !text.is_empty() && text.len() <= MAX_ROLE && !text.contains(other)
}
