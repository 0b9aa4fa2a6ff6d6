//! The public side: listener, console URL, workspace hosts.

use std::{fmt, net::SocketAddr};

use clap::Args;
use url::{Host, Url};

use crate::config::Problems;

/// Listener, public URL and workspace hosts.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Addresses")]
pub struct PublicArgs {
    /// Address to listen on.
    #[arg(long, env = "NOGOO9_LISTEN", value_name = "IP:PORT")]
    pub listen: Option<String>,
    /// URL of the console as people and agents see it, without a path.
    #[arg(long, env = "NOGOO9_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Domain under which each workspace has its own host, `{id}.DOMAIN`; for example
    /// `localhost:9009` or `ws.example.org`. [default: public URL's host and port]
    #[arg(long, env = "NOGOO9_WORKSPACE_DOMAIN", value_name = "HOST[:PORT]")]
    pub workspace_domain: Option<String>,
    /// Also serve workspaces under /route/{id}/ of --path-host. Their pages then share one
    /// origin; with plain http on loopback that may be the console's.
    #[arg(long, env = "NOGOO9_PATH_MODE", value_name = "true|false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub path_mode: Option<String>,
    /// Host for /route/{id}/, neither the console's nor a workspace's; turns --path-mode on.
    #[arg(long, env = "NOGOO9_PATH_HOST", value_name = "HOST[:PORT]")]
    pub path_host: Option<String>,
}

/// Checked settings of the public side.
#[derive(Clone, Debug)]
pub struct Public {
    /// Where to listen.
    pub listen: SocketAddr,
    /// URL of the console: scheme and authority, path `/`.
    pub url: Url,
    /// Domain of workspace hosts.
    pub workspace_domain: WorkspaceDomain,
    /// Whether /route/{id}/ is served.
    pub path_mode: bool,
    /// Where, if that is not the console's host.
    pub path_host: Option<WorkspaceDomain>,
}

impl Public {
    /// URL under which `/route/{id}/` is served, if it is.
    #[must_use]
    pub fn path_url(&self) -> Option<Url> {
        match (&self.path_host, self.path_mode) {
            (_, false) => None,
            (None, true) => Some(self.url.clone()),
            (Some(host), true) => Url::parse(&format!("{}://{host}/", self.url.scheme())).ok(),
        }
    }
}

/// `HOST[:PORT]` under which workspace hosts live. A missing port is the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceDomain {
    /// Lower-case host name, without a final dot.
    pub host: String,
    /// Port, if it is not that of the public URL's scheme.
    pub port: Option<u16>,
}

impl fmt::Display for WorkspaceDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl PublicArgs {
    /// Checks the group.
    pub fn resolve(&self, default: SocketAddr, problems: &mut Problems) -> Option<Public> {
        let listen = problems.addr("listen", self.listen.as_deref(), default);
        let url = public_url(self.public_url.as_deref(), problems);
        let path_mode = problems.switch("path-mode", self.path_mode.as_deref(), false);
        let host = match &self.path_host {
            Some(text) => path_host(text, url.as_ref(), problems).map(Some),
            None => Some(None),
        };
        let path_mode = path_mode.map(|on| on || self.path_host.is_some());
        let insecure = url.as_ref().is_some_and(|url| url.scheme() == "https");
        if path_mode == Some(true) && self.path_host.is_none() && insecure {
            problems.add(
                "path-host",
                "is missing, and --path-mode is on: a page under /route/{id}/ of the console's host \
                 could act as whoever is signed in there; name a host for them, as in \
                 paths.example.net",
            );
        }
        let domain = match (&self.workspace_domain, &url) {
            (Some(text), url) => domain(text, url.as_ref(), problems),
            (None, Some(url)) => match url.host() {
                Some(Host::Domain(name)) => Some(WorkspaceDomain {
                    host: name.trim_end_matches('.').to_owned(),
                    port: url.port(),
                }),
                _ => {
                    problems.add(
                        "workspace-domain",
                        "is missing, and --public-url is an IP address, under which there are \
                         no hosts; set it, as in localhost:9009 or ws.example.org",
                    );
                    None
                }
            },
            (None, None) => None,
        };
        if let (Some(Some(host)), Some(domain)) = (&host, &domain)
            && host.host.ends_with(&format!(".{}", domain.host))
        {
            problems.add(
                "path-host",
                "lies under the workspace domain, so it is a workspace's; use a host of its own",
            );
            return None;
        }
        Some(Public {
            listen: listen?,
            url: url?,
            workspace_domain: domain?,
            path_mode: path_mode?,
            path_host: host?,
        })
    }
}

fn public_url(text: Option<&str>, problems: &mut Problems) -> Option<Url> {
    let url = problems.required_url("public-url", text, "https://workspaces.example.org")?;
    if url.path() != "/" {
        problems.add(
            "public-url",
            "has a path; the console needs a host of its own, as in https://workspaces.example.org",
        );
        return None;
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        problems.add(
            "public-url",
            "is plain http on a host that is not loopback, so cookies and tokens would travel \
             in the open; use https",
        );
        return None;
    }
    Some(url)
}

/// Whether the URL's host can only be this machine: `localhost`, a name under it, 127/8, ::1.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Reads `HOST[:PORT]`, for the scheme of the public URL.
fn authority(text: &str, public: Option<&Url>) -> Option<Url> {
    let scheme = public.map_or("https", Url::scheme);
    let url = Url::parse(&format!("{scheme}://{}/", text.trim())).ok()?;
    let bare = url.path() == "/"
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    bare.then_some(url)
}

fn path_host(text: &str, public: Option<&Url>, problems: &mut Problems) -> Option<WorkspaceDomain> {
    let Some((url, host)) = authority(text, public).and_then(|url| {
        let host = url.host_str()?.trim_end_matches('.').to_owned();
        Some((url, host))
    }) else {
        problems.add(
            "path-host",
            format!("`{text}` is not HOST[:PORT], as in paths.example.net"),
        );
        return None;
    };
    if public.and_then(Url::host_str) == Some(host.as_str()) {
        problems.add(
            "path-host",
            "is the console's, and pages there could act as whoever is signed in; use a host of \
             its own",
        );
        return None;
    }
    Some(WorkspaceDomain {
        host,
        port: url.port(),
    })
}

fn domain(text: &str, public: Option<&Url>, problems: &mut Problems) -> Option<WorkspaceDomain> {
    let parsed = authority(text, public);
    let host = parsed.as_ref().and_then(|url| match url.host() {
        Some(Host::Domain(name)) => Some(name.trim_end_matches('.').to_owned()),
        _ => None,
    });
    let (Some(url), Some(host)) = (parsed, host) else {
        problems.add(
            "workspace-domain",
            format!("`{text}` is not HOST[:PORT] with a name as host, as in ws.example.org"),
        );
        return None;
    };
    let inside = format!(".{host}");
    if public
        .and_then(Url::host_str)
        .is_some_and(|console| console.ends_with(&inside))
    {
        problems.add(
            "workspace-domain",
            "the host of --public-url lies under it, so a workspace could take the console's \
             name; use a domain of its own",
        );
        return None;
    }
    Some(WorkspaceDomain {
        host,
        port: url.port(),
    })
}
