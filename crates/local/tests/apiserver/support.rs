//! A server in this process on a free port, and clients of it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use std::sync::Once;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const NAMESPACE: &str = "workspaces";
/// Nothing here takes this long unless it is broken.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// After so long without a heartbeat a node is lost; those that never sent one are not watched.
pub(crate) const NODE_GRACE: Duration = Duration::from_secs(2);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) ca: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn tokens() -> Tokens {
    Tokens {
        admin: "admin-token".into(),
        control: "control-token".into(),
        proxy: "proxy-token".into(),
    }
}

pub(crate) fn config(data_dir: &Path, port: u16) -> ApiServerConfig {
    install_provider();
    ApiServerConfig {
        data_dir: data_dir.to_owned(),
        listen: SocketAddr::from(([127, 0, 0, 1], port)),
        tokens: tokens(),
    }
}

fn install_provider() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

pub(crate) async fn client_of(address: SocketAddr, ca: &str, token: &str) -> Client {
    install_provider();
    let parsed = Kubeconfig::from_yaml(&kubeconfig(address, ca, token, NAMESPACE)).unwrap();
    let mut config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

impl Server {
    pub(crate) async fn start(data_dir: &Path) -> Self {
        Self::start_on(data_dir, 0).await
    }

    pub(crate) async fn start_on(data_dir: &Path, port: u16) -> Self {
        let bound = bind(config(data_dir, port))
            .await
            .expect("the server binds");
        let (address, ca) = (bound.address(), bound.ca_pem().to_owned());
        let stop = CancellationToken::new();
        let bound = bound.with_node_grace(NODE_GRACE);
        let task = tokio::spawn(bound.serve(stop.clone()));
        Self {
            address,
            ca,
            stop,
            task,
        }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.task)
            .await
            .expect("stops in time")
            .expect("no panic");
    }

    pub(crate) fn kubeconfig(&self, token: &str) -> String {
        kubeconfig(self.address, &self.ca, token, NAMESPACE)
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with("admin-token").await
    }

    pub(crate) async fn client_with(&self, token: &str) -> Client {
        client_of(self.address, &self.ca, token).await
    }

    /// A raw request; returns status, headers and body as JSON.
    pub(crate) async fn raw(
        &self,
        method: reqwest::Method,
        path: &str,
        token: &str,
        body: Option<(&str, Vec<u8>)>,
    ) -> (u16, reqwest::header::HeaderMap, Value) {
        let client = reqwest::Client::builder()
            .add_root_certificate(reqwest::Certificate::from_pem(self.ca.as_bytes()).unwrap())
            .build()
            .unwrap();
        let mut request = client
            .request(method, format!("https://{}{path}", self.address))
            .timeout(LONG);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some((content_type, body)) = body {
            request = request.header("content-type", content_type).body(body);
        }
        let response = request.send().await.expect("an answer");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        (
            status,
            headers,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        )
    }

    /// kubectl with a kubeconfig of its own.
    pub(crate) fn kubectl(&self) -> Kubectl {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), self.kubeconfig("admin-token")).unwrap();
        Kubectl { home }
    }
}

pub(crate) struct Kubectl {
    home: TempDir,
}

impl Kubectl {
    pub(crate) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("kubectl");
        command
            .args(args)
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, args: &[&str], stdin: &str) -> Output {
        use tokio::io::AsyncWriteExt;
        let mut child = self
            .command(args)
            .spawn()
            .expect("kubectl is installed: these tests need it");
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(stdin.as_bytes()).await.unwrap();
        drop(pipe);
        tokio::time::timeout(LONG, child.wait_with_output())
            .await
            .unwrap_or_else(|_| panic!("kubectl {args:?} does not end"))
            .unwrap()
    }

    /// Runs a command that must succeed without a warning; returns what it printed.
    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        self.ok_with(args, "").await
    }

    pub(crate) async fn ok_with(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {args:?}: {stderr}");
        assert!(
            !stderr.to_lowercase().contains("warning"),
            "kubectl {args:?}: {stderr}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail; returns what it complained of.
    pub(crate) async fn fails(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin).await;
        assert!(!output.status.success(), "kubectl {args:?} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }
}

pub(crate) async fn make_namespace(client: &Client) {
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
}

/// A node that is ready, as a kubelet registers it.
pub(crate) async fn make_node(client: &Client, name: &str) {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {
                "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "process://1",
                "kernelVersion": "6", "kubeProxyVersion": "", "kubeletVersion": "v1.34.0",
                "machineID": "", "operatingSystem": "linux", "osImage": "Linux", "systemUUID": "",
            },
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        },
    }))
    .unwrap();
    Api::<Node>::all(client.clone())
        .create(&PostParams::default(), &node)
        .await
        .unwrap();
}

pub(crate) fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), NAMESPACE)
}

pub(crate) fn pod(name: &str) -> Pod {
    pod_with(name, |_| {})
}

pub(crate) fn pod_with(name: &str, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": "w"}},
        "spec": {"containers": [{"name": "main", "image": "nogoo9-sample:1.0"}]},
    });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

/// What a kubelet reports of a pod that serves.
pub(crate) async fn make_ready(pods: &Api<Pod>, name: &str) {
    let status = json!({"status": {
        "phase": "Running", "podIP": "127.64.0.9", "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
        "containerStatuses": [{
            "name": "main", "image": "nogoo9-sample:1.0", "imageID": "x", "ready": true,
            "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        }],
    }});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
        .await
        .unwrap();
}

/// Waits until a pod is as wanted.
pub(crate) async fn until(pods: &Api<Pod>, name: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
    use futures::TryStreamExt;
    let config = kube::runtime::watcher::Config::default().fields(&format!("metadata.name={name}"));
    let stream = kube::runtime::watcher(pods.clone(), config);
    let stream = kube::runtime::WatchStreamExt::applied_objects(stream);
    let mut stream = std::pin::pin!(stream);
    tokio::time::timeout(LONG, async {
        while let Some(pod) = stream.try_next().await.unwrap() {
            if wanted(&pod) {
                return pod;
            }
        }
        panic!("the watch ended");
    })
    .await
    .unwrap_or_else(|_| panic!("pod {name} does not become as wanted"))
}

/// Polls until there is something.
pub(crate) async fn wait<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = poll().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LONG, found)
        .await
        .unwrap_or_else(|_| panic!("not within {LONG:?}: {what}"))
}

pub(crate) fn api_error(error: kube::Error) -> (u16, String, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not an API error: {other}"),
    }
}
