//! A provider that does what a test tells it: also what no honest one does.

use axum::extract::{RawForm, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use nogoo9_identity::keys::SigningKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use url::Url;

/// What the provider is to do differently.
#[derive(Default)]
pub(crate) struct Whims {
    /// Added to the claims of the ID token; null takes one out.
    pub(crate) claims: Option<Value>,
    /// Header of the ID token.
    pub(crate) header: Option<Header>,
    /// Signs with a key that is not published.
    pub(crate) foreign_key: bool,
    /// Publishes a second key and signs with it.
    pub(crate) rotated: bool,
    /// Sent instead of the token response.
    pub(crate) instead: Option<(u16, String)>,
    /// No ID token in the response.
    pub(crate) no_id_token: bool,
    /// Has no end-session endpoint.
    pub(crate) no_logout: bool,
    /// Has its end-session endpoint there.
    pub(crate) logout_at: Option<String>,
    /// Gives refresh tokens, each good for one use.
    pub(crate) refreshes: bool,
    /// Sent instead of the response to a refresh token.
    pub(crate) no_refresh: Option<(u16, String)>,
    /// Takes secrets in the body only.
    pub(crate) secret_in_body: bool,
    /// How long each call takes.
    pub(crate) takes: Duration,
    /// Sent instead of the discovery document.
    pub(crate) no_discovery: Option<(u16, String)>,
    /// The scopes that it says it knows.
    pub(crate) scopes: Option<Vec<&'static str>>,
    /// Takes tokens back.
    pub(crate) revokes: bool,
}

/// A form and an `Authorization` header.
type Exchange = (BTreeMap<String, String>, Option<String>);

pub(crate) struct Provider {
    pub(crate) issuer: String,
    pub(crate) whims: Mutex<Whims>,
    /// What came to the token endpoint.
    pub(crate) exchanges: Mutex<Vec<Exchange>>,
    pub(crate) discoveries: AtomicUsize,
    /// Refresh tokens that came, whether or not they counted.
    pub(crate) refreshed: Mutex<Vec<String>>,
    /// Refresh tokens that count, with the client they were given to.
    refresh_tokens: Mutex<BTreeMap<String, String>>,
    given: AtomicUsize,
    codes: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
    /// What came to be taken back.
    pub(crate) taken_back: watch::Sender<Vec<Exchange>>,
    keys: [SigningKey; 3],
    server: Mutex<Option<JoinHandle<()>>>,
    /// Keeps the address while nobody answers there.
    place: Mutex<TcpSocket>,
}

impl Provider {
    pub(crate) async fn start() -> Arc<Self> {
        let provider = Self::away();
        provider.come_back();
        provider
    }

    /// One that does not answer yet.
    pub(crate) fn away() -> Arc<Self> {
        let place = place(([127, 0, 0, 1], 0).into());
        let address = place.local_addr().expect("an address");
        let key = || SigningKey::generate().expect("a key");
        Arc::new(Self {
            issuer: format!("http://{address}"),
            whims: Mutex::default(),
            exchanges: Mutex::default(),
            discoveries: AtomicUsize::new(0),
            refreshed: Mutex::default(),
            refresh_tokens: Mutex::default(),
            given: AtomicUsize::new(0),
            codes: Mutex::default(),
            taken_back: watch::Sender::default(),
            keys: [key(), key(), key()],
            server: Mutex::default(),
            place: Mutex::new(place),
        })
    }

    /// Answers, for the first time or again, where it always did.
    pub(crate) fn come_back(self: &Arc<Self>) {
        let mut kept = self.place.lock().expect("no panic");
        let address = kept.local_addr().expect("an address");
        let listener = std::mem::replace(&mut *kept, place(address));
        let listener = listener.listen(128).expect("it listens");
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/jwks", get(jwks))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(Arc::clone(self));
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("serving");
        });
        *self.server.lock().expect("no panic") = Some(server);
    }

    async fn pace(&self) {
        let takes = self.whims.lock().expect("no panic").takes;
        tokio::time::sleep(takes).await;
    }

    pub(crate) fn whims(&self, change: impl FnOnce(&mut Whims)) {
        change(&mut self.whims.lock().expect("no panic"));
    }

    /// Stops answering.
    pub(crate) async fn go_away(&self) {
        let server = self
            .server
            .lock()
            .expect("no panic")
            .take()
            .expect("it runs");
        server.abort();
        let _ = server.await;
    }

    /// Somebody signs in at the address that a browser was sent to; gives where it is sent back to.
    pub(crate) fn sign_in(&self, at: &str) -> Url {
        let at = Url::parse(at).expect("a URL");
        assert!(
            at.as_str()
                .starts_with(&format!("{}/authorize?", self.issuer)),
            "{at}"
        );
        let asked: BTreeMap<String, String> = at.query_pairs().into_owned().collect();
        let mut codes = self.codes.lock().expect("no panic");
        let code = format!("code-{}", codes.len());
        let mut back = Url::parse(&asked["redirect_uri"]).expect("a URL");
        back.query_pairs_mut()
            .append_pair("code", &code)
            .append_pair("state", &asked["state"])
            .append_pair("iss", &self.issuer);
        codes.insert(code, asked);
        back
    }

    /// A new refresh token, if there are any here.
    fn refresh_token(&self, client: &str) -> Option<String> {
        if !self.whims.lock().expect("no panic").refreshes {
            return None;
        }
        let token = format!("refresh-{}", self.given.fetch_add(1, Ordering::SeqCst));
        let mut tokens = self.refresh_tokens.lock().expect("no panic");
        tokens.insert(token.clone(), client.to_owned());
        Some(token)
    }

    fn by_refresh(&self, token: &str) -> Response {
        self.refreshed
            .lock()
            .expect("no panic")
            .push(token.to_owned());
        let instead = self.whims.lock().expect("no panic").no_refresh.clone();
        if let Some((status, body)) = instead {
            return said(status, body);
        }
        // One that was used before is a thief's.
        let client = self.refresh_tokens.lock().expect("no panic").remove(token);
        let Some(client) = client else {
            return said(400, json!({"error": "invalid_grant"}).to_string());
        };
        let asked = BTreeMap::from([("client_id".to_owned(), client.clone())]);
        let mut answer = json!({"access_token": "access", "token_type": "Bearer"});
        answer["refresh_token"] = json!(self.refresh_token(&client));
        if !self.whims.lock().expect("no panic").no_id_token {
            answer["id_token"] = json!(self.id_token(&asked, "access"));
        }
        Json(answer).into_response()
    }

    fn id_token(&self, asked: &BTreeMap<String, String>, access: &str) -> String {
        let whims = self.whims.lock().expect("no panic");
        let key = match (whims.foreign_key, whims.rotated) {
            (true, _) => &self.keys[2],
            (_, true) => &self.keys[1],
            _ => &self.keys[0],
        };
        // Half of the hash that Ed25519 uses (OpenID Connect Core, section 3.1.3.6).
        let hash = Sha512::digest(access.as_bytes());
        let mut claims = json!({
            "iss": self.issuer,
            "sub": "alice",
            "aud": asked["client_id"],
            "iat": now(),
            "exp": now() + 600,
            "nonce": asked.get("nonce"),
            "at_hash": BASE64URL_NOPAD.encode(&hash[..32]),
            "realm_access": {"roles": ["user", "dev"]},
        });
        if claims["nonce"].is_null() {
            claims.as_object_mut().expect("an object").remove("nonce");
        }
        for (name, value) in whims
            .claims
            .iter()
            .flat_map(|c| c.as_object().expect("an object"))
        {
            if value.is_null() {
                claims.as_object_mut().expect("an object").remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(key.kid().to_owned());
        let header = whims.header.clone().unwrap_or(header);
        let pem = key.to_pem().expect("PEM");
        let signing = match header.alg {
            Algorithm::HS256 => EncodingKey::from_secret(b"the client secret"),
            _ => EncodingKey::from_ed_pem(pem.as_bytes()),
        };
        jsonwebtoken::encode(&header, &claims, &signing.expect("a key")).expect("a token")
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if let Some(server) = self.server.lock().expect("no panic").take() {
            server.abort();
        }
    }
}

/// A socket at an address that others of these may share, so that nobody else takes it.
fn place(address: std::net::SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("it may be used again");
    socket.set_reuseport(true).expect("it may be shared");
    socket.bind(address).expect("a port");
    socket
}

pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

async fn discovery(State(provider): State<Arc<Provider>>) -> Response {
    provider.discoveries.fetch_add(1, Ordering::SeqCst);
    provider.pace().await;
    let whims = provider.whims.lock().expect("no panic");
    if let Some((status, body)) = whims.no_discovery.clone() {
        return said(status, body);
    }
    let at = |path: &str| format!("{}{path}", provider.issuer);
    let mut document = json!({
        "issuer": provider.issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/jwks"),
        "end_session_endpoint": at("/logout"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA"],
        "token_endpoint_auth_methods_supported":
            [if whims.secret_in_body { "client_secret_post" } else { "client_secret_basic" }],
    });
    if let Some(elsewhere) = &whims.logout_at {
        document["end_session_endpoint"] = json!(elsewhere);
    }
    if whims.no_logout {
        document
            .as_object_mut()
            .expect("an object")
            .remove("end_session_endpoint");
    }
    if let Some(scopes) = &whims.scopes {
        document["scopes_supported"] = json!(scopes);
    }
    if whims.revokes {
        document["revocation_endpoint"] = json!(at("/revoke"));
    }
    Json(document).into_response()
}

/// RFC 7009, section 2.
async fn revoke(
    State(provider): State<Arc<Provider>>,
    headers: HeaderMap,
    RawForm(form): RawForm,
) -> StatusCode {
    provider.pace().await;
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&form).into_owned().collect();
    let mut tokens = provider.refresh_tokens.lock().expect("no panic");
    tokens.remove(&form["token"]);
    provider
        .taken_back
        .send_modify(|all| all.push((form, credentials(&headers))));
    StatusCode::OK
}

fn credentials(headers: &HeaderMap) -> Option<String> {
    let credentials = headers.get(header::AUTHORIZATION);
    credentials.map(|value| value.to_str().expect("ASCII").to_owned())
}

async fn jwks(State(provider): State<Arc<Provider>>) -> Response {
    provider.pace().await;
    let published = if provider.whims.lock().expect("no panic").rotated {
        2
    } else {
        1
    };
    let keys: Vec<Value> = provider
        .keys
        .iter()
        .take(published)
        .map(SigningKey::public_jwk)
        .collect();
    Json(json!({ "keys": keys })).into_response()
}

async fn token(
    State(provider): State<Arc<Provider>>,
    headers: HeaderMap,
    RawForm(form): RawForm,
) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&form).into_owned().collect();
    provider.pace().await;
    provider
        .exchanges
        .lock()
        .expect("no panic")
        .push((form.clone(), credentials(&headers)));
    let instead = provider.whims.lock().expect("no panic").instead.clone();
    if let Some((status, body)) = instead {
        return said(status, body);
    }
    if form["grant_type"] == "refresh_token" {
        return provider.by_refresh(&form["refresh_token"]);
    }
    let refuse =
        |error: &str| (StatusCode::BAD_REQUEST, Json(json!({"error": error}))).into_response();
    let Some(asked) = provider
        .codes
        .lock()
        .expect("no panic")
        .remove(&form["code"])
    else {
        return refuse("invalid_grant");
    };
    let hash = Sha256::digest(form["code_verifier"].as_bytes());
    if asked["code_challenge_method"] != "S256"
        || asked["code_challenge"] != BASE64URL_NOPAD.encode(&hash)
        || asked["redirect_uri"] != form["redirect_uri"]
    {
        return refuse("invalid_grant");
    }
    let mut answer = json!({"access_token": "access", "token_type": "Bearer", "expires_in": 600});
    if !provider.whims.lock().expect("no panic").no_id_token {
        answer["id_token"] = json!(provider.id_token(&asked, "access"));
    }
    if let Some(refresh) = provider.refresh_token(&asked["client_id"]) {
        answer["refresh_token"] = json!(refresh);
    }
    Json(answer).into_response()
}

fn said(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}
