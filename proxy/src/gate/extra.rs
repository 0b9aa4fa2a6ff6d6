//! Which port of a workspace a request is for, and who may open that.

use crate::route::Mode;
use crate::table::Route;
use nogoo9_identity::Verified;
use nogoo9_model::access::{Action, Target, Visibility, may};
use nogoo9_model::ports::ExtraPort;
use std::sync::Arc;

/// An extra port that a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// Its name.
    pub name: Arc<str>,
    /// The path of the workspace's own host under which it was reached; `None`: on a host of its own.
    pub path: Option<Arc<str>>,
}

/// The workspace has no such port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoSuchPort;

impl Extra {
    /// The extra port that a request is for: the one `named` by its host, else the one that has its
    /// `path`; `None`: the workspace's main port.
    pub(super) fn find(
        route: &Route,
        named: Option<&str>,
        path: &str,
    ) -> Result<Option<Self>, NoSuchPort> {
        let Some(name) = named else {
            let by_path = |port: &ExtraPort| Self {
                name: port.name.clone(),
                path: port.path.clone(),
            };
            return Ok(route.ports.at(path).map(by_path));
        };
        let port = route.ports.named(name).ok_or(NoSuchPort)?;
        Ok(Some(Self {
            name: port.name.clone(),
            path: None,
        }))
    }
}

/// Whether the caller may open a workspace that is routed so, or one of its extra ports.
pub(crate) fn may_open(
    caller: &Verified,
    route: &Route,
    mode: Mode,
    extra: Option<&Extra>,
) -> bool {
    let port = match extra.map(|extra| route.ports.named(&extra.name)) {
        None => None,
        Some(Some(port)) => Some(port),
        // It is not there any more.
        Some(None) => return false,
    };
    // Path mode shares one origin among workspaces, so there only owners open pages.
    let visibility = match (mode, port) {
        (Mode::Path, _) => &Visibility::Private,
        (Mode::Host, None) => &route.visibility,
        (Mode::Host, Some(port)) => port.visibility(&route.visibility),
    };
    let object = Target::Workspace {
        owner: &route.owner,
        visibility,
    };
    !route.owner.is_empty() && may(&caller.caller, Action::Open, object).is_ok()
}
