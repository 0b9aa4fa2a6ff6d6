//! A kubelet that runs pods as local processes.
//!
//! An ordinary API client: it registers a Node, watches the pods bound to it, runs
//! each container under the pod shim, and reports status, events and logs as the
//! real one does. It works against the embedded API server and a real one alike.
//!
//! Each pod gets its own loopback address (127.64.0.0/10), told to it by the downward
//! API (`status.podIP`); its programs must bind that address, not `0.0.0.0`. What a
//! container would isolate is not isolated here: file system, users, resources and
//! `securityContext` are the machine's and are ignored. Not supported: `postStart`,
//! ephemeral containers, restartable init containers, `terminationMessagePath` (see
//! the variable `NOGOO9_TERMINATION_MESSAGE`), gRPC probes. Volumes: see `volumes`.
//!
//! Below the data folder: `pods/UID/CONTAINER/RESTARTS.log` (CRI format), `pods/UID/
//! volumes/NAME`, `pods/UID/home` (working directory and `HOME`), `claims/NS/NAME/UID`.
//!
//! Without the API server, pods run on and every report waits; after a kill of the
//! kubelet, its next life starts the pods again, counted as a restart.

mod address;
mod agent;
mod api;
mod backoff;
mod claims;
mod env;
mod events;
mod images;
mod launch;
mod node;
mod pods;
mod probe;
mod prober;
mod process;
mod state;
mod status;
mod volumes;
mod worker;

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use agent::{Agent, Claims, pods_dir};
use events::Recorder;
pub use images::LocalImages;
use pods::Pods;

/// What a kubelet needs.
pub struct KubeletConfig {
    /// A client with the rights of a node: pods and their status, nodes, events,
    /// ConfigMaps, Secrets and claims.
    pub client: kube::Client,
    /// The Node that it registers, `local` by custom.
    pub node_name: String,
    /// Where it keeps pods' folders and logs; one kubelet at a time.
    pub data_dir: PathBuf,
    /// The command that runs the shim, such as `[nogoo9, pod-shim]`.
    pub shim: Vec<OsString>,
    /// What image names mean.
    pub images: LocalImages,
}

/// Why a kubelet could not run.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// Its folder cannot be used.
    #[error("the kubelet cannot use its data folder {}: {source}", path.display())]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another kubelet works in the same folder.
    #[error("another kubelet uses the data folder {}; stop it or choose another folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
}

/// Runs a kubelet until `stop` is cancelled. Then it leaves all API objects alone and
/// stops every process before it returns: `SIGTERM`, at most five seconds later
/// `SIGKILL`.
///
/// An API server that cannot be reached is no error: it is tried for as long as it
/// takes.
///
/// # Errors
/// When the data folder cannot be used, or is in use.
pub async fn run(config: KubeletConfig, stop: CancellationToken) -> Result<(), KubeletError> {
    let KubeletConfig {
        client,
        node_name,
        data_dir,
        shim,
        images,
    } = config;
    // Absolute: pods run in other folders, and their marks must stay the same.
    let data_dir = std::path::absolute(&data_dir).map_err(|source| KubeletError::DataDir {
        path: data_dir,
        source,
    })?;
    let pods_dir = pods_dir(&data_dir);
    let _lock = lock(&data_dir, &pods_dir)?;
    // What a killed kubelet and killed shims left behind.
    process::sweep_below(&pods_dir).await;

    let recorder = Recorder::start(client.clone(), node_name.clone(), stop.clone());
    let heartbeat = node::keep(client.clone(), node_name.clone());
    let claims_client = client.clone();
    let agent = Arc::new(Agent {
        node_name,
        data_dir,
        shim,
        images,
        recorder,
        stop: stop.clone(),
        reapers: TaskTracker::new(),
        claims: Claims::default(),
        client,
    });
    let reapers = agent.reapers.clone();
    let folders = claims::keep(claims_client, Arc::clone(&agent));
    let mut pods = Pods::new(agent);
    tokio::select! {
        () = folders => {}
        () = heartbeat => {}
        () = pods.watch() => {}
        () = stop.cancelled() => {}
    }
    pods.finish().await;
    // Probes were dropped with their workers, which kills what they run; it is gone once reaped.
    reapers.close();
    if tokio::time::timeout(process::KILL_BOUND, reapers.wait())
        .await
        .is_err()
    {
        tracing::error!("commands of probes could not be stopped");
    }
    Ok(())
}

/// Makes the folders and takes the lock that keeps a second kubelet out.
fn lock(data_dir: &Path, pods_dir: &Path) -> Result<Flock<File>, KubeletError> {
    let failed = |source| KubeletError::DataDir {
        path: data_dir.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(pods_dir)
        .map_err(failed)?;
    let file = File::create(data_dir.join("kubelet.lock")).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
        Errno::EWOULDBLOCK => KubeletError::Busy {
            path: data_dir.to_owned(),
        },
        other => failed(other.into()),
    })
}
