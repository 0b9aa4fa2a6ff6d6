//! What all parts of one kubelet share.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::events::Recorder;
use super::images::LocalImages;

/// The search path of every container; the node's own is not passed on.
pub(crate) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// One kubelet.
pub(crate) struct Agent {
    pub(crate) node_name: String,
    pub(crate) data_dir: PathBuf,
    pub(crate) shim: Vec<OsString>,
    pub(crate) images: LocalImages,
    pub(crate) recorder: Recorder,
    /// Stops every pod without telling the API server.
    pub(crate) stop: CancellationToken,
    /// Awaits the ends of probes and hooks, which may outlive their pods' workers for a moment.
    pub(crate) reapers: TaskTracker,
    pub(crate) claims: Claims,
    pub(crate) client: kube::Client,
}

impl Agent {
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client(), namespace)
    }

    pub(crate) fn pods_dir(&self) -> PathBuf {
        pods_dir(&self.data_dir)
    }

    pub(crate) fn pod_dir(&self, uid: &str) -> PathBuf {
        self.pods_dir().join(uid)
    }

    /// The folder of a claim. The uid makes that of a claim which was deleted another one than
    /// that of its successor by the same name.
    pub(crate) fn claim_dir(&self, namespace: &str, claim: &str, uid: &str) -> PathBuf {
        self.claims_dir().join(namespace).join(claim).join(uid)
    }

    pub(crate) fn claims_dir(&self) -> PathBuf {
        self.data_dir.join("claims")
    }
}

/// Where pods have their folders; the API server reads logs below it.
pub(crate) fn pods_dir(data_dir: &Path) -> PathBuf {
    data_dir.join("pods")
}

/// Which pod holds which exclusive claim, both by uid. In memory: one kubelet owns a data
/// folder, and its pods die with it.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    holders: Mutex<HashMap<String, String>>,
}

impl Claims {
    /// Takes a claim for a pod, which may hold it already; else says who does.
    pub(crate) fn take(&self, claim: &str, pod: &str) -> Result<(), String> {
        let mut holders = self
            .holders
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let holder = holders
            .entry(claim.to_owned())
            .or_insert_with(|| pod.to_owned());
        if holder == pod {
            Ok(())
        } else {
            Err(holder.clone())
        }
    }

    /// Gives back all that a pod holds.
    pub(crate) fn release(&self, pod: &str) {
        let mut holders = self
            .holders
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        holders.retain(|_, holder| holder != pod);
    }

    /// Whether a pod holds the claim.
    pub(crate) fn is_held(&self, claim: &str) -> bool {
        let holders = self
            .holders
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        holders.contains_key(claim)
    }
}
