//! An embedded API server, and clients of it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, PostParams};
use nogoo9_control::cluster::Cluster;
use nogoo9_control::login::keys::{CONFIG_MAP, JWKS_KEY};
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use nogoo9_runtime::kube::{Retry, connect};
use serde_json::json;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const NAMESPACE: &str = "nogoo9-system";

pub(crate) struct Server {
    pub(crate) client: kube::Client,
    pub(crate) proxy: kube::Client,
    pub(crate) cluster: Cluster,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens {
            admin: "admin".to_owned(),
            control: "control".to_owned(),
            proxy: "proxy".to_owned(),
        };
        let bound = bind(ApiServerConfig {
            data_dir: folder.path().to_owned(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens,
        })
        .await
        .expect("it binds");
        let (address, ca) = (bound.address(), bound.ca_pem().to_owned());
        let stop = CancellationToken::new();
        let task = tokio::spawn(bound.serve(stop.clone()));
        let connected = async |token: &str| {
            let file = folder.path().join(token);
            let yaml = kubeconfig(address, &ca, token, NAMESPACE);
            std::fs::write(&file, yaml).expect("written");
            connect(Some(&file), Retry::Off).await.expect("a client")
        };
        let (control, proxy) = (connected("control").await, connected("proxy").await);
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("an object");
        let namespaces: Api<Namespace> = Api::all(control.client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("created");
        Self {
            cluster: Cluster::new(&control, NAMESPACE.to_owned(), "workspaces".to_owned()),
            client: control.client,
            proxy: proxy.client,
            stop,
            task: Some(task),
            _folder: folder,
        }
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn published(&self) -> String {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = maps.get(CONFIG_MAP).await.expect("published");
        map.data.expect("data")[JWKS_KEY].clone()
    }

    /// Stops answering.
    pub(crate) async fn go_away(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.await.expect("no panic");
        }
    }

    pub(crate) async fn stop(mut self) {
        self.go_away().await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
