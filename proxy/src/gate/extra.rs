//! Which port of a workspace a request is for, and who may open that.

use crate::route::{Mode, plain};
use crate::table::{Backend, Route};
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

    /// As [`Self::find`]; `None`: there is no such port, or nobody can tell which one is meant.
    pub(super) fn find_plain(
        route: &Route,
        named: Option<&str>,
        path: &str,
    ) -> Option<Option<Self>> {
        let extra = Self::find(route, named, path).ok()?;
        let ambiguous = extra
            .as_ref()
            .is_some_and(|it| it.is_ambiguous(route, path));
        (!ambiguous).then_some(extra)
    }

    /// Whether it was reached by a `path` that whoever resolves it takes for one of another port's, which
    /// other people may open.
    pub(super) fn is_ambiguous(&self, route: &Route, path: &str) -> bool {
        let resolved = self.path.as_ref().and_then(|_| plain::plain(path));
        resolved.is_some_and(|path| {
            let port = route.ports.at(&path);
            port.is_none_or(|port| port.name != self.name)
        })
    }
}

/// Whether the caller may open a workspace that is routed so, or one of its extra ports.
pub(crate) fn may_open(
    caller: &Verified,
    route: &Route,
    mode: Mode,
    extra: Option<&Extra>,
) -> bool {
    let port = extra.map(|extra| route.ports.named(&extra.name));
    may_open_port(caller, route, mode, port)
}

/// Whether what the caller has open on `pod` is still theirs to open. A port that the workspace's new
/// version has not, and the pod has, stays open there: it is the pod's word then who may open it.
pub(crate) fn may_keep(
    caller: &Verified,
    route: &Route,
    mode: Mode,
    extra: Option<&Extra>,
    pod: &Backend,
) -> bool {
    // As it says now, while it can be heard.
    let mut backends = route.backends.iter();
    let now = backends.find(|known| known.uid == pod.uid);
    let its = now.map_or(&pod.ports, |now| &now.ports);
    let port = extra.map(|extra| {
        let port = route.ports.named(&extra.name);
        port.or_else(|| its.named(&extra.name))
    });
    may_open_port(caller, route, mode, port)
}

/// `port` is `None` for the main one, and `Some(None)` for one that there is not.
fn may_open_port(
    caller: &Verified,
    route: &Route,
    mode: Mode,
    port: Option<Option<&ExtraPort>>,
) -> bool {
    // Path mode shares one origin among workspaces, so there only owners open pages.
    let visibility = match (mode, port) {
        (_, Some(None)) => return false,
        (Mode::Path, _) => &Visibility::Private,
        (Mode::Host, None) => &route.visibility,
        (Mode::Host, Some(Some(port))) => port.visibility(&route.visibility),
    };
    let object = Target::Workspace {
        owner: &route.owner,
        visibility,
    };
    !route.owner.is_empty() && may(&caller.caller, Action::Open, object).is_ok()
}
