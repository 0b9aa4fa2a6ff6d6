use super::*;
use crate::table::Writer;
use k8s_openapi::api::core::v1::Pod;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{Session as SessionToken, SessionSigner, Sessions};
use nogoo9_model::pod::PodView;
use nogoo9_runtime::args::{Public, WorkspaceDomain};
use serde_json::json;
use std::time::{Duration, Instant};

const NOW: UnixSeconds = 1_000_000;
const URL: &str = "https://us.example.org";
const DOCS: &str = "https://docs.example.org";

/// A gate, its table's writer, and what signs sessions.
struct Stage {
    gate: Gate,
    writer: Writer,
    signer: SessionSigner,
}

impl Stage {
    fn new() -> Self {
        let key = SigningKey::generate().unwrap();
        let set = KeySet::parse(public_jwks([&key]).as_bytes()).unwrap();
        let policy = Arc::new(ClaimPolicy::default());
        let config = BearerConfig {
            issuer: "https://issuer".to_owned(),
            audiences: vec!["us".to_owned()],
        };
        let bearers = Bearers::new(config, policy.clone(), Keys::fixed(KeySet::default()));
        let sessions = Sessions::new(URL, policy, Keys::fixed(set));
        let auth = Authenticator::new(bearers, sessions, CookieNames::new(true));
        let url: Url = URL.parse().unwrap();
        let domain = WorkspaceDomain {
            host: "ws.example.org".to_owned(),
            port: None,
        };
        let router = Router::new(&Public {
            listen: "127.0.0.1:0".parse().unwrap(),
            url: url.clone(),
            workspace_domain: domain,
            path_mode: true,
            path_host: None,
        });
        let table = Table::new();
        Self {
            writer: Writer::new(table.clone(), Duration::from_secs(30)),
            gate: Gate::new(router, table, Arc::new(auth), url),
            signer: SessionSigner::new(key, URL),
        }
    }

    /// A pod that serves `owner`'s workspace `id`, which names [`DOCS`].
    fn pod(&mut self, id: &str, owner: &str) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": id, "namespace": "ns", "uid": id, "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "nogoo9/type": "workspace",
                    "nogoo9/managed-by": "nogoo9-spawner",
                    "nogoo9/workspace-id": id,
                    "nogoo9/generation": "1",
                },
                "annotations": {"nogoo9/user-sub": owner, "nogoo9/allow-origins": DOCS},
            },
            "spec": {"containers": [{"name": "main", "image": "sample:1"}]},
            "status": {
                "phase": "Running", "podIP": "127.0.0.9",
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            },
        }))
        .unwrap();
        let view = PodView::from_pod(&pod).unwrap();
        self.writer.applied(Arc::new(view), Instant::now());
    }

    /// A session token of alice's on `host`.
    fn token(&self, host: &str, fresh_until: UnixSeconds) -> String {
        let session = SessionToken {
            sub: "alice".to_owned(),
            roles: vec!["user".to_owned()],
            sid: "s1".to_owned(),
            expires: NOW + 40_000,
            fresh_until: Some(fresh_until),
        };
        self.signer.sign_session(&session, host, NOW - 900).unwrap()
    }

    /// What becomes of a request of alice's to workspace `id`.
    fn decide(&self, id: &str, fresh: UnixSeconds, request: &Sent<'_>) -> Decision {
        let host = self.gate.router.workspace_host(id);
        let token = self.token(&host, NOW + fresh);
        let mut sent = RequestHeader::build(request.0, request.1.as_bytes(), None).unwrap();
        sent.append_header("host", host).unwrap();
        sent.append_header("cookie", format!("__Host-nogoo9={token}"))
            .unwrap();
        for (name, value) in request.2 {
            sent.append_header(*name, *value).unwrap();
        }
        self.gate.decide(&sent, NOW, false)
    }
}

/// Method, target and headers.
type Sent<'a> = (&'a str, &'a str, &'a [(&'static str, &'a str)]);

const SAME_ORIGIN: (&str, &str) = ("sec-fetch-site", "same-origin");
const FRESH: UnixSeconds = 800;
const STALE: UnixSeconds = -5;

/// A decision in short, without the id, and without a redirect's nonce, which is random.
fn short(decision: &Decision, id: &str) -> String {
    match decision {
        Decision::Reply(reply) => {
            let headers = reply
                .headers
                .iter()
                .filter(|(name, _)| *name != "set-cookie");
            let headers: Vec<String> = headers
                .map(|(name, value)| {
                    let value = value.split("&n=").next().unwrap_or_default();
                    format!("{name}: {value}")
                })
                .collect();
            let body = String::from_utf8_lossy(&reply.body);
            format!("{} {headers:?} {body}", reply.status).replace(id, "ID")
        }
        Decision::Open(_) => "open".to_owned(),
        Decision::Ask(_) => "ask".to_owned(),
        Decision::AskSession(_) => "ask about the session".to_owned(),
        other => format!("{other:?}"),
    }
}

#[test]
fn pages_that_a_workspace_names_learn_nothing_of_those_of_others() {
    let mut stage = Stage::new();
    stage.gate.table.complete();
    stage.pod("hers", "alice");
    stage.pod("bobs", "bob");
    let docs = ("origin", DOCS);
    let evil = ("origin", "https://evil.example.org");
    let site = ("sec-fetch-site", "cross-site");
    let put = ("access-control-request-method", "PUT");
    let navigates = ("sec-fetch-mode", "navigate");
    let socket = ("upgrade", "websocket");
    for (method, target, headers, hers, others) in [
        ("GET", "/", &[docs, site][..], "open", "401"),
        ("GET", "/", &[docs], "open", "401"),
        ("POST", "/x", &[docs, site], "open", "401"),
        ("OPTIONS", "/x", &[docs, site], "open", "401"),
        ("OPTIONS", "/x", &[docs, site, put], "200", "200"),
        ("GET", "/", &[docs, site, socket], "open", "401"),
        ("GET", "/", &[docs, site, navigates], "open", "302"),
        (
            "POST",
            "/.nogoo9/start",
            &[docs, site, navigates],
            "ask",
            "302",
        ),
        ("GET", "/.nogoo9/status", &[docs, site], "200", "401"),
        ("GET", "/", &[evil, site], "401", "401"),
        ("OPTIONS", "/x", &[evil, site, put], "401", "401"),
        ("GET", "/", &[docs, evil, site], "401", "401"),
        ("OPTIONS", "/x", &[docs, docs, put], "401", "401"),
        // What needs no named origin is answered by control, for both.
        ("GET", "/", &[docs, SAME_ORIGIN], "open", "ask"),
        ("GET", "/", &[SAME_ORIGIN], "open", "ask"),
    ] {
        let request = (method, target, headers);
        for fresh in [FRESH, STALE] {
            let [own, bobs, none] =
                ["hers", "bobs", "none"].map(|id| short(&stage.decide(id, fresh, &request), id));
            // Where the cookie counts and is stale, control is asked first, for what is there or not.
            let then = |wanted: &'static str| match wanted {
                "401" | "302" => wanted,
                "200" if method == "OPTIONS" => wanted,
                _ if fresh == STALE => "ask about the session",
                _ => wanted,
            };
            assert!(own.starts_with(then(hers)), "{request:?} {fresh}: {own}");
            assert!(
                bobs.starts_with(then(others)),
                "{request:?} {fresh}: {bobs}"
            );
            assert_eq!(bobs, none, "{request:?} {fresh}");
        }
    }
    // Once nobody names it, no preflight of its pages is answered.
    let preflight = ("OPTIONS", "/x", &[docs, put][..]);
    let answered = |stage: &Stage| short(&stage.decide("none", FRESH, &preflight), "none");
    assert!(answered(&stage).starts_with("200"));
    stage.writer.deleted("hers", Instant::now());
    assert!(answered(&stage).starts_with("200"), "one names it still");
    stage.writer.deleted("bobs", Instant::now());
    stage.writer.sweep(Instant::now() + Duration::from_secs(60));
    assert!(stage.gate.table.is_empty());
    assert!(answered(&stage).starts_with("401"));
}

#[test]
fn before_all_pods_are_listed_not_yours_is_not_there() {
    let mut stage = Stage::new();
    stage.pod("hers", "alice");
    stage.pod("bobs", "bob");
    for target in ["/", "/.nogoo9/status"] {
        let request = ("GET", target, &[SAME_ORIGIN][..]);
        let [bobs, none] = ["bobs", "none"].map(|id| stage.decide(id, FRESH, &request));
        assert!(short(&none, "none").starts_with("503"), "{none:?}");
        assert_eq!(short(&bobs, "bobs"), short(&none, "none"), "{target}");
    }
    let request = ("GET", "/", &[SAME_ORIGIN][..]);
    let hers = stage.decide("hers", FRESH, &request);
    assert_eq!(short(&hers, "hers"), "open");
    stage.gate.table.complete();
    let bobs = stage.decide("bobs", FRESH, &request);
    assert_eq!(short(&bobs, "bobs"), "ask");
}

#[test]
fn tokens_of_ours_in_queries_reach_no_pod() {
    let mut stage = Stage::new();
    stage.gate.table.complete();
    stage.pod("hers", "alice");
    for (target, wanted) in [
        ("/?access_token=ng9_abc", "400"),
        ("/a?b=c&access%5ftoken=ng9_abc", "400"),
        ("/.nogoo9/status?access_token=ng9_abc", "400"),
        ("/?access_token=theirs", "open"),
        ("/?token=ng9", "open"),
    ] {
        let request = ("GET", target, &[SAME_ORIGIN][..]);
        let hers = short(&stage.decide("hers", FRESH, &request), "hers");
        assert!(hers.starts_with(wanted), "{target}: {hers}");
        if wanted == "400" {
            assert!(hers.contains("error=\\\"invalid_request\\\""), "{hers}");
            let none = short(&stage.decide("none", FRESH, &request), "none");
            assert_eq!(hers, none, "{target}");
        }
    }
}
