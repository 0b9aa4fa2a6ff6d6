//! `nogoo9 up`: one process that runs everything a laptop needs, and leaves nothing behind.
//!
//! In this process: the kubelet and the development identity provider. As children, each
//! under `nogoo9 guard` so that the kernel ends them with this process: the embedded API
//! server, control, the proxy. A child that dies is started again with the same arguments;
//! stopping goes in order (proxy, control, pods, API server) and within bounds.
//!
//! All state is below the data folder, so that a new start resumes everything, after a
//! kill too:
//!
//! ```text
//! up.lock  instance.json  ready.json  ports.json  tokens.json  admin-token
//! kubeconfig  control.kubeconfig  proxy.kubeconfig  logs/NAME.log
//! idp/ (identity provider)  pki/ state.redb (API server)  pods/ (kubelet)
//! ```

mod backoff;
mod banner;
mod cluster;
mod components;
mod data_dir;
mod keeper;
mod logs;
mod ports;
mod programs;
mod ready;
mod run;
mod spawner;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

pub use data_dir::{DataDir, default_data_dir};
pub use logs::LogFile;
pub use programs::Programs;
pub use ready::{Instance, Pids, Ready};
pub use run::up;

/// Client id of control at the development identity provider.
pub const CLIENT_ID: &str = "nogoo9";
/// `client_id` for MCP clients that neither register themselves nor have a document: those on this
/// machine, at whatever port they wait.
pub const MCP_CLIENT_ID: &str = "nogoo9-mcp";
/// Namespace of control's own objects.
pub const SYSTEM_NAMESPACE: &str = "nogoo9-system";
/// Namespace of the workspaces.
pub const WORKSPACES_NAMESPACE: &str = "nogoo9-workspaces";
/// The address of the proxy unless another is asked for.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9009);

/// A part that somebody else may run: under a debugger, with other flags, or twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `nogoo9-control`.
    Control,
    /// `nogoo9-proxy`.
    Proxy,
}

/// How to run.
#[derive(Clone, Debug)]
pub struct UpOptions {
    /// Address of the one public listener; loopback. Port 0: any, kept for later starts.
    pub listen: SocketAddr,
    /// Written once everything is ready, removed when stopping begins.
    pub ready_file: Option<PathBuf>,
    /// Use this cluster instead of the embedded API server and kubelet.
    pub kubeconfig: Option<PathBuf>,
    /// Log filter of control and proxy.
    pub log: String,
    /// Further flags for control, as they stand on its command line.
    pub control_flags: Vec<String>,
    /// Further flags for the proxy.
    pub proxy_flags: Vec<String>,
    /// Authorities (PEM) beside the public ones that may vouch for the hosts of client id metadata
    /// documents.
    pub client_ca: Option<Vec<u8>>,
    /// Parts that are not started; their addresses are kept for whoever starts them.
    pub without: Vec<Part>,
    /// Where the programs are.
    pub programs: Programs,
}

/// Why `nogoo9 up` could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The data folder cannot be used.
    #[error("--data-dir {}: {source}", path.display())]
    DataDir {
        /// The folder or a file in it.
        path: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// The ready file cannot be written.
    #[error("--ready-file {}: {source}; name a file in an existing folder", path.display())]
    ReadyFile {
        /// The file.
        path: PathBuf,
        /// What the file system said.
        source: std::io::Error,
    },
    /// The folder holds other things.
    #[error(
        "--data-dir {}: has files in it and is no folder of `nogoo9 up`; name a new or an \
         empty one",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A file of the data folder cannot be understood.
    #[error("--data-dir: {} is damaged: {reason}; delete that file", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Another instance uses the data folder.
    #[error(
        "--data-dir {}: in use by another `nogoo9 up`{}; stop it, or choose another folder",
        path.display(), holder(*pid)
    )]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The other process, if it said who it is.
        pid: Option<u32>,
    },
    /// The address is not one that only this machine reaches.
    #[error(
        "--listen {0}: local mode signs people in without passwords, so it listens on \
         127.0.0.1 or [::1] only"
    )]
    NotLoopback(SocketAddr),
    /// A socket cannot be bound.
    #[error(transparent)]
    Listen(#[from] nogoo9_runtime::listen::ListenError),
    /// A port that must stay the same is taken.
    #[error(
        "the identity provider's port {port} (kept in {}) is in use by another program; stop \
         that, or delete the file to get a new port (everyone signs in again)",
        file.display()
    )]
    KeptPort {
        /// The port.
        port: u16,
        /// Where it is kept.
        file: PathBuf,
    },
    /// No free port was found.
    #[error("no free port between {0} and {1} on 127.0.0.1")]
    NoPort(u16, u16),
    /// A program is not where it should be.
    #[error("{} is missing; build it with: cargo build -p {package}", path.display())]
    NoProgram {
        /// Where it should be.
        path: PathBuf,
        /// Its package.
        package: &'static str,
    },
    /// The cluster cannot be used.
    #[error(transparent)]
    Kube(#[from] nogoo9_runtime::kube::KubeError),
    /// The cluster refused an object that local mode needs.
    #[error("the cluster refused {object}: {reason}")]
    Object {
        /// Kind and name.
        object: String,
        /// What it said.
        reason: String,
    },
    /// The identity provider cannot run.
    #[error(transparent)]
    Idp(#[from] crate::idp::IdpError),
    /// The kubelet cannot run.
    #[error(transparent)]
    Kubelet(#[from] crate::kubelet::KubeletError),
    /// The API server's files cannot be made.
    #[error("{0}")]
    Pki(String),
    /// A child cannot be started.
    #[error("{name} cannot be started: {source}")]
    Spawn {
        /// Which.
        name: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A child gave up before it was ready.
    #[error("{name} does not start: {reason}\n{tail}  its log: {}", log.display())]
    NotStarting {
        /// Which.
        name: &'static str,
        /// How it ended.
        reason: String,
        /// Its last lines.
        tail: String,
        /// All of them.
        log: PathBuf,
    },
    /// A child runs and is not ready in time.
    #[error("{name} is not ready after {seconds} s: {reason}\n  its log: {}", log.display())]
    NotReady {
        /// Which.
        name: &'static str,
        /// How long it was given.
        seconds: u64,
        /// What it waits for.
        reason: String,
        /// Its log.
        log: PathBuf,
    },
    /// Something that should run on has ended.
    #[error("the {name} ended by itself; see {}", log.display())]
    Ended {
        /// Which.
        name: &'static str,
        /// The log.
        log: PathBuf,
    },
    /// No random numbers, no HTTP client: the machine is at fault.
    #[error("{0}")]
    System(String),
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// The one listener that people reach must be loopback, and be what `localhost` means.
///
/// # Errors
/// [`UpError::NotLoopback`].
pub fn check_listen(listen: SocketAddr) -> Result<(), UpError> {
    match listen.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) | IpAddr::V6(Ipv6Addr::LOCALHOST) => Ok(()),
        _ => Err(UpError::NotLoopback(listen)),
    }
}
