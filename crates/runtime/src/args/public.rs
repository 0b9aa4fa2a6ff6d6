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
    /// Also serve workspaces under /route/{id}/ of the public URL. Their pages then share
    /// one origin.
    #[arg(long, env = "NOGOO9_PATH_MODE", value_name = "true|false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub path_mode: Option<String>,
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
        Some(Public {
            listen: listen?,
            url: url?,
            workspace_domain: domain?,
            path_mode: path_mode?,
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

fn domain(text: &str, public: Option<&Url>, problems: &mut Problems) -> Option<WorkspaceDomain> {
    let scheme = public.map_or("https", Url::scheme);
    let parsed = Url::parse(&format!("{scheme}://{}/", text.trim()))
        .ok()
        .filter(|url| {
            url.path() == "/"
                && url.username().is_empty()
                && url.query().is_none()
                && url.fragment().is_none()
        });
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
