//! A running provider, and what a browser and a client do to it.

use std::{collections::HashMap, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use nogoo9_local::idp::{Client, Idp, IdpConfig};
use reqwest::{StatusCode, redirect::Policy};
use serde_json::Value;
use sha2::Digest as _;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) const CALLBACK: &str = "http://localhost:9009/auth/callback";
pub(crate) const AUDIENCE: &str = "http://localhost:9009/mcp";
pub(crate) const VERIFIER: &str = "a-verifier-of-at-least-forty-three-characters-1";

pub(crate) struct Provider {
    pub(crate) url: String,
    pub(crate) http: reqwest::Client,
    pub(crate) dir: TempDir,
    stop: CancellationToken,
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub(crate) async fn start() -> Provider {
    start_trusting(None).await
}

/// One that believes these authorities, beside the public ones, about hosts of documents.
pub(crate) async fn start_trusting(pem: Option<&str>) -> Provider {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let config = IdpConfig {
        data_dir: dir.path().to_owned(),
        issuer: url.clone(),
        clients: vec![Client {
            id: "nogoo9".to_owned(),
            redirect_uris: vec![CALLBACK.to_owned()],
        }],
        audience: AUDIENCE.to_owned(),
    };
    let stop = CancellationToken::new();
    let idp = Idp::open_trusting(config, pem.map(str::as_bytes)).unwrap();
    tokio::spawn(idp.serve(listener, stop.clone()));
    let http = reqwest::Client::builder()
        .redirect(Policy::none())
        .timeout(Duration::from_secs(60))
        .build()
        .unwrap();
    Provider {
        url,
        http,
        dir,
        stop,
    }
}

pub(crate) fn challenge() -> String {
    data_encoding::BASE64URL_NOPAD.encode(&sha2::Sha256::digest(VERIFIER.as_bytes()))
}

impl Provider {
    pub(crate) fn good_request(&self) -> Vec<(&'static str, String)> {
        [
            ("client_id", "nogoo9"),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("scope", "openid profile"),
            ("state", "st ate&"),
            ("nonce", "n1"),
            ("code_challenge_method", "S256"),
        ]
        .map(|(k, v)| (k, v.to_owned()))
        .into_iter()
        .chain([("code_challenge", challenge())])
        .collect()
    }

    pub(crate) async fn authorize(&self, query: &[(&str, String)]) -> reqwest::Response {
        let url = format!("{}/authorize", self.url);
        self.http.get(url).query(query).send().await.unwrap()
    }

    /// The signed request hidden in the sign-in page.
    pub(crate) async fn form(&self) -> String {
        let reply = self.authorize(&self.good_request()).await;
        assert_eq!(reply.status(), 200);
        let html = reply.text().await.unwrap();
        let (_, rest) = html.split_once(r#"name="request" value=""#).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    }

    pub(crate) async fn post(
        &self,
        form: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> reqwest::Response {
        let mut request = self.http.post(format!("{}/sign-in", self.url)).form(form);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    pub(crate) async fn code(&self, user: &str) -> String {
        let form = self.form().await;
        let origin = self.url.clone();
        let headers = [
            ("origin", origin.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        let reply = self
            .post(&[("request", &form), ("user", user)], &headers)
            .await;
        let back = location(&reply);
        assert!(back.as_str().starts_with(CALLBACK), "{back}");
        let query = pairs(&back);
        assert_eq!(query["state"], "st ate&");
        assert_eq!(query["iss"], self.url);
        query["code"].clone()
    }

    pub(crate) async fn token(&self, form: &[(&str, &str)]) -> (StatusCode, Value) {
        let url = format!("{}/token", self.url);
        let reply = self.http.post(url).form(form).send().await.unwrap();
        (reply.status(), reply.json().await.unwrap())
    }

    pub(crate) async fn redeem(&self, code: &str, verifier: &str) -> (StatusCode, Value) {
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", "nogoo9"),
            ("redirect_uri", CALLBACK),
            ("code", code),
            ("code_verifier", verifier),
        ])
        .await
    }

    pub(crate) async fn refresh(&self, token: &str) -> (StatusCode, Value) {
        self.token(&[
            ("grant_type", "refresh_token"),
            ("client_id", "nogoo9"),
            ("refresh_token", token),
        ])
        .await
    }

    /// Claims, verified as a relying party does: by discovery and JWKS alone.
    pub(crate) async fn claims(&self, token: &str, audience: &str) -> Value {
        let url = format!("{}/.well-known/openid-configuration", self.url);
        let found: Value = self
            .http
            .get(url)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        assert_eq!(found["issuer"], self.url);
        let keys = self.http.get(found["jwks_uri"].as_str().unwrap());
        let keys: JwkSet = keys.send().await.unwrap().json().await.unwrap();
        let header = jsonwebtoken::decode_header(token).unwrap();
        let key = keys.find(&header.kid.unwrap()).unwrap();
        let mut rules = Validation::new(Algorithm::ES256);
        rules.set_issuer(&[&self.url]);
        rules.set_audience(&[audience]);
        let key = DecodingKey::from_jwk(key).unwrap();
        jsonwebtoken::decode(token, &key, &rules).unwrap().claims
    }
}

pub(crate) fn location(reply: &reqwest::Response) -> Url {
    assert_eq!(reply.status(), 303, "no redirect");
    Url::parse(reply.headers()["location"].to_str().unwrap()).unwrap()
}

pub(crate) fn pairs(url: &Url) -> HashMap<String, String> {
    url.query_pairs().into_owned().collect()
}

pub(crate) fn text<'a>(body: &'a Value, field: &str) -> &'a str {
    body[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} in {body}"))
}
