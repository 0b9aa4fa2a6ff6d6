//! A browser, as far as login needs one: hosts, cookies with their rules, and a clock.

use crate::server::Server;
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;
use nogoo9_control::login::keys::Keyring;
use nogoo9_control::login::{Login, LoginConfig, router};
use nogoo9_control::session::Limits;
use nogoo9_identity::Verified;
use nogoo9_identity::code::{new_nonce, nonce_hash};
use nogoo9_identity::keys::SigningKey;
use nogoo9_identity::policy::{ClaimPolicy, SessionRoles};
use nogoo9_identity::session::{SessionSigner, Sessions};
use nogoo9_model::renew;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tower::ServiceExt;

/// How long a session lasts of which the provider cannot be asked.
pub(crate) const HOUR: i64 = 3600;
pub(crate) const CONSOLE: &str = "localhost:9009";
pub(crate) const WORKSPACE: &str = "dev.localhost:9009";

/// An edge with one browser before it.
pub(crate) struct Browser {
    router: Router,
    /// What stands behind it.
    pub(crate) login: Arc<Login>,
    /// Another control of the same edge.
    pub(crate) standby: Router,
    keys: Keyring,
    pub(crate) server: Server,
    sessions: Sessions,
    clock: Clock,
    /// By host, then by name.
    pub(crate) cookies: BTreeMap<String, BTreeMap<String, String>>,
}

/// Time as the edge has it: the provider's, unless it stands still, and what a test let pass.
#[derive(Clone, Default)]
struct Clock {
    ahead: Arc<AtomicI64>,
    still: Arc<OnceLock<i64>>,
}

impl Clock {
    fn now(&self) -> i64 {
        let base = self.still.get().copied();
        base.unwrap_or_else(crate::provider::now) + self.ahead.load(Ordering::SeqCst)
    }
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

pub(crate) fn config(issuer: &str) -> LoginConfig {
    LoginConfig {
        public_url: "http://localhost:9009/".parse().expect("a URL"),
        workspace_domain: CONSOLE.to_owned(),
        path_host: None,
        issuer: issuer.to_owned(),
        issuer_roots: nogoo9_identity::Roots::default(),
        client_id: "nogoo9".to_owned(),
        client_secret: None,
        resource: Some("http://localhost:9009/mcp".to_owned()),
        scopes: vec!["profile".to_owned()],
        limits: Limits::default(),
        session_roles: SessionRoles::all(),
    }
}

fn nested_roles() -> ClaimPolicy {
    ClaimPolicy {
        roles_claim: "realm_access.roles".to_owned(),
        ..ClaimPolicy::default()
    }
}

impl Browser {
    pub(crate) async fn new(config: LoginConfig) -> Self {
        Self::with_policy(config, nested_roles()).await
    }

    /// An edge that looks for new keys of the provider without any pause.
    pub(crate) async fn impatient(config: LoginConfig) -> Self {
        let adjust = |login: Login| login.with_discovery_gap(Duration::ZERO);
        Self::build(config, nested_roles(), adjust).await
    }

    /// An edge that looks at what the provider says of itself whenever it calls it.
    pub(crate) async fn forgetful(config: LoginConfig) -> Self {
        let adjust = |login: Login| login.with_discovery_age(Duration::ZERO);
        Self::build(config, nested_roles(), adjust).await
    }

    pub(crate) async fn with_policy(config: LoginConfig, policy: ClaimPolicy) -> Self {
        Self::build(config, policy, |login| login).await
    }

    async fn build(config: LoginConfig, policy: ClaimPolicy, adjust: fn(Login) -> Login) -> Self {
        let policy = Arc::new(policy);
        let key = SigningKey::generate().expect("a key");
        let keys = Keyring::alone(key).expect("keys");
        let issuer = config.public_url.to_string();
        let sessions = Sessions::new(&issuer, Arc::clone(&policy), keys.public().clone());
        let server = Server::start().await;
        let clock = Clock::default();
        let edges = clock.clone();
        let control = || {
            let edges = edges.clone();
            let now = Arc::new(move || edges.now());
            let (policy, cluster) = (Arc::clone(&policy), server.cluster.clone());
            let login = Login::new(config.clone(), policy, keys.clone(), cluster, now);
            Arc::new(adjust(login))
        };
        let login = control();
        Self {
            router: router(Arc::clone(&login)),
            login,
            standby: router(control()),
            keys,
            server,
            sessions,
            clock,
            cookies: BTreeMap::new(),
        }
    }

    /// From now on only the time passes that [`Self::wait`] lets pass, for tests to the second.
    pub(crate) fn stop_the_clock(&self) {
        let _already = self.clock.still.set(crate::provider::now());
    }

    /// Lets time pass for the edge, in seconds.
    pub(crate) fn wait(&self, seconds: i64) {
        self.clock.ahead.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Opens a page of a host, as the proxy forwards it to control.
    pub(crate) async fn get(&mut self, host: &str, path: &str) -> Answer {
        self.send("GET", host, path, &[]).await
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        request = if host == CONSOLE {
            request.header("host", host)
        } else {
            request
                .header("host", "control.internal")
                .header("x-forwarded-host", host)
        };
        let jar = self.cookies.entry(host.to_owned()).or_default();
        let cookie: Vec<String> = jar
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookie.is_empty() {
            request = request.header("cookie", cookie.join("; "));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let answer = self
            .router
            .clone()
            .oneshot(request)
            .await
            .expect("an answer");
        let (parts, body) = answer.into_parts();
        for set in parts.headers.get_all(header::SET_COOKIE) {
            let set = set.to_str().expect("ASCII");
            for part in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age="] {
                assert!(set.contains(part), "{set}");
            }
            assert!(!set.contains("Domain"), "{set}");
            assert!(set.len() < 4096, "too long for a browser: {}", set.len());
            let (name, value) = set
                .split(';')
                .next()
                .and_then(|p| p.split_once('='))
                .expect("a pair");
            if set.contains("Max-Age=0;") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        let body = body.collect().await.expect("a body").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("UTF-8");
        Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        }
    }

    /// Signs for the edge.
    pub(crate) fn signer(&self) -> SessionSigner {
        SessionSigner::new(self.keys.signing(self.now()), "http://localhost:9009/")
    }

    /// The token of a host's cookie.
    pub(crate) fn token(&self, host: &str) -> String {
        self.cookies[host]["nogoo9"].clone()
    }

    /// What control says of session tokens that a proxy holds.
    pub(crate) async fn renew(&self, held: &[(&str, &str)]) -> Vec<renew::Answer> {
        ask(&self.router, held).await
    }

    /// Whose session a token is.
    pub(crate) fn verify(&self, token: &str, host: &str, now: i64) -> Option<Arc<Verified>> {
        self.sessions.verify(token, host, now).ok()
    }

    /// Whose session a host's cookie is.
    pub(crate) fn session(&self, host: &str) -> Option<Arc<Verified>> {
        let token = self.cookies.get(host)?.get("nogoo9")?;
        self.sessions.verify(token, host, self.now()).ok()
    }

    /// What the proxy does for a browser without a session on a workspace's host: a nonce there, and
    /// the way to the console.
    pub(crate) fn meet(&mut self, host: &str, return_to: &str) -> String {
        let nonce = new_nonce().expect("a nonce");
        let hash = nonce_hash(&nonce);
        self.cookies
            .entry(host.to_owned())
            .or_default()
            .insert("nogoo9-nonce".to_owned(), nonce);
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("host", host), ("return", return_to), ("n", &hash)])
            .finish();
        format!("/auth/open?{query}")
    }

    /// Signs in on the console, at a provider of [`crate::provider`].
    pub(crate) async fn sign_in(
        &mut self,
        provider: &crate::provider::Provider,
        path: &str,
    ) -> Answer {
        let away = self.get(CONSOLE, path).await;
        let back = provider.sign_in(away.location());
        self.get(CONSOLE, &path_of(back.as_str())).await
    }
}

/// What a control says of session tokens that a proxy holds.
pub(crate) async fn ask(control: &Router, held: &[(&str, &str)]) -> Vec<renew::Answer> {
    let held = held.iter().map(|(host, token)| renew::Held {
        host: (*host).to_owned(),
        token: (*token).to_owned(),
    });
    let question = renew::Question {
        version: renew::VERSION,
        sessions: held.collect(),
    };
    let body = serde_json::to_vec(&question).expect("JSON");
    let request = Request::post(renew::PATH)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .expect("a request");
    let answer = control.clone().oneshot(request).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
    let body = answer.into_body().collect().await.expect("a body");
    let answers: renew::Answers = serde_json::from_slice(&body.to_bytes()).expect("JSON");
    answers.answers
}

impl Answer {
    /// Where a redirect leads; what holds for every answer of login is checked on the way.
    pub(crate) fn location(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.body);
        self.assert_private();
        self.headers[header::LOCATION].to_str().expect("ASCII")
    }

    /// A page with the status, a "try again" link, and all that holds for pages.
    pub(crate) fn assert_page(&self, status: StatusCode, again: &str) {
        assert_eq!(self.status, status, "{}", self.body);
        self.assert_private();
        assert_eq!(
            self.headers[header::CONTENT_TYPE],
            "text/html; charset=utf-8"
        );
        let policy = self.headers[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .expect("ASCII");
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        // The one style that it allows is the page's own.
        let style = self.body.split("<style>").nth(1).expect("a style");
        let style = style.split("</style>").next().expect("its end");
        let hash = data_encoding::BASE64.encode(&Sha256::digest(style.as_bytes()));
        let allowed = format!("style-src 'sha256-{hash}'");
        assert!(
            policy.contains(&allowed) && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(self.headers["cross-origin-opener-policy"], "same-origin");
        assert!(self.headers.contains_key("permissions-policy"));
        let link = format!(
            "<a class=\"go\" href=\"{}\">Try again</a>",
            again.replace('&', "&amp;")
        );
        assert!(self.body.contains(&link), "{link} is not in {}", self.body);
    }

    fn assert_private(&self) {
        assert_eq!(self.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(self.headers[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(self.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(self.headers[header::X_FRAME_OPTIONS], "DENY");
    }
}

/// Path and query of a URL.
pub(crate) fn path_of(url: &str) -> String {
    let url = url::Url::parse(url).expect("a URL");
    url[url::Position::BeforePath..].to_owned()
}

/// The value of a query parameter.
pub(crate) fn param(url: &str, name: &str) -> String {
    let base = url::Url::parse("http://localhost:9009").expect("a URL");
    let url = base.join(url).expect("a URL");
    let found = url.query_pairs().find(|(one, _)| one == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {url}"))
        .1
        .into_owned()
}
