//! Where workspaces are opened.

use super::Origin;
use nogoo9_model::id;
use nogoo9_runtime::args::{Public, WorkspaceDomain};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use url::Url;

/// What may not stand as it is in one path segment.
const SEGMENT: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Makes the addresses of workspaces.
#[derive(Debug, Clone)]
pub struct Links {
    scheme: String,
    domain: WorkspaceDomain,
    paths: Option<Url>,
}

impl Links {
    /// From the public settings.
    #[must_use]
    pub fn new(public: &Public) -> Self {
        Self {
            scheme: public.url.scheme().to_owned(),
            domain: public.workspace_domain.clone(),
            paths: public.path_url(),
        }
    }

    /// Address on a host of its own; `None` for adopted ids that fit no host name.
    #[must_use]
    pub fn host(&self, workspace: &str) -> Option<String> {
        id::fits_host(workspace).then(|| format!("{}://{workspace}.{}/", self.scheme, self.domain))
    }

    /// Address by path, where path mode is on.
    #[must_use]
    pub fn path(&self, workspace: &str) -> Option<String> {
        let base = self.paths.as_ref()?;
        let segment = utf8_percent_encode(workspace, SEGMENT);
        base.join(&format!("/route/{segment}/"))
            .ok()
            .map(String::from)
    }

    /// As what the workspace's pages are opened on `host` (as in `Host`, in lower case); `None`: they
    /// are not.
    #[must_use]
    pub fn origin(&self, host: &str, workspace: &str) -> Option<Origin> {
        let is_own = || host == format!("{workspace}.{}", self.domain);
        if id::fits_host(workspace) && is_own() {
            return Some(Origin::Own);
        }
        let shared = self.paths.as_ref().map(crate::http::authority);
        (shared.as_deref() == Some(host)).then_some(Origin::Shared)
    }
}
