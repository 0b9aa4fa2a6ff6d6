//! Who may do what: the one rule, used by proxy and control alike.
//!
//! Identity is an argument. A [`Caller`] is made from a verified token and handed down; nothing in
//! nogoo9 asks who is calling from anywhere else.

mod allowed;
mod visibility;

pub use allowed::AllowedRoles;
pub use visibility::{Authors, Grant, Visibility};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Every scope that [`Action::scope`] may ask for.
pub const SCOPES: [&str; 3] = ["nogoo9:read", "nogoo9:write", "nogoo9:admin"];

/// What a caller may be, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees own workspaces.
    Viewer,
    /// Runs own workspaces.
    User,
    /// Runs everyone's; does not thereby open everyone's pages.
    Admin,
}

/// Somebody whose token was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Subject, as the issuer says it.
    pub sub: String,
    /// Roles as the token names them; passed on to pods, matched by `visibility` and `allowed-roles`.
    pub roles: Vec<String>,
    /// The highest of nogoo9's own roles that those amount to.
    pub role: Role,
    /// The token's scopes where scopes are enforced; `None`: no scope rule.
    pub scopes: Option<BTreeSet<String>>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// See that the workspace exists, and its status, events, logs and operations.
    Read,
    /// Make a new workspace (owned by the workspace argument's owner).
    Spawn,
    /// Start, stop, delete.
    Manage,
    /// Move to a new template version, or back.
    Upgrade,
    /// Upgrade everyone's.
    UpgradeAll,
    /// See and use a template.
    ReadTemplate,
    /// Make, change and delete templates.
    WriteTemplates,
    /// Open the workspace's pages through the edge.
    Open,
}

/// What the action is done to.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// No object.
    Nothing,
    /// All workspaces, whoever owns them: what a bulk operation is about.
    Everyone,
    /// A workspace.
    Workspace {
        /// Raw subject of its owner.
        owner: &'a str,
        /// Who else may open it.
        visibility: &'a Visibility,
    },
    /// A template with its `allowed-roles`.
    Template {
        /// Whom it is for.
        allowed_roles: &'a AllowedRoles,
    },
    /// The templates, as a whole.
    Templates {
        /// Who besides admins may write them.
        authors: &'a Authors,
    },
}

/// A refusal. Its text is a contract: clients match on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Not theirs, or not there: the two must not be told apart.
    #[error("Access Denied")]
    AccessDenied,
    /// Bulk upgrades are for admins.
    #[error("Forbidden: Only admin users can upgrade all workspaces")]
    UpgradeAll,
    /// Templates are for those who write them.
    #[error("Forbidden: Only admin users and template authors can change templates")]
    WriteTemplates,
    /// The caller's role does not reach that far, whatever the object.
    #[error("Forbidden: this needs the role '{needed}'")]
    Role {
        /// The least role that would do.
        needed: &'static str,
    },
    /// The token lacks a scope.
    #[error("Forbidden: the token lacks the scope '{needed}'")]
    Scope {
        /// The scope that would do.
        needed: &'static str,
    },
}

impl Action {
    /// The scope that a bearer token needs for this where scopes are enforced.
    #[must_use]
    pub fn scope(self) -> &'static str {
        match self {
            Self::Read | Self::ReadTemplate | Self::Open => "nogoo9:read",
            Self::Spawn | Self::Manage | Self::Upgrade | Self::WriteTemplates => "nogoo9:write",
            Self::UpgradeAll => "nogoo9:admin",
        }
    }
}

impl Caller {
    /// Whether the caller administrates.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Whether the caller is that subject.
    #[must_use]
    pub fn is(&self, sub: &str) -> bool {
        self.sub == sub
    }
}

/// The only rule: whether `caller` may do `action` to `target`. What is not allowed here is denied.
///
/// # Errors
/// [`Denied`], whose text may be shown to the caller as it is.
pub fn may(caller: &Caller, action: Action, target: Target<'_>) -> Result<(), Denied> {
    if let Some(scopes) = &caller.scopes
        && !scopes.contains(action.scope())
    {
        return Err(Denied::Scope {
            needed: action.scope(),
        });
    }
    match (action, target) {
        (Action::UpgradeAll, _) if caller.is_admin() => Ok(()),
        (Action::UpgradeAll, _) => Err(Denied::UpgradeAll),
        (Action::Open, Target::Workspace { owner, visibility }) => {
            if caller.is(owner) || visibility.admits(caller) {
                Ok(())
            } else {
                Err(Denied::AccessDenied)
            }
        }
        (Action::Read, Target::Everyone) if caller.is_admin() => Ok(()),
        (Action::Read, Target::Workspace { owner, .. }) => {
            if caller.is(owner) || caller.is_admin() {
                Ok(())
            } else {
                Err(Denied::AccessDenied)
            }
        }
        (Action::Spawn | Action::Manage | Action::Upgrade, Target::Workspace { owner, .. }) => {
            match caller.role {
                Role::Admin => Ok(()),
                Role::User if caller.is(owner) => Ok(()),
                Role::Viewer if caller.is(owner) => Err(Denied::Role { needed: "user" }),
                Role::User | Role::Viewer => Err(Denied::AccessDenied),
            }
        }
        (Action::ReadTemplate, Target::Template { allowed_roles }) => {
            if caller.is_admin() || allowed_roles.name(caller) {
                Ok(())
            } else {
                Err(Denied::AccessDenied)
            }
        }
        (Action::WriteTemplates, Target::Templates { authors }) => match caller.role {
            Role::Admin => Ok(()),
            Role::User if authors.include(caller) => Ok(()),
            Role::User | Role::Viewer => Err(Denied::WriteTemplates),
        },
        (Action::Read | Action::Spawn | Action::Manage | Action::Upgrade | Action::Open, _)
        | (Action::ReadTemplate | Action::WriteTemplates, _) => Err(Denied::AccessDenied),
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
