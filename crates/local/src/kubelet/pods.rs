//! The pods of this node: follows the API, and keeps one worker a pod.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::address::Addresses;
use super::agent::Agent;
use super::state::PodState;
use super::worker::{Desired, Worker};

/// Errors in a row after which the watch is set up anew, with a fresh list: some
/// answers (a resource version that the server does not know any more) would
/// otherwise be retried for ever. Few, since each error in a row also waits longer.
const MAX_ERRORS: u32 = 3;
/// A watch is renewed this often, so that a half-open connection is noticed.
const WATCH_SECONDS: u32 = 60;

/// All pods of one node.
pub(crate) struct Pods {
    agent: Arc<Agent>,
    workers: HashMap<String, Handle>,
    running: JoinSet<String>,
    /// Uids whose worker is done while the API may still show them.
    done: HashSet<String>,
    addresses: Addresses,
    position_file: PathBuf,
    /// What an earlier life left on disk is removed.
    cleaned: bool,
}

struct Handle {
    desired: watch::Sender<Desired>,
    ip: Ipv4Addr,
}

impl Pods {
    pub(crate) fn new(agent: Arc<Agent>) -> Self {
        let position_file = agent.data_dir.join("next-address");
        let next = std::fs::read_to_string(&position_file)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            // Chance keeps the kubelets of one machine apart, which share its loopback.
            .unwrap_or_else(|| getrandom::u32().unwrap_or(0));
        Self {
            agent,
            workers: HashMap::new(),
            running: JoinSet::new(),
            done: HashSet::new(),
            addresses: Addresses::starting_at(next),
            position_file,
            cleaned: false,
        }
    }

    /// Follows the API; never returns.
    pub(crate) async fn watch(&mut self) {
        let fields = format!("spec.nodeName={}", self.agent.node_name);
        let config = watcher::Config::default()
            .fields(&fields)
            .timeout(WATCH_SECONDS);
        loop {
            let api: Api<Pod> = Api::all(self.agent.client());
            let mut events = watcher(api, config.clone()).default_backoff().boxed();
            let mut listed: Option<Vec<Pod>> = None;
            let mut errors = 0;
            while errors < MAX_ERRORS {
                let event = tokio::select! {
                    event = events.next() => event,
                    Some(ended) = self.running.join_next() => {
                        if let Ok(uid) = ended {
                            self.ended(&uid);
                        }
                        continue;
                    }
                };
                match event {
                    Some(Ok(event)) => {
                        errors = 0;
                        self.take(event, &mut listed);
                    }
                    Some(Err(error)) => {
                        errors += 1;
                        tracing::debug!(%error, errors, "the watch on pods will be resumed");
                    }
                    None => break,
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// One event of the watch; `listed` collects a list until it is complete.
    fn take(&mut self, event: Event<Pod>, listed: &mut Option<Vec<Pod>>) {
        match event {
            Event::Init => *listed = Some(Vec::new()),
            Event::InitApply(pod) => listed.get_or_insert_default().push(pod),
            Event::InitDone => {
                let known = self.replace(listed.take().unwrap_or_default());
                if !std::mem::replace(&mut self.cleaned, true) {
                    self.remove_old_folders(&known);
                }
            }
            Event::Apply(pod) => self.apply(pod),
            Event::Delete(pod) => self.delete(pod.metadata.uid.as_deref().unwrap_or_default()),
        }
    }

    /// A complete list: what is not in it is gone. Returns the uids in it.
    fn replace(&mut self, mut pods: Vec<Pod>) -> HashSet<String> {
        let uids: HashSet<String> = pods
            .iter()
            .filter_map(|pod| pod.metadata.uid.clone())
            .collect();
        self.done.retain(|uid| uids.contains(uid));
        let gone: Vec<String> = self
            .workers
            .keys()
            .filter(|uid| !uids.contains(*uid))
            .cloned()
            .collect();
        for uid in gone {
            self.delete(&uid);
        }
        // Those that have an address already must get it before it is given away.
        pods.sort_by_key(|pod| {
            pod.status
                .as_ref()
                .is_none_or(|status| status.pod_ip.is_none())
        });
        for pod in pods {
            self.apply(pod);
        }
        uids
    }

    fn apply(&mut self, pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        if let Some(handle) = self.workers.get(&uid) {
            handle.desired.send_replace(Desired::Present(Arc::new(pod)));
            return;
        }
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let over = matches!(phase, Some("Succeeded" | "Failed"));
        if self.done.contains(&uid) || (over && pod.metadata.deletion_timestamp.is_none()) {
            return;
        }
        let Some(ip) = self.address_for(&pod) else {
            tracing::error!(uid, "no pod address is free");
            return;
        };
        let pod = Arc::new(pod);
        let state = PodState::new(&pod, ip, Timestamp::now());
        let (desired, receiver) = watch::channel(Desired::Present(Arc::clone(&pod)));
        let worker = Worker::new(Arc::clone(&self.agent), pod, state);
        self.workers.insert(uid.clone(), Handle { desired, ip });
        self.running.spawn(async move {
            worker.run(receiver).await;
            uid
        });
    }

    fn delete(&mut self, uid: &str) {
        self.done.remove(uid);
        if let Some(handle) = self.workers.get(uid) {
            handle.desired.send_replace(Desired::Gone);
        }
    }

    fn address_for(&mut self, pod: &Pod) -> Option<Ipv4Addr> {
        let earlier = pod
            .status
            .as_ref()
            .and_then(|status| status.pod_ip.as_ref()?.parse().ok());
        if let Some(ip) = earlier
            && self.addresses.claim(ip)
        {
            return Some(ip);
        }
        let ip = self.addresses.allocate()?;
        // Lost writes only make an address come again sooner.
        let _ = std::fs::write(&self.position_file, self.addresses.position().to_string());
        Some(ip)
    }

    /// Nothing of the pod is left but its folder.
    fn ended(&mut self, uid: &str) {
        if let Some(handle) = self.workers.remove(uid) {
            self.addresses.release(handle.ip);
            // The API may still show it: its last event must not start it again.
            if matches!(*handle.desired.borrow(), Desired::Present(_)) {
                self.done.insert(uid.to_owned());
            }
        }
        self.agent.claims.release(uid);
        remove_folder(self.agent.pod_dir(uid));
    }

    /// Folders of pods that went while no kubelet ran.
    fn remove_old_folders(&self, known: &HashSet<String>) {
        let entries = std::fs::read_dir(self.agent.pods_dir())
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries {
            if entry
                .file_name()
                .to_str()
                .is_none_or(|uid| !known.contains(uid))
            {
                remove_folder(entry.path());
            }
        }
    }

    /// Waits until every worker has stopped its processes; `agent.stop` is cancelled.
    pub(crate) async fn finish(mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

fn remove_folder(path: PathBuf) {
    tokio::task::spawn_blocking(move || {
        if let Err(error) = std::fs::remove_dir_all(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a pod's folder could not be removed");
        }
    });
}
