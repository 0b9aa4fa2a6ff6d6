//! Who may do what: the one rule, used by proxy and control alike.
//!
//! Identity is an argument. A [`Caller`] is made from a verified token and handed down; nothing in
//! nogoo9 asks who is calling from anywhere else.

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
    /// A template with its `allowed-roles` (empty: everyone).
    Template {
        /// Roles that may use it.
        allowed_roles: &'a [String],
    },
}

/// Who besides the owner may open a workspace's pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Nobody.
    #[default]
    Private,
    /// Everyone who is signed in.
    Authenticated,
    /// Those on the list.
    Only(Vec<Grant>),
}

/// One entry of a `visibility` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// `user:SUB`
    User(String),
    /// `role:ROLE`
    Role(String),
}

impl Visibility {
    /// Reads the annotation. Anything unknown is private: also a list with one unknown entry, since
    /// half a rule is not what its author meant.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default().trim();
        match text {
            "" | "private" => return Self::Private,
            "authenticated" | "internal" => return Self::Authenticated,
            _ => {}
        }
        let grant = |entry: &str| {
            let (kind, name) = entry.trim().split_once(':')?;
            match (kind, name) {
                (_, "") => None,
                ("user", sub) => Some(Grant::User(sub.to_owned())),
                ("role", role) => Some(Grant::Role(role.to_owned())),
                _ => None,
            }
        };
        text.split(',')
            .map(grant)
            .collect::<Option<Vec<_>>>()
            .map_or(Self::Private, Self::Only)
    }

    fn admits(&self, caller: &Caller) -> bool {
        match self {
            Self::Private => false,
            Self::Authenticated => true,
            Self::Only(grants) => grants.iter().any(|grant| match grant {
                Grant::User(sub) => *sub == caller.sub,
                Grant::Role(role) => caller.roles.contains(role),
            }),
        }
    }
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
            Self::Spawn | Self::Manage | Self::Upgrade => "nogoo9:write",
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
            let named = || allowed_roles.iter().any(|role| caller.roles.contains(role));
            if allowed_roles.is_empty() || caller.is_admin() || named() {
                Ok(())
            } else {
                Err(Denied::AccessDenied)
            }
        }
        (Action::Read | Action::Spawn | Action::Manage | Action::Upgrade | Action::Open, _)
        | (Action::ReadTemplate, _) => Err(Denied::AccessDenied),
    }
}

#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
