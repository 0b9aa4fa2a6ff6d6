//! [`PodView`]: what nogoo9 understands of a pod. Converted once, at the edge; everything behind it
//! works on this and never on raw objects.

use crate::access::Visibility;
use crate::container::{Trouble, restarts, trouble};
use crate::origins::AllowedOrigins;
use crate::ports::ExtraPorts;
use crate::{UnixSeconds, keys};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A workspace pod as the proxy and the planner see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// The pod's uid; a name may be used again, a uid never.
    pub uid: String,
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Version for conditional writes.
    pub resource_version: String,
    /// Workspace id.
    pub workspace: String,
    /// Owner's raw subject: the annotation, and where that is absent the label.
    pub owner: String,
    /// Greater replaces smaller; 0 where the label is absent or unreadable.
    pub generation: u32,
    /// Whether the generation label was there and could not be read (counted by the proxy).
    pub generation_unreadable: bool,
    /// creationTimestamp.
    pub created: UnixSeconds,
    /// First spawn of the workspace; where absent, [`Self::created`].
    pub since: UnixSeconds,
    /// status.phase.
    pub phase: Phase,
    /// Condition Ready.
    pub ready: Ready,
    /// Whether its node fell silent while the pod was ready: Ready was taken back for that, not for
    /// anything that the pod did. Nobody knows whether it still serves.
    pub unseen: bool,
    /// Whether deletionTimestamp is set.
    pub deleting: bool,
    /// When it should be gone at the latest, if it is being deleted.
    pub gone_by: Option<UnixSeconds>,
    /// The node that it was given to.
    pub node: Option<String>,
    /// Whether our scheduling gate holds it.
    pub gated: bool,
    /// Where an upgrade has brought it.
    pub state: UpgradeState,
    /// status.podIP.
    pub ip: Option<IpAddr>,
    /// Whether it is in its node's network: then it has that address together with others.
    pub host_network: bool,
    /// Where and how the workspace is served.
    pub serving: Serving,
    /// Template it was rendered from.
    pub template: TemplateRef,
    /// The operation that made it, if an upgrade did.
    pub upgrade_of: Option<UpgradeOf>,
    /// Annotation `last-upgrade-error`.
    pub last_upgrade_error: Option<String>,
    /// Annotation `last-upgrade`.
    pub last_upgrade: Option<String>,
    /// Restarts of the container that was restarted most.
    pub restarts: u32,
    /// What its containers complain of.
    pub trouble: Option<Trouble>,
}

/// How requests reach the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Port of the workspace.
    pub port: u16,
    /// Who besides the owner may open it.
    pub visibility: Visibility,
    /// Whose pages beside its own may use a session on its host.
    pub allow_origins: AllowedOrigins,
    /// What it serves beside that port.
    pub ports: ExtraPorts,
    /// Whether path mode takes `/route/{id}` off the path.
    pub strip_prefix: bool,
    /// Whether identity headers are added (no-crd's `no-auth` leaves them out).
    pub identity_headers: bool,
    /// Whether a session's requests stay on the pod that holds its sockets and streams.
    pub affinity: bool,
    /// Whether it speaks HTTP/2 in clear, and nothing else.
    pub http2: bool,
}

/// status.phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not running yet.
    Pending,
    /// Running.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container failed for good, or the pod was evicted.
    Failed,
    /// The node does not answer, or a word that is not known here.
    Unknown,
}

/// Condition Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Whether it is True.
    pub is: bool,
    /// lastTransitionTime, else creation.
    pub since: UnixSeconds,
}

/// Label `upgrade-state`; absent means committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeState {
    /// A successor that must still prove itself.
    Candidate,
    /// The workspace's pod.
    Committed,
    /// Takes no new requests: a recreate is about to delete it.
    Quiesced,
    /// A successor that was given up.
    Aborted,
}

/// Which template, in which version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRef {
    /// Template name; empty where the pod names none.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Annotation `upgrade-of`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeOf {
    /// Operation id.
    pub operation: String,
    /// Uid of the pod that it replaces.
    pub source_uid: String,
}

/// Why a pod is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAWorkspace {
    /// No uid, name or namespace: not an object that the API server gave out.
    #[error("the pod lacks uid, name or namespace")]
    Incomplete,
    /// Another `type`, or none.
    #[error("the pod is not labelled as a workspace")]
    Type,
    /// Not created by us.
    #[error("the pod is not managed by nogoo9")]
    Unmanaged,
    /// No workspace id.
    #[error("the pod names no workspace id")]
    NoId,
    /// No owner: nobody could be let in.
    #[error("the pod names no owner")]
    NoOwner,
}

impl UpgradeState {
    /// The label's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Committed => "committed",
            Self::Quiesced => "quiesced",
            Self::Aborted => "aborted",
        }
    }

    fn parse(label: Option<&str>) -> Self {
        match label {
            Some("candidate") => Self::Candidate,
            Some("quiesced") => Self::Quiesced,
            Some("aborted") => Self::Aborted,
            _ => Self::Committed,
        }
    }
}

impl PodView {
    /// Reads a pod.
    ///
    /// # Errors
    /// [`NotAWorkspace`] if it is not one of our workspace pods; such pods are never routed to and
    /// never touched.
    pub fn from_pod(pod: &Pod) -> Result<Self, NotAWorkspace> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        let meta = &pod.metadata;
        let labels = meta.labels.as_ref().unwrap_or(&NONE);
        let annotations = meta.annotations.as_ref().unwrap_or(&NONE);
        let label = |key: &str| labels.get(key).map(String::as_str);
        let annotation = |key: &str| annotations.get(key).map(String::as_str);
        if label(keys::TYPE) != Some(keys::TYPE_WORKSPACE) {
            return Err(NotAWorkspace::Type);
        }
        if label(keys::MANAGED_BY) != Some(keys::MANAGED_BY_SPAWNER) {
            return Err(NotAWorkspace::Unmanaged);
        }
        let workspace = label(keys::WORKSPACE_ID)
            .filter(|id| !id.is_empty())
            .ok_or(NotAWorkspace::NoId)?;
        let owner = annotation(keys::USER_SUB)
            .or_else(|| label(keys::USER_SUB))
            .filter(|sub| !sub.is_empty())
            .ok_or(NotAWorkspace::NoOwner)?;
        let (Some(uid), Some(name), Some(namespace)) = (&meta.uid, &meta.name, &meta.namespace)
        else {
            return Err(NotAWorkspace::Incomplete);
        };
        let created = meta
            .creation_timestamp
            .as_ref()
            .map_or(0, |t| t.0.as_second());
        let since = annotation(keys::WORKSPACE_SINCE)
            .and_then(|text| text.parse::<jiff::Timestamp>().ok())
            .map_or(created, jiff::Timestamp::as_second);
        let generation = label(keys::GENERATION).map(str::parse::<u32>);
        let status = pod.status.as_ref();
        let gates = pod
            .spec
            .iter()
            .flat_map(|spec| spec.scheduling_gates.iter().flatten());
        Ok(Self {
            uid: uid.clone(),
            name: name.clone(),
            namespace: namespace.clone(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            workspace: workspace.to_owned(),
            owner: owner.to_owned(),
            generation: generation.clone().and_then(Result::ok).unwrap_or(0),
            generation_unreadable: matches!(generation, Some(Err(_))),
            created,
            since,
            phase: phase(status.and_then(|s| s.phase.as_deref())),
            ready: ready(pod, created),
            unseen: is_unseen(pod),
            deleting: meta.deletion_timestamp.is_some(),
            gone_by: meta.deletion_timestamp.as_ref().map(|t| t.0.as_second()),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            gated: gates.into_iter().any(|gate| gate.name == keys::GATE),
            state: UpgradeState::parse(label(keys::UPGRADE_STATE)),
            ip: status
                .and_then(|s| s.pod_ip.as_deref())
                .and_then(|ip| ip.parse().ok()),
            host_network: pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true),
            serving: Serving {
                port: annotation(keys::WORKSPACE_PORT)
                    .and_then(|port| port.parse().ok())
                    .filter(|port| *port != 0)
                    .unwrap_or(keys::DEFAULT_PORT),
                visibility: Visibility::parse(annotation(keys::VISIBILITY)),
                allow_origins: AllowedOrigins::parse(annotation(keys::ALLOW_ORIGINS)),
                ports: ExtraPorts::parse(annotations),
                strip_prefix: annotation(keys::STRIP_PREFIX) != Some("false"),
                identity_headers: annotation(keys::WORKSPACE_AUTH_MODE) != Some("no-auth"),
                affinity: annotation(keys::AFFINITY) == Some("session"),
                http2: annotation(keys::WORKSPACE_PROTOCOL) == Some("h2c"),
            },
            template: TemplateRef {
                name: annotation(keys::TEMPLATE_REF)
                    .unwrap_or_default()
                    .to_owned(),
                version: annotation(keys::TEMPLATE_VERSION)
                    .unwrap_or_default()
                    .to_owned(),
            },
            upgrade_of: annotation(keys::UPGRADE_OF)
                .and_then(|text| serde_json::from_str(text).ok()),
            last_upgrade_error: annotation(keys::LAST_UPGRADE_ERROR).map(ToOwned::to_owned),
            last_upgrade: annotation(keys::LAST_UPGRADE).map(ToOwned::to_owned),
            restarts: restarts(pod),
            trouble: trouble(pod),
        })
    }

    /// Whether it may hold what only one pod can: a pod behind our gate was never given to a node.
    #[must_use]
    pub fn may_hold(&self) -> bool {
        !self.gated
    }

    /// Whether the pod has not ended and is not being deleted.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.deleting && !matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

fn phase(text: Option<&str>) -> Phase {
    match text {
        None | Some("Pending") => Phase::Pending,
        Some("Running") => Phase::Running,
        Some("Succeeded") => Phase::Succeeded,
        Some("Failed") => Phase::Failed,
        Some(_) => Phase::Unknown,
    }
}

fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// The node lifecycle controller turns Ready of a silent node's pods to False, and nothing else. A
/// kubelet that does so turns `ContainersReady` too, or says which readiness gate it waits for.
fn is_unseen(pod: &Pod) -> bool {
    let is = |name: &str, status: &str| {
        condition(pod, name).is_some_and(|condition| {
            let reason = condition.reason.as_deref().unwrap_or_default();
            condition.status == status && reason.is_empty()
        })
    };
    is("Ready", "False") && is("ContainersReady", "True")
}

fn ready(pod: &Pod, created: UnixSeconds) -> Ready {
    let condition = condition(pod, "Ready");
    Ready {
        is: condition.is_some_and(|c| c.status == "True"),
        since: condition
            .and_then(|c| c.last_transition_time.as_ref())
            .map_or(created, |time| time.0.as_second()),
    }
}

#[cfg(test)]
mod tests;
