//! The proxy's flags and the settings they become.

mod accept;
mod http2;
mod peers;
mod sockets;
mod tls;

use crate::hold::Bounds;
use clap::{Args as Group, Parser};
use nogoo9_identity::source::KeySource;
use nogoo9_runtime::args::{Common, CommonArgs, ConfigArgs, Defaults};
use nogoo9_runtime::client::{Network, NotANetwork, TrustedProxies};
use nogoo9_runtime::config::{Configure, Problems};
use std::time::Duration;
use url::Url;

pub use http2::Http2Args;
pub use sockets::{SocketArgs, SocketSettings};
pub use tls::TlsArgs;

/// The edge in front of workspaces: sends each request to the newest ready pod of its workspace, and
/// everything else to control. Reads pods and nothing else; keeps serving while the API server or
/// control is away.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "nogoo9-proxy",
    version,
    after_help = "Example, beside a control on the same machine:\n  nogoo9-proxy --listen 127.0.0.1:9009 --public-url http://localhost:9009 \\\n    --workspace-domain localhost:9009 --control-url http://127.0.0.1:9010 \\\n    --issuer http://127.0.0.1:9011 --kubeconfig proxy.kubeconfig"
)]
pub struct Args {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub common: CommonArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub proxy: ProxyArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub accept: accept::AcceptArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub sockets: SocketArgs,
}

/// What only the proxy has.
#[derive(Debug, Clone, Default, Group)]
#[command(next_help_heading = "Proxy")]
pub struct ProxyArgs {
    /// Where control listens, as in http://127.0.0.1:9010. Plain http, never public.
    #[arg(long, env = "NOGOO9_CONTROL_URL", value_name = "URL")]
    pub control_url: Option<String>,
    /// Public keys that verify browser sessions: an address, or a file (a mounted ConfigMap), so
    /// that the proxy starts without control; or both, as in URL,FILE: the file while the address
    /// does not answer. [default: asked of control]
    #[arg(long, env = "NOGOO9_SESSION_KEYS", value_name = "URL|FILE|URL,FILE")]
    pub session_keys: Option<String>,
    /// How long beyond its quarter of an hour a browser session is accepted while control cannot be
    /// asked whether it goes on: the price of serving on without control. [default: 3600]
    #[arg(long, env = "NOGOO9_SESSION_GRACE", value_name = "SECONDS")]
    pub session_grace: Option<String>,
    /// Longest life of a WebSocket or stream that a bearer token of the provider opened: nobody can be
    /// asked whether such a token still counts. [default: 3600]
    #[arg(long, env = "NOGOO9_MAX_BEARER_AGE", value_name = "SECONDS")]
    pub max_bearer_age: Option<String>,
    /// Load balancers and proxies whose word counts about where requests come from
    /// (X-Forwarded-For, else Forwarded): networks, as in 10.0.0.0/8,fd00::/8. They must append to that
    /// header, or set it anew. [default: none; clients are known by who connects]
    #[arg(
        long,
        env = "NOGOO9_TRUSTED_PROXIES",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    pub trusted_proxies: Vec<String>,
    /// Longest time that a request waits for its workspace to have a pod. [default: 30]
    #[arg(long, env = "NOGOO9_HOLD_TIMEOUT", value_name = "SECONDS")]
    pub hold_timeout: Option<String>,
    /// Longest time that a request waits while an upgrade recreates its workspace's pod: the old one
    /// ends first, then the new one is pulled and started. [default: 120; never less than
    /// --hold-timeout]
    #[arg(long, env = "NOGOO9_RECREATE_HOLD_TIMEOUT", value_name = "SECONDS")]
    pub recreate_hold_timeout: Option<String>,
    /// Most requests waiting at once, in all; one workspace never gets more than is left. [default: 10000]
    #[arg(long, env = "NOGOO9_HOLD_MAX", value_name = "N")]
    pub hold_max: Option<String>,
    /// Most requests waiting at once for one workspace. [default: 200]
    #[arg(long, env = "NOGOO9_HOLD_MAX_PER_WORKSPACE", value_name = "N")]
    pub hold_max_per_workspace: Option<String>,
    /// Most bytes that the heads of waiting requests may occupy, in all. Bodies are not read while a
    /// request waits. One workspace never gets more than is left. [default: 67108864]
    #[arg(long, env = "NOGOO9_HOLD_MAX_BYTES", value_name = "BYTES")]
    pub hold_max_bytes: Option<String>,
    /// Time from the stop signal, when /readyz turns red, to closing the listener: load balancers
    /// need it to look elsewhere. [default: 5; 0 with a loopback URL, where there is none]
    #[arg(long, env = "NOGOO9_DRAIN", value_name = "SECONDS")]
    pub drain: Option<String>,
    /// Time that requests in flight then have to end. [default: 10]
    #[arg(long, env = "NOGOO9_STOP_TIMEOUT", value_name = "SECONDS")]
    pub stop_timeout: Option<String>,
    /// Admin listeners of the other proxies, as in proxy-admin.edge.svc:9019; a name stands for all its
    /// addresses, and this proxy's own are left out. They are asked where a session has something open,
    /// for templates with `nogoo9/affinity`. Needs --admin-token-file. [default: none; each proxy knows
    /// of its own alone]
    #[arg(
        long,
        env = "NOGOO9_PEERS",
        value_name = "HOST:PORT",
        value_delimiter = ','
    )]
    pub peers: Vec<String>,
    /// Also take HTTP/2 without TLS, from a load balancer that speaks it. [default: false]
    #[arg(long, env = "NOGOO9_H2C", value_name = "true|false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub h2c: Option<String>,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub http2: Http2Args,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What both binaries have.
    pub common: Common,
    /// Where control listens.
    pub control: Url,
    /// Where the public keys of sessions are.
    pub session_keys: KeySource,
    /// How long a session is accepted that control cannot be asked about.
    pub session_grace: Duration,
    /// Longest life of a socket or stream that a bearer token opened.
    pub max_bearer_age: Duration,
    /// Whose word counts about where requests come from.
    pub trusted: TrustedProxies,
    /// How much may wait.
    pub hold: Bounds,
    /// Time from the signal to closing the listener.
    pub drain: Duration,
    /// Time from closing the listener to the end.
    pub stop_timeout: Duration,
    /// Admin listeners of other proxies, each `HOST:PORT`.
    pub peers: Vec<String>,
    /// HTTP/2 without TLS.
    pub h2c: bool,
    /// How WebSockets are kept and ended.
    pub sockets: SocketSettings,
    /// What clients may do before there is a request.
    pub accept: crate::accept::Limits,
    /// What an HTTP/2 connection may cost.
    pub http2: crate::http2::Limits,
    /// Where certificates are; `None`: TLS ends elsewhere.
    pub tls: Option<crate::tls::Source>,
}

impl Configure for Args {
    type Settings = Settings;

    fn config(&self) -> &ConfigArgs {
        &self.common.config
    }

    fn settings(&self, problems: &mut Problems) -> Option<Settings> {
        let ProxyArgs {
            control_url,
            session_keys,
            session_grace,
            max_bearer_age,
            trusted_proxies,
            hold_timeout,
            recreate_hold_timeout,
            hold_max,
            hold_max_per_workspace,
            hold_max_bytes,
            drain,
            stop_timeout,
            peers,
            h2c,
            http2,
            tls,
        } = &self.proxy;
        let common = self.common.resolve(&Defaults::PROXY, problems);
        let control = control(control_url.as_deref(), problems);
        let session_keys = keys(session_keys.as_deref(), control.as_ref(), problems);
        let grace = problems.seconds(
            "session-grace",
            session_grace.as_deref(),
            3600,
            (0, 24 * 3600),
        );
        let bearer_age = problems.seconds(
            "max-bearer-age",
            max_bearer_age.as_deref(),
            3600,
            (1, 24 * 3600),
        );
        let trusted = trusted(trusted_proxies, problems);
        let admin = common.as_ref().map(|common| &common.admin);
        let peers = peers::peers(peers, admin, problems);
        let timeout = problems.seconds("hold-timeout", hold_timeout.as_deref(), 30, (1, 600));
        let recreate = problems.seconds(
            "recreate-hold-timeout",
            recreate_hold_timeout.as_deref(),
            120,
            (1, 600),
        );
        let total = problems.number("hold-max", hold_max.as_deref(), 10_000, (1, 1_000_000));
        let per = problems.number(
            "hold-max-per-workspace",
            hold_max_per_workspace.as_deref(),
            200,
            (1, 100_000),
        );
        let bytes = problems.number(
            "hold-max-bytes",
            hold_max_bytes.as_deref(),
            64 << 20,
            (1 << 20, 1 << 40),
        );
        // Plain http is allowed on loopback only.
        let alone = common
            .as_ref()
            .is_some_and(|common| common.public.url.scheme() == "http");
        let drain = problems.seconds(
            "drain",
            drain.as_deref(),
            if alone { 0 } else { 5 },
            (0, 300),
        );
        let stop_timeout = problems.seconds("stop-timeout", stop_timeout.as_deref(), 10, (0, 300));
        let h2c = problems.switch("h2c", h2c.as_deref(), false);
        let accept = self.accept.settings(trusted.as_ref(), problems);
        let sockets = self.sockets.resolve(alone, problems);
        let bounds = accept.as_ref().map(|accept| accept.bounds);
        let http2 = http2.limits(bounds, problems);
        let https = common
            .as_ref()
            .map(|common| common.public.url.scheme() == "https");
        let tls = tls.source(https, problems);
        Some(Settings {
            common: common?,
            control: control?,
            session_keys: session_keys?,
            session_grace: grace?,
            max_bearer_age: bearer_age?,
            trusted: trusted?,
            hold: Bounds {
                timeout: timeout?,
                recreate: recreate?.max(timeout?),
                per_workspace: usize::try_from(per?).unwrap_or(usize::MAX),
                total: usize::try_from(total?).unwrap_or(usize::MAX),
                bytes: usize::try_from(bytes?).unwrap_or(usize::MAX),
            },
            drain: drain?,
            stop_timeout: stop_timeout?,
            peers: peers?,
            h2c: h2c?,
            accept: accept?,
            sockets: sockets?,
            http2: http2?,
            tls: tls?,
        })
    }
}

fn trusted(texts: &[String], problems: &mut Problems) -> Option<TrustedProxies> {
    let networks: Vec<Option<Network>> = texts
        .iter()
        .map(|text| {
            let network = text.trim().parse();
            network
                .map_err(|error: NotANetwork| problems.add("trusted-proxies", error.to_string()))
                .ok()
        })
        .collect();
    let networks: Option<Vec<Network>> = networks.into_iter().collect();
    networks.map(TrustedProxies::new)
}

fn control(text: Option<&str>, problems: &mut Problems) -> Option<Url> {
    let url = problems.required_url("control-url", text, "http://127.0.0.1:9010")?;
    if url.scheme() != "http" || url.path() != "/" {
        problems.add("control-url", "must be http://HOST:PORT; the way to control is inside the cluster, without TLS and path");
        return None;
    }
    Some(url)
}

fn keys(text: Option<&str>, control: Option<&Url>, problems: &mut Problems) -> Option<KeySource> {
    let asked = match text {
        Some(text) => text.trim().to_owned(),
        None => control?
            .join("/.well-known/nogoo9-session-keys.json")
            .ok()?
            .to_string(),
    };
    let flag = if text.is_some() {
        "session-keys"
    } else {
        "control-url"
    };
    KeySource::from_flag(&asked)
        .map_err(|error| problems.add(flag, error.to_string()))
        .ok()
}
