//! The whole stage: cluster, provider, control, and the proxy binary.

mod admin;
mod credentials;
mod requests;

use crate::address::free;
use crate::cluster::Cluster;
use crate::eventually;
use crate::upstream::Upstream;
use admin::is_ready_at;
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::session::SessionSigner;
use nogoo9_local::idp;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

/// Public URL of the stage. Nothing listens there: requests name it in `Host`.
pub(crate) const CONSOLE: &str = "localhost:9009";
pub(crate) const TOKEN: &str = "shared-token-0123456789abcdef";

pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) control: Upstream,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) child: Child,
    dir: tempfile::TempDir,
    /// The proxy's own flags, without those of its admin listener.
    words: Vec<std::ffi::OsString>,
    signer: SessionSigner,
    issuer: String,
    idp: CancellationToken,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With more flags for the proxy.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        Self::at(
            &format!("http://{CONSOLE}"),
            &[&["--path-mode"], flags].concat(),
        )
        .await
    }

    /// Behind something that ends TLS: the public URL is https, and no host is shared.
    pub(crate) async fn over_tls() -> Self {
        Self::at(&format!("https://{CONSOLE}"), &[]).await
    }

    /// Ending TLS itself, by these flags; no host is shared.
    pub(crate) async fn secured(flags: &[&str]) -> Self {
        Self::at(&format!("https://{CONSOLE}"), flags).await
    }

    /// One whose public URL is where it listens.
    pub(crate) async fn public(scheme: &str, flags: &[&str]) -> Self {
        let address = free();
        let host = format!("localhost:{}", address.port());
        Self::on(address, &format!("{scheme}://{host}"), &host, flags).await
    }

    async fn at(public: &str, flags: &[&str]) -> Self {
        Self::on(free(), public, CONSOLE, flags).await
    }

    async fn on(address: SocketAddr, public: &str, domain: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(dir.path()).await;
        let control = Upstream::start("control").await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let provider = idp::Idp::open(idp::IdpConfig {
            data_dir: dir.path().to_owned(),
            issuer: issuer.clone(),
            audience: format!("{public}/mcp"),
            clients: Vec::new(),
        })
        .unwrap();
        let idp_stop = CancellationToken::new();
        tokio::spawn(provider.serve(listener, idp_stop.clone()));
        let key = SigningKey::generate().unwrap();
        let keys = dir.path().join("session-keys.json");
        std::fs::write(&keys, public_jwks([&key])).unwrap();
        let signer = SessionSigner::new(key, public);
        let token_file = dir.path().join("token");
        std::fs::write(&token_file, TOKEN).unwrap();
        let admin = free();
        let mut command = command();
        command
            .args(["--listen", &address.to_string()])
            .args(["--public-url", public, "--workspace-domain", domain])
            .args([
                "--issuer",
                &issuer,
                "--control-url",
                &format!("http://{}", control.address),
            ])
            .arg("--kubeconfig")
            .arg(&cluster.kubeconfig)
            .arg("--session-keys")
            .arg(&keys)
            .arg("--admin-token-file")
            .arg(&token_file)
            .args(flags);
        let limit = "--auth-failures-per-minute";
        if !flags.contains(&limit) {
            // All tests have one address.
            command.args([limit, "0"]);
        }
        let words = command.as_std().get_args();
        let words = words.map(ToOwned::to_owned).collect();
        let log = std::fs::File::create(dir.path().join("proxy.log")).unwrap();
        command.args(["--admin-listen", &admin.to_string()]);
        let child = command.stderr(log).spawn().unwrap();
        let stage = Self {
            cluster,
            control,
            address,
            admin,
            child,
            dir,
            words,
            signer,
            issuer,
            idp: idp_stop,
        };
        eventually("readiness", || async { stage.is_ready().await }).await;
        stage
    }

    /// A second proxy beside it, with the same flags, once it is ready: `--reuse-port` must be one of
    /// them. It ends with its handle.
    pub(crate) async fn second(&self) -> Child {
        self.beside("second.log").await.0
    }

    /// The same, which becomes the stage's own; returns the one that was.
    pub(crate) async fn succeed(&mut self) -> Child {
        let (child, admin) = self.beside("proxy.log").await;
        self.admin = admin;
        std::mem::replace(&mut self.child, child)
    }

    /// Another proxy beside it, with addresses of its own and more flags, once it is ready.
    pub(crate) async fn partner(&self, flags: &[&str]) -> Partner {
        let (address, admin) = (free(), free());
        let mut words = self.words.clone();
        let listens = words.iter().position(|word| word == "--listen").unwrap();
        words[listens + 1] = address.to_string().into();
        let child = command()
            .args(words)
            .args(["--admin-listen", &admin.to_string()])
            .args(flags)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("readiness of the other", || is_ready_at(admin)).await;
        Partner {
            address,
            admin,
            _child: child,
        }
    }

    /// A second proxy beside it, whose API server never answers: it waits for its first list for as
    /// long as the listener that comes with it is there.
    pub(crate) async fn waiting(&self) -> (Child, std::net::TcpListener) {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", silent.local_addr().unwrap());
        let config = std::fs::read_to_string(&self.cluster.kubeconfig).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&config).unwrap();
        config["clusters"][0]["cluster"]["server"] = server.into();
        let path = self.dir.path().join("silent.kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        let words = self.words.iter().map(|word| {
            if *word == *self.cluster.kubeconfig.as_os_str() {
                path.clone().into_os_string()
            } else {
                word.clone()
            }
        });
        let admin = free();
        let child = command()
            .args(words)
            .args(["--admin-listen", &admin.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the second's admin listener", || async {
            tokio::net::TcpStream::connect(admin).await.is_ok()
        })
        .await;
        // What is served there is served once all is set up.
        assert!(!is_ready_at(admin).await);
        (child, silent)
    }

    async fn beside(&self, log: &str) -> (Child, SocketAddr) {
        let admin = free();
        let log = self.dir.path().join(log);
        let log = std::fs::File::options().append(true).create(true).open(log);
        let child = command()
            .args(&self.words)
            .args(["--admin-listen", &admin.to_string()])
            .stderr(log.unwrap())
            .spawn()
            .unwrap();
        eventually("readiness of the second", || is_ready_at(admin)).await;
        (child, admin)
    }

    /// What the proxy has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("proxy.log")).unwrap_or_default()
    }

    /// Takes the identity provider away.
    pub(crate) async fn lose_provider(&self) {
        self.idp.cancel();
        let address = self.issuer.trim_start_matches("http://");
        eventually("nobody at the provider's address", || async {
            tokio::net::TcpStream::connect(address).await.is_err()
        })
        .await;
    }

    /// Sends a signal to the proxy.
    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }
}

/// Another proxy; it ends with this.
pub(crate) struct Partner {
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    _child: Child,
}

/// Sends a signal to a proxy.
pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().unwrap().to_string();
    let status = std::process::Command::new("kill")
        .args([&format!("-{name}"), &pid])
        .status()
        .unwrap();
    assert!(status.success());
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.idp.cancel();
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

/// The proxy binary, killed with its handle.
pub(crate) fn command() -> Command {
    let program: PathBuf = env!("CARGO_BIN_EXE_nogoo9-proxy").into();
    let mut command = Command::new(program);
    command.kill_on_drop(true).stdin(Stdio::null()).env_clear();
    command
}
