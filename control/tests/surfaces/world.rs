//! Control with all its parts on a port, an API server and an identity provider in this process.

mod calls;
mod cluster;
mod credentials;
mod requests;
mod templates;

pub(crate) use calls::Calls;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, PostParams};
use nogoo9_control::cluster::Cluster;
use nogoo9_control::config::{Args, Settings};
use nogoo9_control::login::keys::Keyring;
use nogoo9_control::run::{Control, Gauges};
use nogoo9_control::service::Metrics;
use nogoo9_identity::keys::SigningKey;
use nogoo9_identity::session::SessionSigner;
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use nogoo9_local::idp::{Idp, IdpConfig};
use nogoo9_runtime::config::{Loaded, load};
use nogoo9_runtime::kube::{Connection, Retry, connect};
pub(crate) use requests::Answer;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub(crate) const SYSTEM: &str = "nogoo9-system";
pub(crate) const WORKSPACES: &str = "nogoo9-workspaces";
/// Longest wait for anything to come true.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct World {
    /// Where control listens.
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) admin: Client,
    connection: Connection,
    kubeconfig: PathBuf,
    issuer: String,
    signer: SessionSigner,
    idp_dir: TempDir,
    api_dir: TempDir,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With more flags for control.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let stop = CancellationToken::new();
        let (api_dir, kubeconfig, admin) = api_server(&stop).await;
        let (idp_listener, idp_port) = listener().await;
        let (public, port) = listener().await;
        let issuer = format!("http://127.0.0.1:{idp_port}");
        let idp_dir = tempfile::tempdir().unwrap();
        let idp = Idp::open(IdpConfig {
            data_dir: idp_dir.path().to_owned(),
            issuer: issuer.clone(),
            clients: Vec::new(),
            audience: format!("http://localhost:{port}/mcp"),
        })
        .unwrap();
        tokio::spawn(idp.serve(idp_listener, stop.clone()));
        let connection = connect(Some(&kubeconfig), Retry::Off).await.unwrap();
        connection.check(WORKSPACES).await.unwrap();
        let settings = settings(port, &issuer, &kubeconfig, flags);
        let key = SigningKey::generate().unwrap();
        let again = SigningKey::from_pem(&key.to_pem().unwrap()).unwrap();
        serve(&settings, &connection, key, public, &stop).await;
        Self {
            url: format!("http://localhost:{port}"),
            http: reqwest::Client::builder()
                .no_proxy()
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .unwrap(),
            admin,
            connection,
            kubeconfig,
            issuer,
            signer: SessionSigner::new(again, settings.common.public.url.as_str()),
            idp_dir,
            api_dir,
            stop,
        }
    }

    /// Another control beside it on the same cluster: its URL.
    pub(crate) async fn another(&self, flags: &[&str]) -> String {
        let connection = connect(Some(&self.kubeconfig), Retry::Off).await.unwrap();
        self.another_on(connection, &self.issuer, flags).await
    }

    /// The same, whose people sign in at another provider.
    pub(crate) async fn another_at(&self, issuer: &str) -> String {
        let connection = connect(Some(&self.kubeconfig), Retry::Off).await.unwrap();
        self.another_on(connection, issuer, &[]).await
    }

    async fn another_on(&self, connection: Connection, issuer: &str, flags: &[&str]) -> String {
        let (public, port) = listener().await;
        let settings = settings(port, issuer, &self.kubeconfig, flags);
        connection.check(WORKSPACES).await.unwrap();
        let key = SigningKey::generate().unwrap();
        serve(&settings, &connection, key, public, &self.stop).await;
        format!("http://localhost:{port}")
    }

    pub(crate) fn now(&self) -> i64 {
        self.connection.clock.now()
    }

    /// The cluster, as control sees it.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(&self.connection, SYSTEM.into(), WORKSPACES.into())
    }

    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut check: impl FnMut() -> F,
    ) {
        let waiting = async {
            while !check().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, waiting).await.is_ok(),
            "{what}: it did not come true"
        );
    }
}

async fn api_server(stop: &CancellationToken) -> (TempDir, PathBuf, Client) {
    let folder = tempfile::tempdir().unwrap();
    let token = |name: &str| format!("{name}-token-of-this-test");
    let tokens = Tokens {
        admin: token("admin"),
        control: token("control"),
        proxy: token("proxy"),
    };
    let config = ApiServerConfig {
        data_dir: folder.path().to_owned(),
        listen: ([127, 0, 0, 1], 0).into(),
        tokens,
    };
    let bound = bind(config).await.unwrap();
    let write = |name: &str| {
        let path = folder.path().join(format!("{name}.kubeconfig"));
        std::fs::write(
            &path,
            kubeconfig(bound.address(), bound.ca_pem(), &token(name), WORKSPACES),
        )
        .unwrap();
        path
    };
    let (control, admin) = (write("control"), write("admin"));
    tokio::spawn(bound.serve(stop.clone()));
    let admin = connect(Some(&admin), Retry::Off).await.unwrap().client;
    for name in [SYSTEM, WORKSPACES] {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::<Namespace>::all(admin.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }
    (folder, control, admin)
}

/// Control with all its parts, on that listener.
async fn serve(
    settings: &Settings,
    connection: &Connection,
    key: SigningKey,
    public: TcpListener,
    stop: &CancellationToken,
) {
    let control = Control::start(
        settings,
        connection,
        &Keyring::alone(key).unwrap(),
        Metrics::default(),
        Gauges::default(),
        stop.clone(),
    )
    .unwrap();
    tokio::join!(control.caches.synced(), control.templates.synced());
    let stopped = stop.clone().cancelled_owned();
    let server = axum::serve(public, control.router).with_graceful_shutdown(stopped);
    tokio::spawn(async move { server.await });
}

fn settings(port: u16, issuer: &str, kubeconfig: &Path, flags: &[&str]) -> Settings {
    let own = [
        "nogoo9-control".to_owned(),
        format!("--public-url=http://localhost:{port}"),
        "--path-mode".into(),
        format!("--issuer={issuer}"),
        "--client-id=nogoo9".into(),
        format!("--kubeconfig={}", kubeconfig.display()),
    ];
    let line = own.into_iter().map(Into::into);
    let line = line.chain(flags.iter().map(Into::into));
    match load::<Args>(line) {
        Ok(Loaded::Run(settings)) => settings,
        other => panic!("{:?}", other.err().map(|error| error.to_string())),
    }
}
