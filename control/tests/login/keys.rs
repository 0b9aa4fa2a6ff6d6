//! The signing key in the embedded API server: made once, whoever comes first.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nogoo9_control::login::keys::{CONFIG_MAP, JWKS_KEY, KeyStoreError, SECRET, load_or_create};
use nogoo9_identity::keys::public_jwks;
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use serde_json::json;
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "nogoo9-system";

struct Server {
    client: kube::Client,
    proxy: kube::Client,
    stop: CancellationToken,
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl Server {
    async fn start() -> Self {
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
        let client = async |token| {
            let yaml = kubeconfig(bound.address(), bound.ca_pem(), token, NAMESPACE);
            let file = Kubeconfig::from_yaml(&yaml).expect("a kubeconfig");
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(file, &options);
            kube::Client::try_from(config.await.expect("a configuration")).expect("a client")
        };
        let (client, proxy) = (client("control").await, client("proxy").await);
        let stop = CancellationToken::new();
        let task = tokio::spawn(bound.serve(stop.clone()));
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).expect("an object");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .expect("created");
        Self {
            client,
            proxy,
            stop,
            task,
            _folder: folder,
        }
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    async fn published(&self) -> String {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let map = maps.get(CONFIG_MAP).await.expect("published");
        map.data.expect("data")[JWKS_KEY].clone()
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("no panic");
    }
}

#[tokio::test]
async fn the_first_makes_the_key_and_all_others_find_it() {
    let server = Server::start().await;
    let load = || load_or_create(server.client.clone(), NAMESPACE);
    let all = tokio::join!(load(), load(), load(), load());
    let kids = [all.0, all.1, all.2, all.3].map(|key| key.expect("a key").kid().to_owned());
    assert!(kids.iter().all(|kid| *kid == kids[0]), "{kids:?}");
    let later = load().await.expect("a key");
    assert_eq!(later.kid(), kids[0]);
    assert_eq!(server.published().await, public_jwks([&later]));
    server.stop().await;
}

#[tokio::test]
async fn a_published_set_that_was_tampered_with_is_put_right() {
    let server = Server::start().await;
    let key = load_or_create(server.client.clone(), NAMESPACE)
        .await
        .expect("a key");
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), NAMESPACE);
    let patch = json!({"data": {JWKS_KEY: "{}", "more": "x"}});
    maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("patched");
    load_or_create(server.client.clone(), NAMESPACE)
        .await
        .expect("the key");
    assert_eq!(server.published().await, public_jwks([&key]));

    maps.delete(CONFIG_MAP, &DeleteParams::default())
        .await
        .expect("deleted");
    load_or_create(server.client.clone(), NAMESPACE)
        .await
        .expect("the key");
    assert_eq!(server.published().await, public_jwks([&key]));
    server.stop().await;
}

#[tokio::test]
async fn a_secret_without_a_key_is_named_and_left_alone() {
    let server = Server::start().await;
    let mut secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": SECRET}})).expect("an object");
    secret.data = Some([("current.pem".to_owned(), ByteString(b"hush".to_vec()))].into());
    server
        .secrets()
        .create(&PostParams::default(), &secret)
        .await
        .expect("created");
    let error = load_or_create(server.client.clone(), NAMESPACE)
        .await
        .expect_err("no key");
    assert!(matches!(error, KeyStoreError::Unusable { .. }) && !error.is_transient());
    let text = error.to_string();
    assert!(text.contains(SECRET) && text.contains(NAMESPACE) && text.contains("current.pem"));
    assert!(!text.contains("hush"), "{text}");
    let there = server.secrets().get(SECRET).await.expect("still there");
    assert_eq!(there.data.expect("data")["current.pem"].0, b"hush");
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_names_the_object() {
    let server = Server::start().await;
    let error = load_or_create(server.proxy.clone(), NAMESPACE)
        .await
        .expect_err("refused");
    assert!(!error.is_transient());
    assert!(error.to_string().contains(SECRET), "{error}");
    server.stop().await;
}
