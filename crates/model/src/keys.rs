//! Every label, annotation, gate and object name that nogoo9 reads or writes. They are a contract
//! with clusters that no-crd has run, so they live here and nowhere else.

/// Label: `workspace` on every workspace pod.
pub const TYPE: &str = "nogoo9/type";
/// Value of [`TYPE`] on workspace pods.
pub const TYPE_WORKSPACE: &str = "workspace";
/// Value of [`TYPE`] on probes, see [`crate::probe`]. Nothing is ever routed to them.
pub const TYPE_PROBE: &str = "probe";
/// Label: the workspace's id.
pub const WORKSPACE_ID: &str = "nogoo9/workspace-id";
/// Label (encoded, see [`crate::label`]) and annotation (raw): who owns the workspace.
pub const USER_SUB: &str = "nogoo9/user-sub";
/// Label: who created the pod. Only pods with [`MANAGED_BY_SPAWNER`] count.
pub const MANAGED_BY: &str = "nogoo9/managed-by";
/// Value of [`MANAGED_BY`].
pub const MANAGED_BY_SPAWNER: &str = "nogoo9-spawner";
/// Label: u32; greater replaces smaller. Absent or unreadable counts as 0.
pub const GENERATION: &str = "nogoo9/generation";
/// Label: where an upgrade has brought this pod, see [`crate::pod::UpgradeState`].
pub const UPGRADE_STATE: &str = "nogoo9/upgrade-state";
/// Annotation: when the workspace was first spawned (RFC 3339), copied by upgrades.
pub const WORKSPACE_SINCE: &str = "nogoo9/workspace-since";

/// Annotation: the template's name.
pub const TEMPLATE_REF: &str = "nogoo9/template-ref";
/// Annotation: the template's version that the pod was rendered from.
pub const TEMPLATE_VERSION: &str = "nogoo9/template-version";
/// Annotation: the name that people gave the workspace.
pub const WORKSPACE_NAME: &str = "nogoo9/workspace-name";
/// Annotation: the port that the workspace serves on.
pub const WORKSPACE_PORT: &str = "nogoo9/workspace-port";
/// Port of a workspace that names none.
pub const DEFAULT_PORT: u16 = 3000;
/// Annotation: the path under which the workspace is published.
pub const WORKSPACE_PATH: &str = "nogoo9/workspace-path";
/// Annotation: the path under which a preview is published.
pub const PREVIEW_PATH: &str = "nogoo9/preview-path";
/// Annotation on a workspace's PersistentVolumeClaim: what the template calls it.
pub const CLAIM: &str = "nogoo9/claim";
/// Annotation: free-form type shown to people.
pub const WORKSPACE_TYPE: &str = "nogoo9/workspace-type";
/// Annotation: no-crd's word for how a workspace wants callers identified.
pub const WORKSPACE_AUTH_MODE: &str = "nogoo9/workspace-auth-mode";
/// Annotation: who besides the owner may open the pages, see [`crate::access::Visibility`].
pub const VISIBILITY: &str = "nogoo9/visibility";
/// Annotation: other origins whose pages may use a session here, see [`crate::origins`].
pub const ALLOW_ORIGINS: &str = "nogoo9/allow-origins";
/// Beginning of the annotations of extra ports, `api.NAME.port`, `.path` and `.visibility`, see
/// [`crate::ports`].
pub const API: &str = "nogoo9/api.";
/// Annotation: JSON of what the user set at spawn.
pub const SPAWN_INPUTS: &str = "nogoo9/spawn-inputs";
/// Annotation: JSON `{"operation", "sourceUid"}` on a pod that an upgrade made.
pub const UPGRADE_OF: &str = "nogoo9/upgrade-of";
/// Annotation: `reason: message` of the newest upgrade that failed.
pub const LAST_UPGRADE_ERROR: &str = "nogoo9/last-upgrade-error";
/// Annotation: JSON of the newest upgrade that ended.
pub const LAST_UPGRADE: &str = "nogoo9/last-upgrade";

/// Label on template ConfigMaps.
pub const POD_TEMPLATE: &str = "nogoo9/pod-template";
/// Template annotation: comma-separated roles that may use it; absent: everyone.
pub const ALLOWED_ROLES: &str = "nogoo9/allowed-roles";
/// Template annotation: `side-by-side` allows shared claims.
pub const UPGRADE_MODE: &str = "nogoo9/upgrade-mode";
/// Template annotation: seconds until an upgrade that is not Ready is given up (600).
pub const UPGRADE_DEADLINE: &str = "nogoo9/upgrade-deadline";
/// Template annotation: seconds that the successor must stay Ready before commit (5).
pub const SETTLE: &str = "nogoo9/settle";
/// Template annotation: seconds that open sessions may keep the old pod (1800).
pub const DRAIN_TIMEOUT: &str = "nogoo9/drain-timeout";
/// Template annotation: `"false"` keeps `/route/{id}` in the path that the pod sees.
pub const STRIP_PREFIX: &str = "nogoo9/strip-prefix";
/// Annotation: `h2c` if the workspace speaks HTTP/2 in clear on its port and nothing else, as gRPC
/// servers do; absent: HTTP/1.1.
pub const WORKSPACE_PROTOCOL: &str = "nogoo9/workspace-protocol";
/// Template annotation: `session` keeps a session's requests on the pod that holds its sockets.
pub const AFFINITY: &str = "nogoo9/affinity";
/// Template annotation: JSON Schema of what a user may set.
pub const PARAMETERS: &str = "nogoo9/parameters";

/// Scheduling gate that holds a successor back.
pub const GATE: &str = "nogoo9/upgrade";

/// Label on control's own objects that names their kind: `workspace-record`, `operation`, `session-keys`.
pub const KIND: &str = "nogoo9/kind";
/// Value of [`KIND`] on workspace records.
pub const KIND_RECORD: &str = "workspace-record";
/// Value of [`KIND`] on operations.
pub const KIND_OPERATION: &str = "operation";
/// Value of [`KIND`] on the chunks of bulk operations.
pub const KIND_CHUNK: &str = "operation-chunk";
/// Value of [`KIND`] on browser sessions.
pub const KIND_SESSION: &str = "session";
/// Value of [`KIND`] on personal access tokens.
pub const KIND_PERSONAL_TOKEN: &str = "personal-token";
/// Label on chunks: the id of their operation.
pub const OPERATION: &str = "nogoo9/operation";

/// Prefix that makes a key ours; user input never sets such keys.
pub const PREFIX: &str = "nogoo9/";

/// Label selector of all workspace pods.
#[must_use]
pub fn pods_selector() -> String {
    format!("{TYPE}={TYPE_WORKSPACE},{MANAGED_BY}={MANAGED_BY_SPAWNER}")
}

/// Label selector of all probes.
#[must_use]
pub fn probes_selector() -> String {
    format!("{TYPE}={TYPE_PROBE},{MANAGED_BY}={MANAGED_BY_SPAWNER}")
}

/// Label selector of all pods that are made here: those of workspaces, and probes.
#[must_use]
pub fn made_selector() -> String {
    format!("{TYPE} in ({TYPE_WORKSPACE},{TYPE_PROBE}),{MANAGED_BY}={MANAGED_BY_SPAWNER}")
}

/// Label selector of the pods of one workspace, and of its probes.
#[must_use]
pub fn workspace_selector(id: &str) -> String {
    format!("{},{WORKSPACE_ID}={id}", made_selector())
}
