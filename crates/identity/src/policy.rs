//! From a token's claims to a [`Caller`]: which claim holds the roles, and what they amount to.

use nogoo9_model::access::{Caller, Role, SCOPES};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Roles kept of a token; more would not fit into a session token, and into no request header.
pub const MAX_ROLES: usize = 32;
/// Longest role kept, in bytes.
const MAX_ROLE_LEN: usize = 128;
/// Longest subject, in bytes (OpenID Connect Core, section 2).
pub(crate) const MAX_SUB_LEN: usize = 255;

/// How claims become roles. One per process, from the flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPolicy {
    /// Where the roles are (`--roles-claim`): a claim's name, or a dotted path into nested objects
    /// (`realm_access.roles`). A name that itself has dots (`https://example.com/roles`) works too.
    pub roles_claim: String,
    /// The role that makes an administrator (`--admin-role`).
    pub admin_role: String,
    /// Subjects that are administrators whatever their roles (`--admin-sub`).
    pub admin_subs: Vec<String>,
    /// What somebody is whose token names none of nogoo9's roles (`--default-role`).
    pub default_role: Role,
    /// Where the scopes of a bearer token are, as `roles_claim` says where its roles are, if it
    /// needs one for what it does (`--scopes on`). `None`: no scope rule, scopes mean nothing.
    pub scopes_claim: Option<String>,
}

impl Default for ClaimPolicy {
    fn default() -> Self {
        Self {
            roles_claim: "roles".to_owned(),
            admin_role: "admin".to_owned(),
            admin_subs: Vec::new(),
            default_role: Role::User,
            scopes_claim: None,
        }
    }
}

impl ClaimPolicy {
    /// The roles that verified claims name: a list of strings, or one string with spaces between
    /// them. Own roles come first, so that none of these is lost to [`MAX_ROLES`].
    #[must_use]
    pub fn roles(&self, claims: &Map<String, Value>) -> Vec<String> {
        self.roles_where(claims, |_| true)
    }

    /// As [`Self::roles`], of the roles that are not nogoo9's own only those that `keep` wants: a
    /// session travels with every request, and some providers name hundreds of groups.
    #[must_use]
    pub fn roles_where(
        &self,
        claims: &Map<String, Value>,
        keep: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let named = words(lookup(claims, &self.roles_claim));
        let mut kept: Vec<String> = Vec::new();
        let (own, other): (Vec<&str>, Vec<&str>) =
            named.into_iter().partition(|role| self.own(role).is_some());
        let other = other.into_iter().filter(|role| keep(role));
        for role in own.into_iter().chain(other) {
            let usable = !role.is_empty() && role.len() <= MAX_ROLE_LEN;
            if usable && kept.len() < MAX_ROLES && !kept.iter().any(|one| one == role) {
                kept.push(role.to_owned());
            }
        }
        kept
    }

    /// Whether claims say anything of roles at all.
    #[must_use]
    pub fn names_roles(&self, claims: &Map<String, Value>) -> bool {
        lookup(claims, &self.roles_claim).is_some()
    }

    /// The scopes that verified claims of a bearer token grant, of those that nogoo9 knows: a list of
    /// strings, or one string with spaces between them. Where the rule is on, a token without any
    /// may do nothing; `None`: it is off.
    #[must_use]
    pub fn scopes(&self, claims: &Map<String, Value>) -> Option<BTreeSet<String>> {
        let path = self.scopes_claim.as_deref()?;
        let granted = words(lookup(claims, path));
        let known = SCOPES.into_iter().filter(|scope| granted.contains(scope));
        Some(known.map(str::to_owned).collect())
    }

    /// The caller whom a subject and the roles of [`Self::roles`] amount to.
    #[must_use]
    pub fn caller(&self, sub: &str, roles: Vec<String>) -> Caller {
        let named = roles.iter().filter_map(|role| self.own(role)).max();
        let role = if self.admin_subs.iter().any(|admin| admin == sub) {
            Role::Admin
        } else {
            named.unwrap_or(self.default_role)
        };
        Caller {
            sub: sub.to_owned(),
            roles,
            role,
            scopes: None,
        }
    }

    fn own(&self, role: &str) -> Option<Role> {
        // Where the administrators' role has another name, a token's `admin` means nothing here.
        if role == self.admin_role {
            return Some(Role::Admin);
        }
        match role {
            "user" => Some(Role::User),
            "viewer" => Some(Role::Viewer),
            _ => None,
        }
    }
}

/// Which roles a session carries beside nogoo9's own (`--session-roles`): names, of which one that
/// ends in `*` stands for all that begin so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRoles(Vec<String>);

impl SessionRoles {
    /// Those that match any of `patterns`.
    #[must_use]
    pub fn new(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self(vec!["*".to_owned()])
    }

    /// Whether the session carries `role`.
    #[must_use]
    pub fn carries(&self, role: &str) -> bool {
        self.0
            .iter()
            .any(|pattern| match pattern.strip_suffix('*') {
                Some(beginning) => role.starts_with(beginning),
                None => role == pattern,
            })
    }
}

/// The strings of a list, or the words of one string; of anything else none.
fn words(value: Option<&Value>) -> Vec<&str> {
    match value {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The value at a dotted path. The longest name wins at each level, so a claim whose name has dots
/// is found before a path that happens to read the same.
fn lookup<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.rmatch_indices('.').find_map(|(dot, _)| {
        let (name, rest) = (path.get(..dot)?, path.get(dot + 1..)?);
        lookup(claims.get(name)?.as_object()?, rest)
    })
}

/// Whether a subject can be anybody's: not empty, not longer than OpenID Connect allows, without
/// control characters.
pub fn valid_sub(sub: &str) -> bool {
    !sub.is_empty() && sub.len() <= MAX_SUB_LEN && !sub.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
