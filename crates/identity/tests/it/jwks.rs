//! Keys over real HTTP: rotation, absence, floods.

use crate::support::{NOW, Signer, bearers, claims, jwks};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nogoo9_identity::jwks::{Keys, Timing};
use nogoo9_identity::source::{KeySource, SourceError, discover};
use nogoo9_identity::{Roots, TokenError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Waits for nothing but what is being waited for.
const SOON: Duration = Duration::from_secs(60);

/// A provider that publishes keys, counts requests, can be away, and can keep callers waiting.
#[derive(Clone, Default)]
struct Provider {
    document: Arc<Mutex<Option<Vec<u8>>>>,
    requests: Arc<AtomicUsize>,
    base: Arc<Mutex<String>>,
    /// Whether answers are held back.
    slow: watch::Sender<bool>,
}

impl Provider {
    async fn start() -> (Self, JoinHandle<()>) {
        let provider = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        *provider.base.lock().expect("no panic") = format!("http://{address}/realm");
        let router = Router::new()
            .route(
                "/realm/.well-known/openid-configuration",
                get(Self::discovery),
            )
            .route("/realm/keys", get(Self::keys))
            .with_state(provider.clone());
        let server = tokio::spawn(async move {
            axum::serve(listener, router).await.expect("serving");
        });
        (provider, server)
    }

    async fn discovery(State(provider): State<Self>) -> Response {
        let issuer = provider.issuer();
        axum::Json(serde_json::json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}))
            .into_response()
    }

    async fn keys(State(provider): State<Self>) -> Response {
        provider.requests.fetch_add(1, Ordering::SeqCst);
        let mut slow = provider.slow.subscribe();
        slow.wait_for(|slow| !slow).await.expect("it is there");
        match provider.document.lock().expect("no panic").clone() {
            Some(document) => document.into_response(),
            None => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        }
    }

    fn issuer(&self) -> String {
        self.base.lock().expect("no panic").clone()
    }

    fn publish(&self, signers: &[&Signer]) {
        *self.document.lock().expect("no panic") = Some(jwks(signers));
    }

    fn go_away(&self) {
        *self.document.lock().expect("no panic") = None;
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn source(&self) -> KeySource {
        KeySource::from_flag(&format!("{}/keys", self.issuer())).expect("an address")
    }
}

fn timing() -> Timing {
    Timing {
        backoff: Duration::from_millis(20),
        ..Timing::NETWORK
    }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

#[tokio::test]
async fn a_flood_of_unknown_keys_costs_the_provider_one_request() {
    let (provider, _server) = Provider::start().await;
    let good = Signer::ed25519("good");
    provider.publish(&[&good]);
    let timing = Timing {
        min_gap: Duration::from_secs(3600),
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = Arc::new(bearers(keys));
    assert_eq!(provider.requests(), 1);

    let forged = Arc::new(Signer::ed25519("forged").sign(&claims()));
    let flood: Vec<_> = (0..500)
        .map(|_| {
            let (bearers, forged) = (Arc::clone(&bearers), Arc::clone(&forged));
            tokio::spawn(async move { bearers.verify_async(&forged, NOW).await.map(|_| ()) })
        })
        .collect();
    for task in flood {
        assert_eq!(task.await.expect("no panic"), Err(TokenError::UnknownKey));
    }
    assert_eq!(provider.requests(), 1, "so soon after the last read");
    assert!(bearers.verify(&good.sign(&claims()), NOW).is_ok());
    running.abort();
}

#[tokio::test]
async fn a_flood_that_lasts_costs_the_provider_one_request_an_interval() {
    let (provider, _server) = Provider::start().await;
    provider.publish(&[&Signer::ed25519("good")]);
    let min_gap = Duration::from_millis(60);
    let timing = Timing {
        min_gap,
        backoff: min_gap,
        ..timing()
    };
    let start = Instant::now();
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys);
    let forged = Signer::ed25519("forged").sign(&claims());
    until("they were read three times more", || {
        for _ in 0..10 {
            let verdict = bearers.verify(&forged, NOW).map(|_| ());
            assert_eq!(verdict, Err(TokenError::UnknownKey));
        }
        provider.requests() >= 4
    })
    .await;
    // However long it took on a busy machine: the reads were this far apart.
    assert!(start.elapsed() >= min_gap * 3, "{:?}", start.elapsed());
    running.abort();
}

#[tokio::test]
async fn a_slow_provider_keeps_nobody_waiting_whose_key_is_known() {
    let (provider, _server) = Provider::start().await;
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    provider.publish(&[&old]);
    let timing = Timing {
        min_gap: Duration::ZERO,
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys);
    let (by_old, by_new) = (old.sign(&claims()), new.sign(&claims()));

    provider.slow.send_replace(true);
    provider.publish(&[&old, &new]);
    assert_eq!(
        bearers.verify(&by_new, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    until("it was asked", || provider.requests() >= 2).await;
    assert!(bearers.verify(&by_old, NOW).is_ok());
    assert!(bearers.verify_async(&by_old, NOW).await.is_ok());
    assert_eq!(
        bearers.verify(&by_new, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    provider.slow.send_replace(false);
    until("the new key is read", || {
        bearers.verify(&by_new, NOW).is_ok()
    })
    .await;
    running.abort();
}

#[tokio::test]
async fn a_key_that_its_provider_withdraws_is_gone_with_the_next_read() {
    let (provider, _server) = Provider::start().await;
    let (leaked, new) = (Signer::ed25519("leaked"), Signer::ed25519("new"));
    provider.publish(&[&leaked]);
    let timing = Timing {
        interval: Duration::from_millis(10),
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys);
    let (by_leaked, by_new) = (leaked.sign(&claims()), new.sign(&claims()));
    assert!(bearers.verify(&by_leaked, NOW).is_ok());
    provider.publish(&[&new]);
    until("the new key is read", || {
        bearers.verify(&by_new, NOW).is_ok()
    })
    .await;
    assert_eq!(
        bearers.verify(&by_leaked, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    running.abort();
}

#[tokio::test]
async fn keys_that_nobody_confirms_are_given_up_until_the_provider_is_back() {
    let (provider, _server) = Provider::start().await;
    let signer = Signer::ed25519("k");
    provider.publish(&[&signer]);
    let timing = Timing {
        interval: Duration::from_millis(10),
        max_backoff: Duration::from_millis(20),
        max_stale: Duration::from_millis(100),
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys.clone());
    let token = signer.sign(&claims());
    // Confirmed again and again, they last.
    let before = provider.requests();
    until("they were read again", || {
        provider.requests() >= before + 20
    })
    .await;
    until("they count", || bearers.verify(&token, NOW).is_ok()).await;

    provider.go_away();
    until("they are given up", || !keys.is_ready()).await;
    assert_eq!(
        bearers.verify(&token, NOW).map(|_| ()),
        Err(TokenError::KeysUnavailable),
        "also what was verified before"
    );
    provider.publish(&[&signer]);
    until("the keys are read", || keys.is_ready()).await;
    assert!(bearers.verify(&token, NOW).is_ok());
    running.abort();
}

#[tokio::test]
async fn an_unknown_key_is_fetched_once_for_all_who_wait() {
    let (provider, _server) = Provider::start().await;
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    provider.publish(&[&old]);
    let timing = Timing {
        min_gap: Duration::ZERO,
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys);
    assert!(bearers.verify(&old.sign(&claims()), NOW).is_ok());

    provider.publish(&[&old, &new]);
    let token = new.sign(&claims());
    assert!(bearers.verify_async(&token, NOW).await.is_ok());
    // From here on without waiting.
    assert!(bearers.verify(&token, NOW).is_ok());
    assert!(bearers.verify(&old.sign(&claims()), NOW).is_ok());
    assert_eq!(provider.requests(), 2);
    running.abort();
}

#[tokio::test]
async fn a_provider_that_is_away_at_the_start_is_asked_again() {
    let (provider, _server) = Provider::start().await;
    let signer = Signer::p256("k");
    let (keys, refresher) = Keys::with_timing(
        KeySource::Issuer {
            issuer: provider.issuer(),
            roots: Roots::default(),
        },
        timing(),
    );
    let running = tokio::spawn(refresher.run());
    let bearers = bearers(keys.clone());
    until("it was asked", || provider.requests() >= 2).await;
    let refused = bearers.verify(&signer.sign(&claims()), NOW).map(|_| ());
    assert_eq!(refused, Err(TokenError::KeysUnavailable));
    assert_eq!(
        TokenError::KeysUnavailable.status(),
        StatusCode::SERVICE_UNAVAILABLE
    );
    provider.publish(&[&signer]);
    until("the keys are read", || keys.is_ready()).await;
    assert!(bearers.verify(&signer.sign(&claims()), NOW).is_ok());
    running.abort();
}

#[tokio::test]
async fn old_keys_stay_while_the_provider_is_away_or_publishes_nonsense() {
    let (provider, _server) = Provider::start().await;
    let signer = Signer::ed25519("k");
    provider.publish(&[&signer]);
    let timing = Timing {
        interval: Duration::from_millis(10),
        max_backoff: Duration::from_millis(20),
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(provider.source(), timing);
    let running = tokio::spawn(refresher.run());
    until("the keys are read", || keys.is_ready()).await;
    let bearers = bearers(keys);
    let token = signer.sign(&claims());
    for away in [
        None,
        Some(b"{\"keys\": []}".to_vec()),
        Some(b"{\"keys\": [{\"kty\": \"OKP\"".to_vec()),
        Some(b"<!doctype html><title>Be right back</title>".to_vec()),
        Some(Vec::new()),
        Some(vec![b' '; 300 * 1024]),
    ] {
        provider.go_away();
        *provider.document.lock().expect("no panic") = away;
        let before = provider.requests();
        until("it was asked again", || provider.requests() >= before + 2).await;
        assert!(bearers.verify(&token, NOW).is_ok());
    }
    running.abort();
}

#[tokio::test]
async fn a_file_is_read_again_when_it_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let timing = Timing {
        interval: Duration::from_millis(10),
        ..timing()
    };
    let source = KeySource::from_flag(path.to_str().expect("UTF-8")).expect("a file");
    let (keys, refresher) = Keys::with_timing(source, timing);
    let running = tokio::spawn(refresher.run());
    let bearers = bearers(keys.clone());
    std::fs::write(&path, jwks(&[&old])).expect("written");
    until("the keys are read", || keys.is_ready()).await;
    assert!(bearers.verify(&old.sign(&claims()), NOW).is_ok());
    std::fs::write(&path, jwks(&[&new])).expect("written");
    let token = new.sign(&claims());
    until("the new key is read", || {
        bearers.verify(&token, NOW).is_ok()
    })
    .await;
    assert_eq!(
        bearers.verify(&old.sign(&claims()), NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    running.abort();
}

#[tokio::test]
async fn a_file_bridges_the_absence_of_the_address_beside_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jwks.json");
    let (provider, _server) = Provider::start().await;
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let KeySource::Url(url) = provider.source() else {
        panic!("an address");
    };
    let flag = format!("{url}, {}", path.display());
    let source = KeySource::from_flag(&flag).expect("both");
    let refused = source.load().await.expect_err("neither is there");
    assert!(refused.to_string().contains(url.as_str()), "{refused}");

    std::fs::write(&path, jwks(&[&old])).expect("written");
    let timing = Timing {
        interval: Duration::from_millis(10),
        ..timing()
    };
    let (keys, refresher) = Keys::with_timing(source, timing);
    let running = tokio::spawn(refresher.run());
    let bearers = bearers(keys.clone());
    until("the file is read", || keys.is_ready()).await;
    assert!(bearers.verify(&old.sign(&claims()), NOW).is_ok());
    // The file of a mounted ConfigMap may be a minute behind: the address is asked first.
    provider.publish(&[&new]);
    let token = new.sign(&claims());
    until("the address is asked", || {
        bearers.verify(&token, NOW).is_ok()
    })
    .await;
    running.abort();
}

#[tokio::test]
async fn discovery_must_speak_for_the_issuer_that_was_asked() {
    let (provider, server) = Provider::start().await;
    let issuer = provider.issuer();
    let found = discover(&issuer, &Roots::default())
        .await
        .expect("a document");
    assert_eq!(
        (found.issuer, found.jwks_uri),
        (issuer.clone(), format!("{issuer}/keys"))
    );
    let slash = format!("{issuer}/");
    match discover(&slash, &Roots::default()).await {
        Err(SourceError::OtherIssuer { wanted, found }) => {
            assert_eq!((wanted, found), (slash, issuer.clone()));
        }
        other => panic!("{other:?}"),
    }
    server.abort();
    until("it is gone", || server.is_finished()).await;
    assert!(matches!(
        discover(&issuer, &Roots::default()).await,
        Err(SourceError::Unreachable { .. })
    ));
}

#[test]
fn flags_that_name_no_safe_source() {
    assert!(matches!(
        KeySource::from_flag("ftp://x/keys"),
        Err(SourceError::NotAUrl)
    ));
    assert!(matches!(
        KeySource::from_flag("http://"),
        Err(SourceError::NotAUrl)
    ));
    match KeySource::from_flag("http://user:secret@login.example.org/keys?token=secret") {
        Err(error @ SourceError::Insecure { .. }) => {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    for good in [
        "https://login.example.org/keys",
        "http://127.0.0.1:9/keys",
        "http://localhost:9/keys",
        "http://nogoo9-control.nogoo9-system.svc:9010/.well-known/nogoo9-session-keys.json",
    ] {
        assert!(
            matches!(KeySource::from_flag(good), Ok(KeySource::Url(_))),
            "{good}"
        );
    }
    assert_eq!(
        KeySource::from_flag("/etc/nogoo9/jwks.json").expect("a file"),
        KeySource::File("/etc/nogoo9/jwks.json".into())
    );
}
