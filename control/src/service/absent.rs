//! What whoever may open a workspace's pages is told while there is no pod to open. From memory: the
//! edge asks this for every id that it does not know, invented ones among them.

use super::even::evenly;
use super::types::Status as Seen;
use super::{Answer, Parts, ServiceError, lifecycle, view};
use nogoo9_model::absent::{Absent, Status, VERSION};
use nogoo9_model::access::{Action, Caller, Denied, Target, Visibility, may};
use nogoo9_model::keys;
use nogoo9_model::limit::PerUser;
use nogoo9_model::ports::ExtraPorts;
use nogoo9_model::record::Record;

/// Where a workspace's pages are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On a host of its own: as its `visibility` says.
    Own,
    /// On the host of an extra port: as that one's says.
    Port(String),
    /// Under a path of a host that all workspaces share: by its owner alone.
    Shared,
}

/// What of a workspace somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where.
    pub origin: Origin,
    /// The path inside the workspace, without the query, as far as that tells whether it is an extra
    /// port's.
    pub path: String,
}

pub(super) async fn look(parts: &Parts, caller: &Caller, id: &str, page: &Page) -> Answer<Absent> {
    evenly(async { seen(parts, caller, id, page) }).await
}

fn seen(parts: &Parts, caller: &Caller, id: &str, page: &Page) -> Answer<Absent> {
    if !parts.caches.is_synced() {
        return Err(ServiceError::Cluster {
            reason: "control has just started and is still listing workspaces".into(),
        });
    }
    let listed = parts.caches.workspace(id);
    let record = listed.as_ref().map(|listed| &listed.record.value);
    let record = allow_opening(caller, page, record)?;
    let live = listed.as_ref().map(view::Live::of).unwrap_or_default();
    Ok(told(parts, caller, record, live))
}

pub(super) async fn start(
    parts: &Parts,
    limit: Option<PerUser>,
    caller: &Caller,
    id: &str,
    page: &Page,
) -> Answer<Absent> {
    // Whoever may not open it shall not learn that it is there, also if they may start it elsewhere.
    look(parts, caller, id, page).await?;
    Box::pin(lifecycle::start(parts, limit, caller, id)).await?;
    look(parts, caller, id, page).await
}

fn allow_opening<'a>(
    caller: &Caller,
    page: &Page,
    record: Option<&'a Record>,
) -> Result<&'a Record, Denied> {
    let Some(record) = record else {
        // Speaks of a missing scope exactly where it would for another's workspace.
        may(caller, Action::Open, Target::Nothing)?;
        return Err(Denied::AccessDenied);
    };
    let visibility = match &page.origin {
        Origin::Shared => Visibility::Private,
        origin => {
            let ports = ExtraPorts::of_manifest(&record.manifest);
            let workspace = visibility(record);
            let port = match origin {
                Origin::Port(name) => Some(ports.named(name).ok_or(Denied::AccessDenied)?),
                Origin::Own | Origin::Shared => ports.at(&page.path),
            };
            port.map_or(&workspace, |port| port.visibility(&workspace))
                .clone()
        }
    };
    let target = Target::Workspace {
        owner: &record.owner,
        visibility: &visibility,
    };
    may(caller, Action::Open, target).map(|()| record)
}

/// As the pod would say it.
fn visibility(record: &Record) -> Visibility {
    let said = record
        .manifest
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations"))
        .and_then(|annotations| annotations.get(keys::VISIBILITY));
    Visibility::parse(said.and_then(serde_json::Value::as_str))
}

fn told(parts: &Parts, caller: &Caller, record: &Record, live: view::Live<'_>) -> Absent {
    let (seen, details) = view::status(record, live, parts.cluster.now());
    let (status, plain) = match seen {
        Seen::Stopped => (
            Status::Stopped,
            "It takes nothing while it is stopped. Starting it takes a moment.",
        ),
        Seen::Stopping => (
            Status::Stopping,
            "What runs in it is ending. Then it can be started again here.",
        ),
        Seen::Deleting => (
            Status::Deleting,
            "What runs in it is ending. Then there is nothing here any more.",
        ),
        Seen::Failing => (
            Status::Failing,
            "Something is in the way. Its owner can see what.",
        ),
        // The edge knows no pod of it yet, or none any more.
        Seen::Running | Seen::Starting | Seen::Upgrading => (
            Status::Starting,
            "It is starting. This page opens by itself.",
        ),
    };
    // Why something fails is for its owner and for admins.
    let told_why = caller.is(&record.owner) || caller.is_admin();
    let message = if told_why && status == Status::Failing {
        details
    } else {
        plain.to_owned()
    };
    let own = Target::Workspace {
        owner: &record.owner,
        visibility: &Visibility::Private,
    };
    Absent {
        version: VERSION,
        status,
        message,
        can_start: may(caller, Action::Manage, own).is_ok(),
    }
}
