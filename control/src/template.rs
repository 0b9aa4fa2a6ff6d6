//! Pod templates: read, given a version, rendered into a workspace's pod.
//!
//! Everything here but [`folder`] and [`source`] is pure. A template is a pod spec in YAML or JSON with the
//! annotations of `nogoo9_model::keys`; its [version](Template::version) is a hash of the *parsed*
//! spec and of those annotations that reach a pod, so rewriting it in another style or touching its
//! deadlines does not make workspaces outdated.

mod claims;
pub mod folder;
mod parameters;
mod parse;
mod render;
pub mod settings;
pub mod source;
mod substitute;
mod version;

pub use claims::claims;
pub use parameters::{InputError, Parameter, ParameterType, Parameters, Strictness};
pub use parse::{Document, parse};
pub use render::{RenderError, RenderInput, render};
pub use substitute::{SubstituteError, Variables};

use claims::ClaimTemplate;
use nogoo9_model::access::{Action, AllowedRoles, Caller, Target, may};
use nogoo9_model::template::Settings;
use serde_json::Value;
use std::collections::BTreeMap;

/// A template that was read and found usable.
#[derive(Debug, Clone)]
pub struct Template {
    /// Name: of the ConfigMap, or of the file without its extension.
    pub name: String,
    /// 12 characters that change when a pod rendered from it would.
    pub version: String,
    /// What its annotations ask for.
    pub settings: Settings,
    /// What a user may set.
    pub parameters: Parameters,
    /// The pod spec as parsed, variables unreplaced.
    pub(crate) spec: Value,
    /// The annotations that its pods get, variables unreplaced.
    pub(crate) annotations: BTreeMap<String, String>,
    /// The claims that each of its workspaces has.
    pub(crate) claims: Vec<ClaimTemplate>,
    /// All that its annotations say of ours, as they stand there.
    pub(crate) declared: BTreeMap<String, String>,
}

impl Template {
    /// The images of its containers, in order.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        let containers = self.spec.get("containers").and_then(Value::as_array);
        containers
            .into_iter()
            .flatten()
            .filter_map(|container| container.get("image")?.as_str())
    }

    /// What it calls the claims that each of its workspaces has, in order.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.claims.iter().map(|claim| claim.name.as_str())
    }

    /// The pod spec as parsed, variables unreplaced.
    pub fn spec(&self) -> &Value {
        &self.spec
    }
}

/// Why there is no template to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// No such template.
    #[error("there is no template '{name}'; list_templates names those there are")]
    NotFound {
        /// Its name.
        name: String,
    },
    /// It is there and cannot be used.
    #[error("template '{name}' cannot be used: {problem}")]
    Broken {
        /// Its name.
        name: String,
        /// What is wrong with which field, and what to do.
        problem: String,
        /// Whom it is for nevertheless, as far as that can be told.
        roles: AllowedRoles,
    },
    /// It could not be read just now; nothing is known of it.
    #[error("template '{name}' cannot be read now: {reason}")]
    Unreadable {
        /// Its name.
        name: String,
        /// What happened.
        reason: String,
    },
}

impl TemplateError {
    /// Whether the caller may learn this of it. Of a template that is not for them they learn that there
    /// is none.
    #[must_use]
    pub fn may_be_told(&self, caller: &Caller) -> bool {
        let Self::Broken { roles, .. } = self else {
            return true;
        };
        let template = Target::Template {
            allowed_roles: roles,
        };
        may(caller, Action::ReadTemplate, template).is_ok()
    }

    /// There is none of that name, or none for whoever asks.
    #[must_use]
    pub fn not_found(name: &str) -> Self {
        Self::NotFound {
            name: name.chars().take(80).collect(),
        }
    }

    /// The template's name.
    pub fn name(&self) -> &str {
        match self {
            Self::NotFound { name } | Self::Broken { name, .. } | Self::Unreadable { name, .. } => {
                name
            }
        }
    }
}

#[cfg(test)]
mod tests;
