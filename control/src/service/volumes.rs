//! Whether two pods of a manifest can be at once, by what they would share.

use super::{Answer, Parts};
use crate::template::{Template, TemplateError};
use k8s_openapi::api::core::v1::PodSpec;
use nogoo9_model::access::AllowedRoles;
use nogoo9_model::claim::PlannedClaim;
use nogoo9_model::mode::{self, Claim, Mode};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a template says of sharing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    /// Its name.
    pub(super) template: &'a str,
    /// Whether it allows two pods to share a claim for a moment.
    pub(super) side_by_side: bool,
}

impl<'a> From<&'a Template> for Rules<'a> {
    fn from(template: &'a Template) -> Self {
        Self {
            template: &template.name,
            side_by_side: template.settings.side_by_side,
        }
    }
}

/// Whether two pods of this manifest cannot be at once, since they would share a volume or host
/// port. `planned` are the workspace's claims, which may not exist yet.
pub(super) async fn exclusive(
    parts: &Parts,
    rules: Rules<'_>,
    manifest: &Value,
    planned: &[PlannedClaim],
) -> Answer<bool> {
    let spec = manifest.get("spec").cloned().unwrap_or_default();
    let spec: PodSpec = serde_json::from_value(spec).map_err(|error| TemplateError::Broken {
        name: rules.template.to_owned(),
        problem: error.to_string(),
        // Whose workspace it is has been asked already.
        roles: AllowedRoles::Everyone,
    })?;
    let mut claims: BTreeMap<&str, Claim> = BTreeMap::new();
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.persistent_volume_claim {
            let name = source.claim_name.as_str();
            let planned = planned.iter().find(|claim| claim.object == name);
            claims.insert(name, parts.cluster.claim(name, planned).await);
        }
    }
    let claim = |name: &str| claims.get(name).copied().unwrap_or(Claim::Unreadable);
    Ok(mode::choose(&spec, claim, rules.side_by_side) == Mode::Recreate)
}
