//! An embedded API server, and pods as their objects.

use crate::address::free;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "nogoo9-workspaces";
/// Pods here name a node that nobody has made, and are to outlive any test all the same.
const NODE_GRACE: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct Cluster {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) pods: Api<Pod>,
    data_dir: PathBuf,
    address: SocketAddr,
    stop: CancellationToken,
    serving: Option<tokio::task::JoinHandle<()>>,
}

fn tokens() -> Tokens {
    let token = |name: &str| format!("{name}-token-0123456789abcdef");
    Tokens {
        admin: token("admin"),
        control: token("control"),
        proxy: token("proxy"),
    }
}

impl Cluster {
    pub(crate) async fn start(dir: &Path) -> Self {
        let data_dir = dir.join("cluster");
        let bound = bind(ApiServerConfig {
            data_dir: data_dir.clone(),
            listen: free(),
            tokens: tokens(),
        })
        .await
        .unwrap()
        .with_node_grace(NODE_GRACE);
        let (address, ca) = (bound.address(), bound.ca_pem().to_owned());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(bound.serve(stop.clone()));
        let path = dir.join("proxy.kubeconfig");
        std::fs::write(&path, kubeconfig(address, &ca, &tokens().proxy, NAMESPACE)).unwrap();
        let admin = kubeconfig(address, &ca, &tokens().admin, NAMESPACE);
        let config = kube::Config::from_custom_kubeconfig(
            Kubeconfig::from_yaml(&admin).unwrap(),
            &KubeConfigOptions::default(),
        )
        .await
        .unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let pods = Api::namespaced(client, NAMESPACE);
        Self {
            kubeconfig: path,
            pods,
            data_dir,
            address,
            stop,
            serving: Some(serving),
        }
    }

    /// Takes the API server away.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        self.serving.take().unwrap().await.unwrap();
    }

    /// Brings it back, with its state.
    pub(crate) async fn resume(&mut self) {
        let config = ApiServerConfig {
            data_dir: self.data_dir.clone(),
            listen: self.address,
            tokens: tokens(),
        };
        let bound = bind(config).await.unwrap().with_node_grace(NODE_GRACE);
        self.stop = CancellationToken::new();
        self.serving = Some(tokio::spawn(bound.serve(self.stop.clone())));
    }

    /// Copies the state of the API server, which must be away.
    pub(crate) fn back_up(&self, to: &Path) {
        copy(&self.data_dir, to);
    }

    /// Puts a copy in place of its state; it must be away.
    pub(crate) fn restore(&self, from: &Path) {
        std::fs::remove_dir_all(&self.data_dir).unwrap();
        copy(from, &self.data_dir);
    }

    /// Creates a pod that is not ready, and returns its uid.
    pub(crate) async fn create(&self, pod: &Spec<'_>) -> String {
        let mut annotations = serde_json::Map::new();
        annotations.insert("nogoo9/user-sub".to_owned(), json!(pod.owner));
        annotations.insert(
            "nogoo9/workspace-port".to_owned(),
            json!(pod.address.port().to_string()),
        );
        for (key, value) in pod.annotations {
            annotations.insert(format!("nogoo9/{key}"), json!(value));
        }
        // A node is named, so that a delete is a graceful one.
        let mut spec =
            json!({"nodeName": "local", "containers": [{"name": "main", "image": "sample:1"}]});
        if pod.gated {
            spec = json!({"schedulingGates": [{"name": "nogoo9/upgrade"}], "containers": spec["containers"]});
        }
        spec["hostNetwork"] = json!(!pod.own_address);
        let object = json!({
            "metadata": {
                "name": pod.name,
                "labels": {
                    "nogoo9/type": "workspace",
                    "nogoo9/managed-by": "nogoo9-spawner",
                    "nogoo9/workspace-id": pod.workspace,
                    "nogoo9/generation": pod.generation.to_string(),
                },
                "annotations": annotations,
            },
            "spec": spec,
        });
        let object: Pod = serde_json::from_value(object).unwrap();
        self.pods
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
            .metadata
            .uid
            .unwrap()
    }

    /// Says that a pod runs at its address, and is ready or not.
    pub(crate) async fn set_ready(&self, pod: &Spec<'_>, ready: bool) {
        let status = json!({"status": {
            "phase": "Running",
            "podIP": pod.address.ip().to_string(),
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        let patch: Patch<Value> = Patch::Merge(status);
        self.pods
            .patch_status(pod.name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Creates a pod and says that it is ready.
    pub(crate) async fn run(&self, pod: &Spec<'_>) -> String {
        let uid = self.create(pod).await;
        self.set_ready(pod, true).await;
        uid
    }

    /// Puts an annotation of ours on a pod.
    pub(crate) async fn annotate(&self, name: &str, key: &str, value: &str) {
        let mut annotations = serde_json::Map::new();
        annotations.insert(format!("nogoo9/{key}"), json!(value));
        let patch = json!({"metadata": {"annotations": annotations}});
        self.pods
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Labels a pod as one that takes no new requests: a recreate is about to delete it.
    pub(crate) async fn quiesce(&self, name: &str) {
        self.mark(name, Some("quiesced")).await;
    }

    /// Labels a pod with where an upgrade has brought it; `None`: it is committed.
    pub(crate) async fn mark(&self, name: &str, state: Option<&str>) {
        let labels = json!({"metadata": {"labels": {"nogoo9/upgrade-state": state}}});
        self.pods
            .patch(name, &PatchParams::default(), &Patch::Merge(labels))
            .await
            .unwrap();
    }

    /// Takes our gate off a pod.
    pub(crate) async fn release(&self, name: &str) {
        let gates = json!({"spec": {"schedulingGates": null}});
        self.pods
            .patch(name, &PatchParams::default(), &Patch::Merge(gates))
            .await
            .unwrap();
    }

    /// Asks for a graceful delete: the pod is terminating, and still there.
    pub(crate) async fn terminate(&self, name: &str) {
        self.pods
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Ends a terminating pod, as its kubelet does.
    pub(crate) async fn finish(&self, name: &str) {
        self.pods
            .delete(name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A pod in short.
pub(crate) struct Spec<'a> {
    pub(crate) name: &'a str,
    pub(crate) workspace: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) generation: u32,
    pub(crate) address: SocketAddr,
    pub(crate) annotations: &'a [(&'a str, &'a str)],
    /// Whether our scheduling gate holds it.
    pub(crate) gated: bool,
    /// Whether no other pod has its IP address: they share this machine's otherwise.
    pub(crate) own_address: bool,
}

impl<'a> Spec<'a> {
    pub(crate) fn new(
        name: &'a str,
        workspace: &'a str,
        generation: u32,
        address: SocketAddr,
    ) -> Self {
        Self {
            name,
            workspace,
            owner: "alice",
            generation,
            address,
            annotations: &[],
            gated: false,
            own_address: false,
        }
    }

    /// As a recreate makes it: behind the gate.
    pub(crate) fn successor(self) -> Self {
        Self {
            annotations: &[(
                "upgrade-of",
                r#"{"operation":"op-1","sourceUid":"of-the-old-one"}"#,
            )],
            gated: true,
            ..self
        }
    }

    pub(crate) fn with(self, annotations: &'a [(&'a str, &'a str)]) -> Self {
        Self {
            annotations,
            ..self
        }
    }

    pub(crate) fn alone(self) -> Self {
        Self {
            own_address: true,
            ..self
        }
    }

    pub(crate) fn of(self, owner: &'a str) -> Self {
        Self { owner, ..self }
    }
}
