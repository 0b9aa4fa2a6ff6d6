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

    /// Address of an extra port on a host of its own; `None` as of [`Self::host`].
    #[must_use]
    pub fn port_host(&self, workspace: &str, port: &str) -> Option<String> {
        id::fits_host(workspace)
            .then(|| format!("{}://{port}--{workspace}.{}/", self.scheme, self.domain))
    }

    /// Address of the path of an extra port, under that of its workspace.
    #[must_use]
    pub fn port_path(&self, workspace: &str, path: &str) -> Option<String> {
        let base = self.host(workspace).or_else(|| self.path(workspace))?;
        Some(format!("{}{path}/", base.trim_end_matches('/')))
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
        let label = host
            .strip_suffix(self.domain.to_string().as_str())
            .and_then(|rest| rest.strip_suffix('.'));
        if let Some((port, id)) = label.and_then(id::split_host)
            && id == workspace
        {
            return Some(port.map_or(Origin::Own, |port| Origin::Port(port.to_owned())));
        }
        let shared = self.paths.as_ref().map(crate::http::authority);
        (shared.as_deref() == Some(host)).then_some(Origin::Shared)
    }
}
