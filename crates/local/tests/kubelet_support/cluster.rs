//! A cluster for the kubelet's tests: the embedded API server in this process, and a
//! kubelet with the real shim and the real sample.
//!
//! With `NOGOO9_TEST_KUBECONFIG` the same tests run against that API server instead,
//! each in a namespace and with a node of its own, but for those that need the
//! embedded one ([`Cluster::embedded`]). It may have a scheduler or not.
#![allow(dead_code)] // each test binary uses its own part

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Node, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nogoo9_local::apiserver::{self, ApiServerConfig, Tokens};
use nogoo9_local::kubelet::{self, KubeletConfig, KubeletError, LocalImages};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Until when a condition must hold; far more than it takes.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// A task that can be stopped and awaited.
pub(crate) struct Service<T> {
    stop: CancellationToken,
    task: JoinHandle<T>,
}

impl<T> Service<T> {
    pub(crate) async fn stop(self) -> T {
        self.stop.cancel();
        tokio::time::timeout(BOUND, self.task)
            .await
            .expect("stops in time")
            .unwrap()
    }
}

pub(crate) struct Cluster {
    pub(crate) dir: TempDir,
    pub(crate) client: Client,
    pub(crate) kubeconfig: String,
    pub(crate) namespace: String,
    pub(crate) node: String,
    address: Option<SocketAddr>,
    server: Option<Service<()>>,
    kubelet: Option<Service<Result<(), KubeletError>>>,
}

impl Cluster {
    /// With a running kubelet.
    pub(crate) async fn start() -> Self {
        let mut cluster = Self::without_kubelet().await;
        cluster.start_kubelet();
        cluster
    }

    /// With a running kubelet, on the embedded API server in any case.
    pub(crate) async fn embedded() -> Self {
        let mut cluster = Self::new(None).await;
        cluster.start_kubelet();
        cluster
    }

    pub(crate) async fn without_kubelet() -> Self {
        Self::new(std::env::var_os("NOGOO9_TEST_KUBECONFIG")).await
    }

    async fn new(external: Option<OsString>) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let cluster = match external {
            Some(file) => {
                let kubeconfig = std::fs::read_to_string(file).unwrap();
                let suffix = getrandom::u32().unwrap();
                Self {
                    client: client(&kubeconfig).await,
                    dir,
                    kubeconfig,
                    namespace: format!("kubelet-{suffix:x}"),
                    node: format!("local-{suffix:x}"),
                    address: None,
                    server: None,
                    kubelet: None,
                }
            }
            None => {
                let (server, address, ca) = serve(dir.path(), free_address()).await;
                let kubeconfig = apiserver::kubeconfig(address, &ca, "admin", "work");
                Self {
                    client: client(&kubeconfig).await,
                    dir,
                    kubeconfig,
                    namespace: "work".into(),
                    node: "local".into(),
                    address: Some(address),
                    server: Some(server),
                    kubelet: None,
                }
            }
        };
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": cluster.namespace}})).unwrap();
        Api::all(cluster.client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        cluster
    }

    pub(crate) fn start_kubelet(&mut self) {
        let stop = CancellationToken::new();
        let config = kubelet_config(self.client.clone(), self.dir.path(), &self.node);
        let task = tokio::spawn(kubelet::run(config, stop.clone()));
        self.kubelet = Some(Service { stop, task });
    }

    pub(crate) async fn stop_kubelet(&mut self) {
        self.kubelet.take().unwrap().stop().await.unwrap();
    }

    pub(crate) async fn stop_server(&mut self) {
        self.server.take().unwrap().stop().await;
    }

    pub(crate) async fn restart_server(&mut self) {
        let (server, ..) = serve(self.dir.path(), self.address.unwrap()).await;
        self.server = Some(server);
    }

    /// Stops what runs; every test that succeeds ends with it.
    pub(crate) async fn end(mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.stop().await.unwrap();
        }
        let pods_dir = self.pods_dir();
        assert_eq!(
            processes_below(&pods_dir),
            Vec::<String>::new(),
            "nothing is left"
        );
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods_dir(&self) -> PathBuf {
        self.dir.path().join("pods")
    }

    /// Creates a pod, and sees to it that it is bound to the node.
    pub(crate) async fn create(&self, name: &str, spec: Value) -> Pod {
        let pod = self.create_unbound(name, spec).await;
        self.bind(name).await;
        pod
    }

    pub(crate) async fn create_unbound(&self, name: &str, mut spec: Value) -> Pod {
        if self.address.is_none() {
            // A scheduler, if there is one, would be faster, and not choose this kubelet's node.
            spec["schedulerName"] = "test".into();
        }
        let meta = json!({"name": name, "namespace": self.namespace, "labels": {"app": name}});
        let pod = serde_json::from_value(json!({"metadata": meta, "spec": spec})).unwrap();
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .unwrap()
    }

    /// Binds a pod to the node; the embedded API server's scheduler does so by itself.
    pub(crate) async fn bind(&self, name: &str) {
        if self.address.is_none() {
            let target = json!({"apiVersion": "v1", "kind": "Node", "name": self.node});
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target
            });
            let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", self.namespace);
            let request = http::Request::post(path)
                .header("content-type", "application/json")
                .body(serde_json::to_vec(&binding).unwrap())
                .unwrap();
            self.client.request::<Value>(request).await.unwrap();
        }
    }

    pub(crate) async fn create_config_map(&self, name: &str, data: Value) {
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap();
        Api::namespaced(self.client.clone(), &self.namespace)
            .create(&PostParams::default(), &map)
            .await
            .unwrap();
    }

    pub(crate) async fn create_claim(&self, name: &str, mode: &str) {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        }))
        .unwrap();
        Api::namespaced(self.client.clone(), &self.namespace)
            .create(&PostParams::default(), &claim)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, name: &str, grace: u32) {
        self.pods()
            .delete(name, &DeleteParams::default().grace_period(grace))
            .await
            .unwrap();
    }

    /// Polls until the pod, as JSON, satisfies the condition.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        mut holds: impl FnMut(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let poll = async {
            loop {
                if let Ok(pod) = self.pods().get(name).await {
                    last = serde_json::to_value(pod).unwrap();
                    if holds(&last) {
                        return;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(BOUND, poll).await.is_err() {
            panic!(
                "{name}: {what}: not within {BOUND:?}; last seen: {:#}",
                last["status"]
            );
        }
        last
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Value {
        self.until(name, "ready", |pod| condition(pod, "Ready") == "True")
            .await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        wait_for(&format!("{name} is gone"), async || {
            self.pods().get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// The reasons of a pod's events, oldest first.
    pub(crate) async fn reasons(&self, name: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().fields(&format!("involvedObject.name={name}"));
        let mut events = api.list(&params).await.unwrap().items;
        // Their names end in the time at which they were first sent, which a repetition leaves as it is.
        events.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let ours = events.into_iter().filter(|event| {
            event
                .source
                .as_ref()
                .is_some_and(|source| source.component.as_deref() == Some("kubelet"))
        });
        ours.filter_map(|event| event.reason).collect()
    }

    pub(crate) async fn until_reason(&self, name: &str, reason: &str) {
        wait_for(&format!("{name} has an event {reason}"), async || {
            self.reasons(name).await.iter().any(|seen| seen == reason)
        })
        .await;
    }

    /// A container's log without timestamps.
    pub(crate) fn log(&self, pod: &Value, container: &str, run: u32) -> Vec<String> {
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let path = self
            .pods_dir()
            .join(uid)
            .join(container)
            .join(format!("{run}.log"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned())
            .collect()
    }
}

/// An address that stays free while its server is away: below the range of ports that Linux gives to
/// outgoing connections. It is bound to and not listened at: processes that are started have a copy of
/// what is open until they run their own program, and whoever listens has the address for himself.
fn free_address() -> SocketAddr {
    loop {
        let port = 20_000 + u16::try_from(getrandom::u32().unwrap() % 12_000).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        if socket.bind(address).is_ok() {
            return address;
        }
    }
}

async fn serve(dir: &Path, listen: SocketAddr) -> (Service<()>, SocketAddr, String) {
    let tokens = Tokens {
        admin: "admin".into(),
        control: "control".into(),
        proxy: "proxy".into(),
    };
    let config = ApiServerConfig {
        data_dir: dir.to_owned(),
        listen,
        tokens,
    };
    let bound = apiserver::bind(config).await.unwrap();
    let (address, ca) = (bound.address(), bound.ca_pem().to_owned());
    let stop = CancellationToken::new();
    let task = tokio::spawn(bound.serve(stop.clone()));
    (Service { stop, task }, address, ca)
}

pub(crate) async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    Client::try_from(
        Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap(),
    )
    .unwrap()
}

pub(crate) fn kubelet_config(client: Client, data_dir: &Path, node: &str) -> KubeletConfig {
    KubeletConfig {
        client,
        node_name: node.into(),
        data_dir: data_dir.to_owned(),
        shim: vec![env!("CARGO_BIN_EXE_nogoo9-pod-shim").into()],
        images: LocalImages::new()
            .with("nogoo9-sample", env!("CARGO_BIN_EXE_nogoo9-sample"))
            .nothing("nogoo9-nothing"),
    }
}

pub(crate) async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let poll = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        tokio::time::timeout(BOUND, poll).await.is_ok(),
        "not within {BOUND:?}: {what}"
    );
}

pub(crate) fn condition<'a>(pod: &'a Value, type_: &str) -> &'a str {
    let conditions = pod["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_)
        .and_then(|condition| condition["status"].as_str())
        .unwrap_or("absent")
}

pub(crate) fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

pub(crate) fn waiting<'a>(pod: &'a Value, reason: &str) -> Option<&'a str> {
    let waiting = &container(pod)["state"]["waiting"];
    (waiting["reason"] == reason).then(|| waiting["message"].as_str().unwrap_or_default())
}

pub(crate) fn pod_ip(pod: &Value) -> String {
    pod["status"]["podIP"].as_str().unwrap().to_owned()
}

/// The spec of a sample pod as a template would have it.
pub(crate) fn sample(image: &str) -> Value {
    json!({"terminationGracePeriodSeconds": 5, "containers": [{
        "name": "workspace", "image": image,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "WORKSPACE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "MESSAGE", "value": "hello from $(POD_NAME)"}
        ],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 3000}, "periodSeconds": 1},
    }]})
}

/// A pod that runs a shell script; no image of its own.
pub(crate) fn script(script: &str) -> Value {
    json!({"name": "c", "image": "nogoo9-sample:1.0", "command": ["/bin/sh", "-c", script]})
}

/// The command lines of all processes that belong to pods below `pods_dir`.
pub(crate) fn processes_below(pods_dir: &Path) -> Vec<String> {
    let mark = format!("NOGOO9_SANDBOX={}/", pods_dir.display());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = Vec::new();
    for entry in entries {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|entry| entry.starts_with(mark.as_bytes()))
        {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}
