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
        self.pod_with(id, owner, &[("allow-origins", DOCS)]);
    }

    /// A pod that serves `owner`'s workspace `id`, with these annotations.
    fn pod_with(&mut self, id: &str, owner: &str, more: &[(&str, &str)]) {
        let more = more
            .iter()
            .map(|(key, value)| (format!("nogoo9/{key}"), json!(value)));
        let mut annotations: serde_json::Map<_, _> = more.collect();
        annotations.insert("nogoo9/user-sub".to_owned(), json!(owner));
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
                "annotations": annotations,
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
        self.decide_on(&self.gate.router.workspace_host(id), fresh, request)
    }

    /// What becomes of a request of alice's to `host`.
    fn decide_on(&self, host: &str, fresh: UnixSeconds, request: &Sent<'_>) -> Decision {
        let host = host.to_owned();
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

#[test]
fn each_port_is_opened_by_those_that_it_names() {
    const PORTS: [(&str, &str); 2] = [("api.web.port", "8080"), ("api.web.path", "/w")];
    for (workspace, port, main, extra) in [
        (None, None, false, false),
        (None, Some("private"), false, false),
        (None, Some("authenticated"), false, true),
        (None, Some("user:alice"), false, true),
        (None, Some("user:carol"), false, false),
        (None, Some("everyone"), false, false),
        (Some("authenticated"), None, true, true),
        (Some("authenticated"), Some("private"), true, false),
        (Some("authenticated"), Some("user:carol"), true, false),
        (Some("authenticated"), Some("everyone"), true, false),
        (Some("role:user"), Some("role:other"), true, false),
        (Some("everyone"), Some("role:user"), false, true),
        (Some("everyone"), None, false, false),
    ] {
        let mut stage = Stage::new();
        stage.gate.table.complete();
        let mut said = PORTS.to_vec();
        said.extend(workspace.map(|value| ("visibility", value)));
        said.extend(port.map(|value| ("api.web.visibility", value)));
        stage.pod_with("hers", "alice", &said);
        stage.pod_with("bobs", "bob", &said);
        let opens = |host: &str, target: &str| {
            let request = ("GET", target, &[SAME_ORIGIN][..]);
            match stage.decide_on(host, FRESH, &request) {
                Decision::Open(opened) => Some(opened.port().map(ToOwned::to_owned)),
                Decision::Ask(asked) => {
                    assert!(!asked.theirs, "{target} of {host}: as what is not there");
                    None
                }
                other => panic!("{other:?}"),
            }
        };
        let web = Some("web".to_owned());
        for (id, main, extra) in [("hers", true, true), ("bobs", main, extra)] {
            let (own, its) = (
                stage.gate.router.workspace_host(id),
                stage.gate.router.port_host("web", id),
            );
            let case = format!("{id} {workspace:?} {port:?}");
            assert_eq!(opens(&own, "/"), main.then_some(None), "{case}");
            assert_eq!(opens(&own, "/wx"), main.then_some(None), "{case}");
            let wanted = extra.then(|| web.clone());
            assert_eq!(opens(&own, "/w/x"), wanted, "{case} by path");
            assert_eq!(opens(&its, "/x"), wanted, "{case} by host");
            // What there is not is nobody's, also where everything else is theirs.
            let none = stage.gate.router.port_host("none", id);
            assert_eq!(opens(&none, "/x"), None, "{case}");
            // In path mode only owners open anything.
            let shared = stage.gate.router.path_host();
            let owner = id == "hers";
            for (path, port) in [("x", None), ("w/x", web.clone())] {
                let opened = opens(&shared, &format!("/route/{id}/{path}"));
                assert_eq!(opened, owner.then_some(port), "{case} {path}");
            }
        }
    }
}

#[test]
fn the_path_of_a_port_is_a_folder_to_pages_alone() {
    let mut stage = Stage::new();
    stage.gate.table.complete();
    let said = [("api.web.port", "80"), ("api.web.path", "/w/v1")];
    stage.pod_with("hers", "alice", &said);
    let navigates = ("sec-fetch-mode", "navigate");
    for (target, headers, wanted) in [
        ("/w/v1", &[SAME_ORIGIN, navigates][..], "307"),
        ("/w/v1", &[SAME_ORIGIN], "open"),
        ("/w/v1/", &[SAME_ORIGIN, navigates], "open"),
        ("/w", &[SAME_ORIGIN, navigates], "open"),
    ] {
        let decision = stage.decide("hers", FRESH, &("GET", target, headers));
        assert!(short(&decision, "hers").starts_with(wanted), "{target}");
    }
    let page = ("GET", "/w/v1?a=/b", &[SAME_ORIGIN, navigates][..]);
    let decision = short(&stage.decide("hers", FRESH, &page), "hers");
    assert!(decision.contains("location: /w/v1/?a=/b"), "{decision}");
}

#[test]
fn pages_of_the_same_workspace_call_its_ports_and_not_the_other_way_round() {
    let mut stage = Stage::new();
    stage.gate.table.complete();
    for (id, owner) in [("hers", "alice"), ("bobs", "bob")] {
        stage.pod_with(id, owner, &[("api.web.port", "80")]);
    }
    let put = ("access-control-request-method", "PUT");
    let site = ("sec-fetch-site", "same-site");
    let socket = ("upgrade", "websocket");
    let origin =
        |label: &str, id: &str| format!("https://{}.ws.example.org", label.replace("ID", id));
    for (to, from, counts) in [
        ("web--ID", "ID", true),
        ("web--ID", "other--ID", false),
        ("web--ID", "sibling", false),
        ("web--ID", "web--sibling", false),
        ("ID", "web--ID", false),
        ("ID", "sibling", false),
    ] {
        let at = |id: &str, request: (&str, &[(&'static str, &str)])| {
            let origin = origin(from, id);
            let mut headers = vec![("origin", origin.as_str()), site];
            headers.extend(request.1);
            let host = format!("{}.ws.example.org", to.replace("ID", id));
            short(
                &stage.decide_on(&host, FRESH, &(request.0, "/x", &headers)),
                id,
            )
        };
        for (method, more, hers, others) in [
            ("GET", &[][..], "open", "ask"),
            ("POST", &[], "open", "ask"),
            ("GET", &[socket], "open", "ask"),
            ("OPTIONS", &[put], "200", "200"),
        ] {
            let [own, bobs, none] = ["hers", "bobs", "none"].map(|id| at(id, (method, more)));
            let (hers, others) = if counts {
                (hers, others)
            } else {
                ("401", "401")
            };
            assert!(own.starts_with(hers), "{method} {from} to {to}: {own}");
            assert!(bobs.starts_with(others), "{method} {from} to {to}: {bobs}");
            assert_eq!(bobs, none, "{method} {from} to {to}");
            if method == "OPTIONS" {
                assert_eq!(own, none, "{from} to {to}");
            }
        }
    }
}
