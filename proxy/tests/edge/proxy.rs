//! The whole stage: cluster, provider, control, and the proxy binary.

use crate::address::free;
use crate::client::{Answer, Connection, request};
use crate::cluster::{Cluster, Spec};
use crate::eventually;
use crate::upstream::Upstream;
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::session::{Session, SessionSigner};
use nogoo9_local::idp;
use nogoo9_model::renew;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
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

fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64
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

    pub(crate) async fn is_ready(&self) -> bool {
        is_ready_at(self.admin).await
    }

    /// The cookie of a session of `user` on `host`.
    pub(crate) fn cookie_on(&self, user: &str, host: &str) -> String {
        let session = Session {
            sub: user.to_owned(),
            roles: vec!["user".to_owned()],
            sid: "s1".to_owned(),
            expires: now() + 3600,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now()).unwrap()
        )
    }

    /// A session token that ends in some seconds.
    pub(crate) fn short_cookie(&self, user: &str, host: &str, seconds: i64) -> String {
        let session = Session {
            sub: user.to_owned(),
            roles: Vec::new(),
            sid: "s2".to_owned(),
            expires: now() + seconds,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now()).unwrap()
        )
    }

    /// A token of a session of alice on `host` that counts by itself for so many seconds.
    pub(crate) fn token_fresh_for(&self, sid: &str, role: &str, host: &str, fresh: i64) -> String {
        let session = Session {
            sub: "alice".to_owned(),
            roles: vec![role.to_owned()],
            sid: sid.to_owned(),
            expires: now() + 12 * 3600,
            fresh_until: Some(now() + fresh),
        };
        // As old as it must be to be that fresh.
        let signed = now() - (900 - fresh).max(0);
        self.signer.sign_session(&session, host, signed).unwrap()
    }

    /// Puts another key in place of the one that sessions are signed with, as control does once its
    /// Secret was deleted.
    pub(crate) fn withdraw_session_key(&self) {
        let path = self.dir.path().join("session-keys.json");
        let new = self.dir.path().join("session-keys.new");
        let key = SigningKey::generate().unwrap();
        std::fs::write(&new, public_jwks([&key])).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// What control says of a session that goes on.
    pub(crate) fn goes_on(&self, sid: &str, role: &str, host: &str) -> renew::Answer {
        renew::Answer::Renewed {
            token: self.token_fresh_for(sid, role, host, 900),
            fresh_until: now() + 900,
            ends: now() + 12 * 3600,
        }
    }

    /// A bearer token of the identity provider.
    pub(crate) fn bearer(&self, user: &str) -> String {
        self.bearer_for(user, Duration::from_secs(600))
    }

    /// One that ends after a while.
    pub(crate) fn bearer_for(&self, user: &str, life: Duration) -> String {
        let audience = format!("http://{CONSOLE}/mcp");
        idp::mint(self.dir.path(), &self.issuer, user, &audience, life).unwrap()
    }

    /// `GET` as alice's browser does inside her workspace.
    pub(crate) async fn get(&self, workspace: &str, path: &str) -> Answer {
        let host = format!("{workspace}.{CONSOLE}");
        let cookie = self.cookie_on("alice", &host);
        self.ask(
            "GET",
            &host,
            path,
            &[("Cookie", &cookie), ("Sec-Fetch-Site", "same-origin")],
        )
        .await
    }

    /// A pod of alice's with a server behind it, once the proxy routes to it; and its uid.
    pub(crate) async fn serving(
        &self,
        name: &str,
        workspace: &str,
        generation: u32,
    ) -> (Upstream, String) {
        let app = Upstream::start(name).await;
        let pod = Spec::new(name, workspace, generation, app.address);
        let uid = self.cluster.run(&pod).await;
        self.routed(workspace, Some(&uid)).await;
        (app, uid)
    }

    /// Sends a request of alice's browser inside her workspace, and leaves the answer to be read.
    pub(crate) async fn begin(
        &self,
        method: &str,
        workspace: &str,
        path: &str,
        body: &str,
    ) -> Connection {
        let host = format!("{workspace}.{CONSOLE}");
        let cookie = self.cookie_on("alice", &host);
        let length = body.len().to_string();
        let mut headers = vec![
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-origin"),
        ];
        if !body.is_empty() {
            headers.push(("Content-Length", &length));
        }
        let mut connection = Connection::open(self.address).await;
        connection
            .send(format!("{}{body}", request(method, &host, path, &headers)))
            .await;
        connection
    }

    /// Waits until that many requests are held.
    pub(crate) async fn held(&self, count: i64) {
        eventually("held requests", || async {
            self.metric("held_requests").await == count
        })
        .await;
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut connection = Connection::open(self.address).await;
        let mut all = headers.to_vec();
        all.push(("Connection", "close"));
        connection.send(request(method, host, path, &all)).await;
        connection.answer().await
    }

    /// JSON of the admin listener.
    pub(crate) async fn admin(&self, path: &str) -> serde_json::Value {
        admin_at(self.admin, path).await
    }

    /// All metrics, as they are scraped.
    pub(crate) async fn metrics(&self) -> String {
        metrics_at(self.admin).await
    }

    /// A metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let text = self.metrics().await;
        let prefix = format!("nogoo9_proxy_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
            .parse()
            .unwrap()
    }

    /// Waits until the proxy routes a workspace to the pod of that uid; `None`: to no pod.
    pub(crate) async fn routed(&self, workspace: &str, uid: Option<&str>) {
        routed_at(self.admin, workspace, uid).await;
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

impl Partner {
    pub(crate) async fn routed(&self, workspace: &str, uid: &str) {
        routed_at(self.admin, workspace, Some(uid)).await;
    }

    pub(crate) async fn metrics(&self) -> String {
        metrics_at(self.admin).await
    }
}

async fn admin_at(admin: SocketAddr, path: &str) -> serde_json::Value {
    let mut connection = Connection::open(admin).await;
    let token = format!("Bearer {TOKEN}");
    connection
        .send(request(
            "GET",
            "admin",
            path,
            &[("Authorization", &token), ("Connection", "close")],
        ))
        .await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

async fn metrics_at(admin: SocketAddr) -> String {
    let mut connection = Connection::open(admin).await;
    connection
        .send(request(
            "GET",
            "admin",
            "/metrics",
            &[("Connection", "close")],
        ))
        .await;
    connection.answer().await.text()
}

async fn routed_at(admin: SocketAddr, workspace: &str, uid: Option<&str>) {
    eventually("the route", || async {
        let routes = admin_at(admin, "/routes").await;
        let entry = &routes["routes"][workspace];
        match uid {
            Some(uid) => entry["active"] == uid,
            None => entry.is_object() && entry.get("active").is_none(),
        }
    })
    .await;
}

async fn is_ready_at(admin: SocketAddr) -> bool {
    let Ok(stream) = tokio::net::TcpStream::connect(admin).await else {
        return false;
    };
    let mut connection = Connection {
        stream,
        buffer: Vec::new(),
    };
    connection
        .send(request(
            "GET",
            "admin",
            "/readyz",
            &[("connection", "close")],
        ))
        .await;
    connection.answer().await.status == 200
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
