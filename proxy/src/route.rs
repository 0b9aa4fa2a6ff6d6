//! Host and path to a place: which workspace, or control. Pure.
//!
//! The id comes from the host, or from the one segment after `/route/`, byte for byte: nothing is
//! decoded or normalised first. So no spelling of a path (`%2e%2e`, `//`, `..`, `%2f`) can move a
//! request from one workspace to another, or from a workspace to control; it only changes which path
//! the same pod sees. Where whoever resolves such spellings would go to another place, the request is
//! refused ([`Router::is_ambiguous`]): a browser, or a proxy in front of us, may have meant that one.

pub mod plain;

use nogoo9_model::id::split_host;
use nogoo9_runtime::args::Public;
use std::borrow::Cow;
use std::net::IpAddr;

/// First segment of path mode.
const PREFIX: &str = "/route/";
/// The one segment of a host that is ours.
const OURS: &str = "/.nogoo9/";
/// Where a session is handed over to the host of path mode.
const LOGIN: &str = "/.nogoo9/login";

/// Where a request goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// To a workspace, if there is one of that id.
    Workspace(Place<'a>),
    /// To control: console, API, MCP, login.
    Control,
    /// To control, as for the host of path mode: where a session is handed over to it.
    Login,
    /// `/route/{id}` without its final slash: relative links would miss the id.
    Slash(&'a str),
    /// Under `/.nogoo9/` of the console's host: between proxy and control, and for nobody else.
    Internal,
    /// On the host of path mode, outside of any workspace: there is nothing.
    Nothing,
    /// For a host that is not ours (421).
    Misdirected,
}

/// A place inside a workspace.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The workspace's id.
    pub id: Cow<'a, str>,
    /// The extra port whose host it is.
    pub port: Option<Cow<'a, str>>,
    /// How it was reached.
    pub mode: Mode,
    /// The path inside the workspace, from its slash on, without the query.
    pub path: &'a str,
    /// What follows `/.nogoo9/`, if the request is for us.
    pub ours: Option<&'a str>,
}

/// How a workspace was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// On a host of its own, or of one of its extra ports.
    Host,
    /// Under `/route/{id}` of a host that workspaces share.
    Path,
}

/// Knows our hosts.
#[derive(Debug, Clone)]
pub struct Router {
    scheme: String,
    console: Name,
    /// Whether the console is on this machine, for whoever sits at it.
    local: bool,
    domain: Name,
    /// `.` and the domain.
    suffix: String,
    /// Where path mode is, if it is on.
    paths: Paths,
}

/// Where `/route/{id}/` is served.
#[derive(Debug, Clone)]
enum Paths {
    /// Nowhere.
    Off,
    /// On the console's host.
    Console,
    /// On a host of its own.
    Apart(Name),
}

/// A host name with the port that it is reached at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
    /// The scheme's own, which browsers leave out.
    default_port: u16,
}

impl Name {
    /// Whether a request's port is right: the public one, or none where a load balancer or an old
    /// client has left it out.
    fn takes(&self, port: Option<u16>) -> bool {
        match port {
            None => true,
            Some(port) => port == self.port.unwrap_or(self.default_port),
        }
    }
}

impl Router {
    /// From the public settings.
    #[must_use]
    pub fn new(public: &Public) -> Self {
        let default_port = if public.url.scheme() == "https" {
            443
        } else {
            80
        };
        let host = public
            .url
            .host_str()
            .unwrap_or_default()
            .to_ascii_lowercase();
        let domain = &public.workspace_domain;
        Self {
            scheme: public.url.scheme().to_owned(),
            local: is_local(&host),
            console: Name {
                host,
                port: public.url.port(),
                default_port,
            },
            suffix: format!(".{}", domain.host),
            domain: Name {
                host: domain.host.clone(),
                port: domain.port,
                default_port,
            },
            paths: match (&public.path_host, public.path_mode) {
                (_, false) => Paths::Off,
                (None, true) => Paths::Console,
                (Some(host), true) => Paths::Apart(Name {
                    host: host.host.clone(),
                    port: host.port,
                    default_port,
                }),
            },
        }
    }

    /// Where a request for `host` (as its `Host` header or `:authority` has it) and `path` (without
    /// the query) goes.
    #[must_use]
    pub fn target<'a>(&self, host: &'a str, path: &'a str) -> Target<'a> {
        let Some((name, port)) = split_port(host) else {
            return Target::Misdirected;
        };
        if name.eq_ignore_ascii_case(&self.console.host) && self.console.takes(port) {
            return self.on_console(path);
        }
        if let Paths::Apart(paths) = &self.paths
            && name.eq_ignore_ascii_case(&paths.host)
            && paths.takes(port)
        {
            return match on_path(path) {
                Some(target) => target,
                None if path == LOGIN => Target::Login,
                None => Target::Nothing,
            };
        }
        if let Some(label) = strip_suffix_ignore_case(name, &self.suffix) {
            return match on_host(lower(label)) {
                Some((extra, id)) if self.domain.takes(port) => Target::Workspace(Place {
                    id,
                    port: extra,
                    mode: Mode::Host,
                    path,
                    ours: path.strip_prefix(OURS),
                }),
                _ => Target::Misdirected,
            };
        }
        // One machine has several names for itself. What is public has the one: whoever can make a
        // request bear another, by a name of their own say, would have the console there.
        if self.local && is_loopback(name) {
            self.on_console(path)
        } else {
            Target::Misdirected
        }
    }

    /// Whether a path leads to another place than `target` once it is decoded and resolved.
    #[must_use]
    pub fn is_ambiguous(&self, host: &str, path: &str, target: &Target<'_>) -> bool {
        let Some(plain) = plain::plain(path) else {
            return false;
        };
        match (target, self.target(host, &plain)) {
            (Target::Workspace(one), Target::Workspace(other)) => {
                // The host is the same, and with it the extra port that it names.
                (&one.id, one.mode, one.ours) != (&other.id, other.mode, other.ours)
            }
            (one, other) => *one != other,
        }
    }

    fn on_console<'a>(&self, path: &'a str) -> Target<'a> {
        if path.starts_with(OURS) {
            return Target::Internal;
        }
        match self.paths {
            Paths::Console => on_path(path).unwrap_or(Target::Control),
            Paths::Off | Paths::Apart(_) => Target::Control,
        }
    }

    /// The host of path mode, as sessions are bound to it.
    #[must_use]
    pub fn path_host(&self) -> String {
        match &self.paths {
            Paths::Apart(paths) => authority(&paths.host, paths.port),
            Paths::Off | Paths::Console => self.console_host(),
        }
    }

    /// Whether sessions at a place of that mode are others than the console's, and are handed over.
    #[must_use]
    pub fn hands_over(&self, mode: Mode) -> bool {
        mode == Mode::Host || matches!(self.paths, Paths::Apart(_))
    }

    /// The host of a workspace, as sessions are bound to it: `{id}.{domain}[:port]`.
    #[must_use]
    pub fn workspace_host(&self, id: &str) -> String {
        authority(&format!("{id}{}", self.suffix), self.domain.port)
    }

    /// The host of an extra port of a workspace, as sessions are bound to it:
    /// `{port}--{id}.{domain}[:port]`.
    #[must_use]
    pub fn port_host(&self, port: &str, id: &str) -> String {
        format!("{port}--{}", self.workspace_host(id))
    }

    /// Whether `origin` (as browsers write it) is that of pages on the workspace's own host.
    #[must_use]
    pub fn is_origin_of(&self, origin: &str, id: &str) -> bool {
        let host = origin
            .strip_prefix(self.scheme.as_str())
            .and_then(|rest| rest.strip_prefix("://"));
        host.is_some_and(|host| host == self.workspace_host(id))
    }

    /// A host of the console as its client asked for it, with the port at which the console is reached
    /// where that was left out.
    #[must_use]
    pub fn public_host(&self, host: &str) -> String {
        let host = host.to_ascii_lowercase();
        match split_port(&host) {
            Some((name, None)) => authority(name, self.console.port),
            _ => host,
        }
    }

    /// The console's host, as sessions are bound to it.
    #[must_use]
    pub fn console_host(&self) -> String {
        authority(&self.console.host, self.console.port)
    }
}

/// Which workspace a path is under in path mode, if it is.
fn on_path(path: &str) -> Option<Target<'_>> {
    // Without an id it is no place of ours.
    let rest = path.strip_prefix(PREFIX).filter(|rest| !rest.is_empty())?;
    let Some(slash) = rest.find('/') else {
        return Some(Target::Slash(rest));
    };
    let (id, path) = rest.split_at(slash);
    Some(Target::Workspace(Place {
        id: Cow::Borrowed(id),
        port: None,
        mode: Mode::Path,
        path,
        ours: path.strip_prefix(OURS),
    }))
}

/// The extra port and the workspace that the label before the domain names.
fn on_host(label: Cow<'_, str>) -> Option<(Option<Cow<'_, str>>, Cow<'_, str>)> {
    match label {
        Cow::Borrowed(label) => {
            let (port, id) = split_host(label)?;
            Some((port.map(Cow::Borrowed), Cow::Borrowed(id)))
        }
        Cow::Owned(label) => {
            let (port, id) = split_host(&label)?;
            let port = port.map(|port| Cow::Owned(port.to_owned()));
            Some((port, Cow::Owned(id.to_owned())))
        }
    }
}

fn authority(host: &str, port: Option<u16>) -> String {
    match port {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// Host and port; `None` if that is no host. An IPv6 address keeps its brackets.
fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    let bracket = host.rfind(']').map_or(0, |at| at + 1);
    let (name, port) = match host.get(bracket..)?.find(':') {
        None => (host, None),
        Some(colon) => {
            let at = bracket + colon;
            let digits = host.get(at + 1..)?;
            let plain = digits.bytes().all(|b| b.is_ascii_digit());
            (
                host.get(..at)?,
                // With nothing behind its colon it names none (RFC 3986, section 3.2.3).
                match digits {
                    "" => None,
                    digits => Some(digits.parse().ok().filter(|_| plain)?),
                },
            )
        }
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    (!name.is_empty()).then_some((name, port))
}

fn strip_suffix_ignore_case<'a>(name: &'a str, suffix: &str) -> Option<&'a str> {
    let at = name.len().checked_sub(suffix.len())?;
    let (label, rest) = name.split_at_checked(at)?;
    rest.eq_ignore_ascii_case(suffix).then_some(label)
}

fn lower(label: &str) -> Cow<'_, str> {
    if label.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(label.to_ascii_lowercase())
    } else {
        Cow::Borrowed(label)
    }
}

/// Whether a name is one of this machine's, `*.localhost` among them (RFC 6761, section 6.3).
fn is_local(name: &str) -> bool {
    is_loopback(name) || strip_suffix_ignore_case(name, ".localhost").is_some()
}

fn is_loopback(name: &str) -> bool {
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
