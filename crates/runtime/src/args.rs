//! The flags that proxy and control share, and the settings they become.
//!
//! Flatten [`CommonArgs`], or single groups of it, into a clap parser; then resolve.

mod identity;
mod public;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
};

use clap::Args;

use crate::{
    config::Problems,
    secret::Secret,
    telemetry::{LogFormat, Telemetry},
};

pub use identity::{Identity, IdentityArgs, SharedSecret};
pub use public::{Public, PublicArgs, WorkspaceDomain};

/// All shared groups.
#[derive(Args, Clone, Debug)]
pub struct CommonArgs {
    #[allow(missing_docs)]
    #[command(flatten)]
    pub config: ConfigArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub public: PublicArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub admin: AdminArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub kube: KubeArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub identity: IdentityArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub limits: LimitArgs,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Defaults that differ between binaries.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// `--listen`.
    pub listen: SocketAddr,
    /// `--admin-listen`.
    pub admin_listen: SocketAddr,
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Defaults {
    /// The proxy: 127.0.0.1:9009, admin 127.0.0.1:9019.
    pub const PROXY: Self = Self {
        listen: SocketAddr::new(LOOPBACK, 9009),
        admin_listen: SocketAddr::new(LOOPBACK, 9019),
    };
    /// Control: 127.0.0.1:9010, admin 127.0.0.1:9020.
    pub const CONTROL: Self = Self {
        listen: SocketAddr::new(LOOPBACK, 9010),
        admin_listen: SocketAddr::new(LOOPBACK, 9020),
    };
}

/// Checked shared settings.
#[derive(Clone, Debug)]
pub struct Common {
    /// Listener, public URL and workspace hosts.
    pub public: Public,
    /// Admin listener.
    pub admin: Admin,
    /// Cluster access.
    pub kube: Kube,
    /// Whose tokens count.
    pub identity: Identity,
    /// Failures that one address may have in a minute; `None`: any number.
    pub auth_failures: Option<NonZeroU32>,
    /// Logs.
    pub telemetry: Telemetry,
}

impl CommonArgs {
    /// Checks all groups, noting each mistake.
    pub fn resolve(&self, defaults: &Defaults, problems: &mut Problems) -> Option<Common> {
        let public = self.public.resolve(defaults.listen, problems);
        let admin = self.admin.resolve(defaults.admin_listen, problems);
        let kube = self.kube.resolve(problems);
        let identity = self
            .identity
            .resolve(public.as_ref().map(|p| &p.url), problems);
        let auth_failures = self.limits.resolve(problems);
        let telemetry = self.telemetry.resolve(problems);
        Some(Common {
            public: public?,
            admin: admin?,
            kube: kube?,
            identity: identity?,
            auth_failures: auth_failures?,
            telemetry: telemetry?,
        })
    }
}

/// Where configuration comes from.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Configuration")]
pub struct ConfigArgs {
    /// TOML file with any of these flags as keys, as in `public-url = "https://..."`.
    /// Flags win over the environment, the environment over the file.
    #[arg(long, env = "NOGOO9_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check flags, environment and file, report all mistakes, and exit with 0 or 2.
    #[arg(long)]
    pub check_config: bool,
}

/// Limits on what does not count.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Tokens and cookies that are forged or unknown, and failed sign-ins, that one address may send
    /// in a minute; more of them get 429. What counts is never limited, and what has merely expired is
    /// no failure. Proxy and control each count for themselves. 0: no limit. [default: 30]
    #[arg(long, env = "NOGOO9_AUTH_FAILURES_PER_MINUTE", value_name = "N")]
    pub auth_failures_per_minute: Option<String>,
}

impl LimitArgs {
    /// Checks the group.
    #[allow(
        clippy::option_option,
        reason = "a mistake and no limit are two things"
    )]
    pub fn resolve(&self, problems: &mut Problems) -> Option<Option<NonZeroU32>> {
        let text = self.auth_failures_per_minute.as_deref();
        let most = problems.number("auth-failures-per-minute", text, 30, (0, 60_000))?;
        Some(u32::try_from(most).ok().and_then(NonZeroU32::new))
    }
}

/// Logs.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Logs")]
pub struct TelemetryArgs {
    /// What to log: a level, or levels by module, as in `info,nogoo9_proxy=debug`. `pingora` says no
    /// more than `info` unless it is named: its lines hold whole requests, credentials too.
    /// [default: info]
    #[arg(long, env = "NOGOO9_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Shape of a log line: `text` or `json`. [default: text]
    #[arg(long, env = "NOGOO9_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<String>,
}

impl TelemetryArgs {
    /// Checks the group.
    pub fn resolve(&self, problems: &mut Problems) -> Option<Telemetry> {
        let filter = self.log.as_deref().unwrap_or("info");
        let good = Telemetry::check_filter(filter)
            .map_err(|e| problems.add("log", format!("`{filter}` is no log filter: {e}")))
            .ok();
        let format = match self.log_format.as_deref().map(str::trim) {
            None | Some("text") => Some(LogFormat::Text),
            Some("json") => Some(LogFormat::Json),
            Some(other) => {
                problems.add("log-format", format!("`{other}` is neither text nor json"));
                None
            }
        };
        good?;
        Some(Telemetry {
            filter: filter.to_owned(),
            format: format?,
        })
    }
}

/// The admin listener.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Admin listener")]
pub struct AdminArgs {
    /// Address of /livez, /readyz and /metrics. Never make it public.
    #[arg(long, env = "NOGOO9_ADMIN_LISTEN", value_name = "IP:PORT")]
    pub admin_listen: Option<String>,
    /// File with the token that proxy and control share (22 characters or more): the
    /// proxy asks for it on /routes, /sessions and /holding, control and other proxies
    /// send it. Without it, those three are refused.
    #[arg(long, env = "NOGOO9_ADMIN_TOKEN_FILE", value_name = "FILE")]
    pub admin_token_file: Option<String>,
}

/// Checked settings of the admin listener.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The token shared by proxy and control.
    pub token: Option<Secret>,
}

impl AdminArgs {
    /// Checks the group.
    pub fn resolve(&self, default: SocketAddr, problems: &mut Problems) -> Option<Admin> {
        let listen = problems.addr("admin-listen", self.admin_listen.as_deref(), default);
        let token = problems.token_file("admin-token-file", self.admin_token_file.as_deref());
        Some(Admin {
            listen: listen?,
            token: token?,
        })
    }
}

/// Cluster access.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Kubernetes")]
pub struct KubeArgs {
    /// Kubeconfig file. Without it: the pod's service account, else KUBECONFIG or
    /// ~/.kube/config.
    #[arg(long, env = "NOGOO9_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the workspaces' pods. [default: nogoo9-workspaces]
    #[arg(long, env = "NOGOO9_WORKSPACES_NAMESPACE", value_name = "NAMESPACE")]
    pub workspaces_namespace: Option<String>,
}

/// Checked settings of cluster access.
#[derive(Clone, Debug)]
pub struct Kube {
    /// Kubeconfig file, if one was named.
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the workspaces' pods.
    pub workspaces_namespace: String,
}

impl KubeArgs {
    /// Checks the group. Whether the cluster answers is [`crate::kube::connect`]'s to say.
    pub fn resolve(&self, problems: &mut Problems) -> Option<Kube> {
        let namespace = self.workspaces_namespace.as_deref();
        let namespace = problems.namespace("workspaces-namespace", namespace, "nogoo9-workspaces");
        if let Some(path) = &self.kubeconfig
            && let Err(e) = std::fs::File::open(path)
        {
            problems.add(
                "kubeconfig",
                format!(
                    "{} cannot be read: {e}; name an existing file",
                    path.display()
                ),
            );
        }
        Some(Kube {
            kubeconfig: self.kubeconfig.clone(),
            workspaces_namespace: namespace?,
        })
    }
}
