//! Control with all its parts on a port, an API server and an identity provider in this process, and
//! the hand that plays the kubelet.

use http::{HeaderMap, Method, Request, StatusCode};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use nogoo9_control::cluster::Cluster;
use nogoo9_control::config::{Args, Settings};
use nogoo9_control::login::keys::Keyring;
use nogoo9_control::run::{Control, Gauges};
use nogoo9_control::service::Metrics;
use nogoo9_control::session::SessionRecord;
use nogoo9_identity::keys::SigningKey;
use nogoo9_identity::session::{Session, SessionSigner};
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use nogoo9_local::idp::{self, Idp, IdpConfig};
use nogoo9_model::name;
use nogoo9_runtime::config::{Loaded, load};
use nogoo9_runtime::kube::{Connection, Retry, connect};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const SYSTEM: &str = "nogoo9-system";
pub(crate) const WORKSPACES: &str = "nogoo9-workspaces";
/// In the paths of access tokens' Secrets.
const TOKEN: &str = "/nogoo9-pat-";
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

/// What was asked of the API server about single objects, as `METHOD path`.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<String>>>, watch::Sender<bool>);

impl Calls {
    fn hear(&self, request: &Request<Body>) {
        let (path, query) = (request.uri().path(), request.uri().query());
        // What goes on by itself: watches, and looking who leads.
        let watches = query.is_some_and(|query| query.contains("watch="));
        if !watches && !path.contains("/leases") {
            let call = format!("{} {path}", request.method());
            self.0.lock().unwrap().push(call);
        }
    }

    /// Lets no look-up of an access token through from now on, or all again.
    pub(crate) fn hold_tokens(&self, hold: bool) {
        self.1.send_replace(hold);
    }

    async fn pass(&self, path: String) {
        if path.contains(TOKEN) {
            let mut held = self.1.subscribe();
            held.wait_for(|held| !held).await.unwrap();
        }
    }

    /// How many look-ups of access tokens there are.
    pub(crate) fn tokens(&self) -> usize {
        let calls = self.0.lock().unwrap();
        calls.iter().filter(|call| call.contains(TOKEN)).count()
    }

    /// Those since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// An HTTP answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// What a caller could tell answers apart by.
    pub(crate) fn without_date(mut self) -> Self {
        self.headers.remove("date");
        self
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

    /// Another control, whose calls of the API server are written down. It does not lead, so that what it asks
    /// of single objects is asked for somebody.
    pub(crate) async fn overheard(&self, flags: &[&str]) -> (String, Calls) {
        let mut connection = connect(Some(&self.kubeconfig), Retry::Off).await.unwrap();
        let calls = Calls::default();
        let (client, heard) = (connection.client.clone(), calls.clone());
        let overheard = tower::service_fn(move |request: Request<Body>| {
            heard.hear(&request);
            let (client, heard) = (client.clone(), heard.clone());
            async move {
                heard.pass(request.uri().path().to_owned()).await;
                client.send(request).await
            }
        });
        connection.client = Client::new(overheard, WORKSPACES);
        let url = self.another_on(connection, &self.issuer, flags).await;
        (url, calls)
    }

    async fn another_on(&self, connection: Connection, issuer: &str, flags: &[&str]) -> String {
        let (public, port) = listener().await;
        let settings = settings(port, issuer, &self.kubeconfig, flags);
        connection.check(WORKSPACES).await.unwrap();
        let key = SigningKey::generate().unwrap();
        serve(&settings, &connection, key, public, &self.stop).await;
        format!("http://localhost:{port}")
    }

    pub(crate) fn token(&self, user: &str) -> String {
        self.token_for(user, &format!("{}/mcp", self.url))
    }

    pub(crate) fn token_for(&self, user: &str, audience: &str) -> String {
        idp::mint(
            self.idp_dir.path(),
            &self.issuer,
            user,
            audience,
            Duration::from_secs(600),
        )
        .unwrap()
    }

    /// As [`Self::token`], by another issuer that has the same keys.
    pub(crate) fn token_by(&self, issuer: &str, user: &str) -> String {
        let audience = format!("{}/mcp", self.url);
        let (dir, life) = (self.idp_dir.path(), Duration::from_secs(600));
        idp::mint(dir, issuer, user, &audience, life).unwrap()
    }

    /// As [`Self::token`], with these scopes alone.
    pub(crate) fn scoped(&self, user: &str, scope: &str) -> String {
        let audience = format!("{}/mcp", self.url);
        let (dir, life) = (self.idp_dir.path(), Duration::from_secs(600));
        idp::mint_scoped(dir, &self.issuer, user, &audience, scope, life).unwrap()
    }

    /// The cookie of a browser that is signed in to the console.
    pub(crate) fn cookie(&self, user: &str) -> String {
        self.cookie_for(user, 600)
    }

    /// The cookie of a session that ends in so many seconds.
    pub(crate) fn cookie_for(&self, user: &str, seconds: i64) -> String {
        self.session(user, self.url.trim_start_matches("http://"), seconds)
    }

    /// The cookie of a browser that is signed in on `host`.
    pub(crate) fn cookie_on(&self, user: &str, host: &str) -> String {
        self.session(user, host, 600)
    }

    fn session(&self, user: &str, host: &str, seconds: i64) -> String {
        let now = self.connection.clock.now();
        let roles = vec![if user == "admin" { "admin" } else { "user" }.to_owned()];
        let session = Session {
            sub: user.into(),
            roles,
            sid: "s".into(),
            expires: now + seconds,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now).unwrap()
        )
    }

    /// The cookie of the session with a record, on the console, as fresh as that.
    pub(crate) fn cookie_of(&self, record: &SessionRecord, fresh_until: i64) -> String {
        let session = Session {
            sub: record.sub.clone(),
            roles: record.roles.clone(),
            sid: record.sid.clone(),
            expires: record.ends,
            fresh_until: Some(fresh_until),
        };
        let host = self.url.trim_start_matches("http://");
        let signed = self.signer.sign_session(&session, host, self.now());
        format!("nogoo9={}", signed.unwrap())
    }

    pub(crate) fn now(&self) -> i64 {
        self.connection.clock.now()
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.text().await.unwrap(),
        }
    }

    /// Calls the JSON API.
    pub(crate) async fn api(
        &self,
        user: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let mut request = self
            .http
            .request(method, format!("{}/api/v1{path}", self.url))
            .bearer_auth(self.token(user));
        if let Some(body) = body {
            request = request.json(&body);
        }
        self.send(request).await
    }

    pub(crate) async fn get(&self, user: &str, path: &str) -> Value {
        let answer = self.api(user, Method::GET, path, None).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    pub(crate) async fn post(&self, user: &str, path: &str) -> Answer {
        self.api(user, Method::POST, path, None).await
    }

    pub(crate) async fn spawn(&self, user: &str, body: Value) -> Value {
        let answer = self
            .api(user, Method::POST, "/workspaces", Some(body))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()
    }

    /// Spawns and brings to life.
    pub(crate) async fn running(&self, user: &str, id: &str) -> Value {
        self.spawn(user, json!({"template": "sample", "id": id}))
            .await;
        self.until("the pod", || async { !self.pods_of(id).await.is_empty() })
            .await;
        for pod in self.pods_of(id).await {
            self.ready(&pod.name_any()).await;
        }
        let path = format!("/workspaces/{id}");
        self.until("running", || async {
            self.get(user, &path).await["status"] == "running"
        })
        .await;
        self.get(user, &path).await
    }

    /// Calls an MCP tool, the legacy way, and returns the JSON-RPC answer.
    pub(crate) async fn tool(&self, user: &str, name: &str, arguments: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}});
        let answer = self
            .mcp(
                &self.token(user),
                &[("mcp-protocol-version", "2025-11-25")],
                &call,
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()
    }

    pub(crate) async fn mcp(&self, token: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let mut request = self
            .http
            .post(format!("{}/mcp", self.url))
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request).await
    }

    /// The cluster, as control sees it.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(&self.connection, SYSTEM.into(), WORKSPACES.into())
    }

    /// What time does to a workspace that was deleted: it is not remembered any more.
    pub(crate) async fn forget(&self, id: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), SYSTEM);
        let name = name::record(id);
        self.until("it to be gone", || async {
            let secret = secrets.get_opt(&name).await.unwrap();
            let record = secret.and_then(|secret| secret.data?.remove("record.json"));
            record.is_none_or(|record| {
                serde_json::from_slice::<Value>(&record.0).unwrap()["goneAt"].is_number()
            })
        })
        .await;
        let parameters = DeleteParams::default();
        secrets.delete(&name, &parameters).await.unwrap();
    }

    pub(crate) fn templates(&self) -> Api<ConfigMap> {
        Api::namespaced(self.admin.clone(), SYSTEM)
    }

    /// Creates or replaces the template `name` with this pod spec.
    pub(crate) async fn template(&self, name: &str, spec: &str, annotations: Value) {
        let api = self.templates();
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"nogoo9/pod-template": "true"}, "annotations": annotations},
            "data": {"spec": spec},
        }))
        .unwrap();
        match api.get_opt(name).await.unwrap() {
            None => api.create(&PostParams::default(), &map).await,
            Some(_) => api.replace(name, &PostParams::default(), &map).await,
        }
        .unwrap();
    }

    /// The template `sample` at this image, whose upgrades need not settle.
    pub(crate) async fn sample(&self, image: &str) {
        let spec = format!(
            "containers: [{{name: main, image: '{image}', env: [{{name: OWNER, value: '${{{{user}}}}'}}]}}]"
        );
        let schema = json!({"properties": {"message": {"type": "string"}}}).to_string();
        self.template(
            "sample",
            &spec,
            json!({"nogoo9/settle": "0", "nogoo9/parameters": schema}),
        )
        .await;
        // The watch learns of it in its own time; views rest on that.
        self.until("the template", || async {
            let shown = self.get("admin", "/templates").await;
            shown["templates"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t["name"] == "sample" && t["images"] == json!([image]))
        })
        .await;
    }

    pub(crate) fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), WORKSPACES)
    }

    pub(crate) async fn pods_of(&self, id: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("nogoo9/workspace-id={id}"));
        self.pods_api().list(&params).await.unwrap().items
    }

    /// What a kubelet does to a pod that comes up.
    pub(crate) async fn ready(&self, pod: &str) {
        assert!(self.try_ready(pod).await, "there is no pod {pod}");
    }

    /// The same to a pod that control may have deleted meanwhile.
    pub(crate) async fn try_ready(&self, pod: &str) -> bool {
        let now = k8s_openapi::jiff::Timestamp::from_second(self.connection.clock.now()).unwrap();
        let ready =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()}]);
        let status = json!({"phase": "Running", "podIP": "127.64.0.9", "conditions": ready});
        self.try_status(pod, status).await
    }

    pub(crate) async fn status(&self, pod: &str, status: Value) {
        assert!(self.try_status(pod, status).await, "there is no pod {pod}");
    }

    /// What a kubelet keeps of a container's runs: all that each wrote.
    pub(crate) fn write_log(&self, pod: &Pod, container: &str, run: u32, lines: &[&str]) {
        let uid = pod.metadata.uid.as_deref().unwrap();
        let folder = self.api_dir.path().join("pods").join(uid).join(container);
        std::fs::create_dir_all(&folder).unwrap();
        let stored = lines
            .iter()
            .map(|line| format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n"));
        std::fs::write(
            folder.join(format!("{run}.log")),
            stored.collect::<String>(),
        )
        .unwrap();
    }

    /// Sets the status of a pod; `false`: there is none.
    pub(crate) async fn try_status(&self, pod: &str, status: Value) -> bool {
        let status = json!({"status": status});
        let api = self.pods_api();
        let patch = Patch::Merge(&status);
        match api.patch_status(pod, &PatchParams::default(), &patch).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => panic!("{error}"),
        }
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
