//! The session keys in the embedded API server: made once, whoever comes first, and changed in time.

use crate::server::{NAMESPACE, Server};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nogoo9_control::login::keys::ring::{LEAD, Rotation};
use nogoo9_control::login::keys::{
    CONFIG_MAP, JWKS_KEY, KeyStoreError, Keyring, SECRET, load_or_create, look,
};
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{Session, SessionSigner, Sessions};
use serde_json::json;
use std::sync::Arc;

const NOW: i64 = 1_000_000;
const DAY: i64 = 24 * 3600;
const ROTATION: Rotation = Rotation {
    every: Some(30 * DAY),
    life: DAY,
};

async fn load_at(server: &Server, now: i64) -> Result<Keyring, KeyStoreError> {
    load_or_create(server.client.clone(), NAMESPACE, &ROTATION, now).await
}

fn kid(keys: &Keyring, now: i64) -> String {
    keys.signing(now).kid().to_owned()
}

#[tokio::test]
async fn the_first_makes_the_keys_and_all_others_find_them() {
    let server = Server::start().await;
    let load = || load_at(&server, NOW);
    let all = tokio::join!(load(), load(), load(), load());
    let all = [all.0, all.1, all.2, all.3].map(|keys| keys.expect("keys"));
    let first = kid(&all[0], NOW);
    let sealed = all[0].seal().seal("text", "context").expect("sealed");
    for keys in &all {
        assert_eq!(kid(keys, NOW), first);
        let opened = keys.seal().open(&sealed, "context");
        assert_eq!(opened.as_deref(), Ok("text"));
    }
    let later = load().await.expect("keys");
    assert_eq!(kid(&later, NOW), first);
    assert_eq!(
        server.published().await,
        public_jwks([&*later.signing(NOW)])
    );
    server.stop().await;
}

#[tokio::test]
async fn a_published_set_that_was_tampered_with_is_put_right() {
    let server = Server::start().await;
    let keys = load_at(&server, NOW).await.expect("keys");
    let jwks = keys.jwks();
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), NAMESPACE);
    let patch = json!({"data": {JWKS_KEY: "{}", "more": "x"}});
    maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .expect("patched");
    load_at(&server, NOW).await.expect("the keys");
    assert_eq!(server.published().await, jwks);

    maps.delete(CONFIG_MAP, &DeleteParams::default())
        .await
        .expect("deleted");
    load_at(&server, NOW).await.expect("the keys");
    assert_eq!(server.published().await, jwks);
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
    let error = load_at(&server, NOW).await.err().expect("no key");
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
    let client = server.proxy.clone();
    let refused = load_or_create(client, NAMESPACE, &ROTATION, NOW).await;
    let error = refused.err().expect("refused");
    assert!(!error.is_transient());
    assert!(error.to_string().contains(SECRET), "{error}");
    server.stop().await;
}

#[tokio::test]
async fn a_key_is_published_before_it_signs_and_after() {
    let server = Server::start().await;
    let first = load_at(&server, NOW).await.expect("keys");
    let old = kid(&first, NOW);
    // Several find at once that it is time: they make one successor.
    let due = NOW + 30 * DAY;
    let all = tokio::join!(load_at(&server, due), load_at(&server, due));
    let [one, two] = [all.0, all.1].map(|keys| keys.expect("keys"));
    let new = kid(&one, due + LEAD);
    assert_eq!(kid(&two, due + LEAD), new);
    assert_ne!(new, old);
    assert_eq!(kid(&one, due + LEAD - 1), old);
    let published = server.published().await;
    assert!(published.contains(&old) && published.contains(&new));

    let later = load_at(&server, due + LEAD).await.expect("keys");
    assert_eq!(kid(&later, due + LEAD), new);
    let published = server.published().await;
    assert!(published.contains(&old) && published.contains(&new));
    let over = load_at(&server, due + LEAD + DAY).await.expect("keys");
    assert_eq!(
        server.published().await,
        public_jwks([&*over.signing(due + LEAD + DAY)])
    );
    // Whatever changes, what is sealed still opens.
    let sealed = first.seal().seal("text", "context").expect("sealed");
    assert!(over.seal().open(&sealed, "context").is_ok());
    server.stop().await;
}

#[tokio::test]
async fn the_secret_of_an_earlier_version_is_completed() {
    let server = Server::start().await;
    let key = SigningKey::generate().expect("a key");
    let mut secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": SECRET}})).expect("an object");
    let pem = key.to_pem().expect("PEM");
    secret.data = Some([("current.pem".to_owned(), ByteString(pem.into_bytes()))].into());
    server
        .secrets()
        .create(&PostParams::default(), &secret)
        .await
        .expect("created");
    let keys = load_at(&server, NOW).await.expect("keys");
    assert_eq!(kid(&keys, NOW), key.kid());
    // Of unknown age, so as good as new.
    let keys = load_at(&server, NOW + 29 * DAY).await.expect("keys");
    assert_eq!(keys.jwks(), public_jwks([&key]));
    // An earlier version, gone back to, finds its key where it was.
    let there = server.secrets().get(SECRET).await.expect("there");
    let pem = there.data.expect("data")["current.pem"].clone();
    let pem = String::from_utf8(pem.0).expect("text");
    let read = SigningKey::from_pem(&pem).expect("a key");
    assert_eq!(read.kid(), key.kid());
    server.stop().await;
}

/// A token that these keys sign at some time.
fn token(keys: &Keyring, now: i64) -> String {
    let session = Session {
        sub: "alice".to_owned(),
        roles: Vec::new(),
        sid: "s".to_owned(),
        expires: now + 3600,
        fresh_until: None,
    };
    let signer = SessionSigner::new(keys.signing(now), "http://localhost:9009/");
    let token = signer.sign_session(&session, "localhost:9009", now);
    token.expect("a token")
}

#[tokio::test]
async fn a_control_that_runs_takes_new_keys_over() {
    let server = Server::start().await;
    let keys = load_at(&server, NOW).await.expect("keys");
    let policy = Arc::new(ClaimPolicy::default());
    let public = keys.public().clone();
    let sessions = Sessions::new("http://localhost:9009/", policy, public);
    let counts = |token: &str, now| sessions.verify(token, "localhost:9009", now).is_ok();
    let look_at = async |now: i64| {
        let client = server.client.clone();
        look(&keys, client, NAMESPACE, &ROTATION, now).await
    };
    // Another control has made a successor; this one verifies by it before anybody signs with it.
    let due = NOW + 30 * DAY;
    let other = load_at(&server, due).await.expect("keys");
    let at = due + LEAD;
    let theirs = token(&other, at);
    assert!(!counts(&theirs, at));
    look_at(due + 60).await.expect("looked");
    assert!(counts(&theirs, at));
    let old = token(&keys, at - 1);
    assert_eq!(kid(&keys, at), kid(&other, at));
    look_at(at + 60).await.expect("looked");
    assert!(counts(&old, at + 60) && counts(&theirs, at + 60));

    // Whoever deletes the Secret wants everybody out, and nobody's refresh token used.
    let sealed = keys.seal().seal("text", "context").expect("sealed");
    server
        .secrets()
        .delete(SECRET, &DeleteParams::default())
        .await
        .expect("deleted");
    look_at(at + 120).await.expect("looked");
    assert!(!counts(&old, at + 120) && !counts(&theirs, at + 120));
    assert!(counts(&token(&keys, at + 120), at + 120));
    assert!(keys.seal().open(&sealed, "context").is_err());
    assert_eq!(server.published().await, keys.jwks());

    // While the Secret cannot be looked at, the keys in use stay.
    let before = keys.jwks();
    let refused = look(&keys, server.proxy.clone(), NAMESPACE, &ROTATION, at + 180).await;
    assert!(refused.is_err());
    assert_eq!(keys.jwks(), before);
    server.stop().await;
}
