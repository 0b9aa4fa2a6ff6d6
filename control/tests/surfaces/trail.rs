//! The audit trail: what is done leaves its record, whichever surface it came by and whatever became
//! of it. And limits on what is forged, by the address that the proxy says.

use crate::world::{Answer, WORKSPACES, World};
use http::Method;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing_subscriber::fmt::MakeWriter;

const A: &str = "203.0.113.9";
const B: &str = "203.0.113.10";

/// What control logs on this thread, on which all of it runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn listen() -> (Self, DefaultGuard) {
        // With one subscriber in the process, whether a place in the code is of interest is asked of the
        // thread that comes by first, which may be that of another test. With two, of both.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(NoSubscriber::new()));
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// The records so far: what, who, from, how, object, and how it ended.
    fn records(&self) -> Vec<[String; 6]> {
        let lines = self.text();
        let lines = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let ours = lines.filter(|line| line["target"] == "audit" && line["what"] != "keys.make");
        ours.map(|line| {
            let field = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let ended = match line["reason"].as_str() {
                Some(reason) => format!("{}: {reason}", field("result")),
                None => field("result"),
            };
            let [what, who, from, how, object] =
                ["what", "who", "from", "how", "object"].map(field);
            [what, who, from, how, object, ended]
        })
        .collect()
    }
}

/// The same token under another signature.
fn forge(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let other = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{signed}.{other}{}", &signature[1..])
}

/// Asks as the proxy does for a client at `from`.
async fn ask(
    world: &World,
    from: &str,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Answer {
    let url = format!("{}{path}", world.url);
    let mut request = world
        .http
        .request(method, url)
        .header("x-forwarded-for", from);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.json(body);
    }
    world.send(request).await
}

#[tokio::test]
async fn every_surface_leaves_its_records() {
    let (log, _listening) = Log::listen();
    let world = World::start().await;
    world.sample("sample:1").await;
    let bearer = |user: &str| format!("Bearer {}", world.token(user));
    let (alice, bob) = (bearer("alice"), bearer("bob"));
    let cookie = world.cookie("alice");
    let by_alice = [("authorization", alice.as_str())];
    let by_bob = [("authorization", bob.as_str())];
    let by_cookie = [
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("x-request-id", "r-7"),
    ];
    let spawn = json!({"template": "sample", "id": "traced"});
    let workspaces = "/api/v1/workspaces";
    let of_it = |action: &str| format!("{workspaces}/traced{action}");
    let tool = |name: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": {"id": "traced"}}})
    };

    ask(&world, A, Method::POST, workspaces, &by_alice, Some(&spawn)).await;
    ask(&world, B, Method::POST, &of_it("/stop"), &by_bob, None).await;
    ask(&world, B, Method::GET, &of_it(""), &by_bob, None).await;
    for (from, by) in [(B, &bob), (A, &alice)] {
        let headers = [
            ("authorization", by.as_str()),
            ("mcp-protocol-version", "2025-11-25"),
            ("accept", "application/json, text/event-stream"),
        ];
        let call = tool("stop_workspace");
        let called = ask(&world, from, Method::POST, "/mcp", &headers, Some(&call)).await;
        assert_eq!(called.status, 200, "{}", called.body);
    }
    // A start is told on the new pod; while the old one is still there, nobody waits for that.
    world
        .until("it to be stopped", || async {
            world.get("alice", "/workspaces/traced").await["status"] == "stopped"
        })
        .await;
    ask(&world, A, Method::POST, &of_it("/start"), &by_cookie, None).await;
    let wanted = json!({"name": "reads", "scopes": ["nogoo9:read"], "expiresInDays": 1});
    let made = ask(
        &world,
        A,
        Method::POST,
        "/api/v1/tokens",
        &by_cookie,
        Some(&wanted),
    )
    .await;
    let made = made.json();
    let (token, id) = (
        made["token"].as_str().unwrap(),
        made["id"].as_str().unwrap(),
    );
    let personal = format!("Bearer {token}");
    let by_token = [("authorization", personal.as_str())];
    ask(&world, B, Method::DELETE, &of_it(""), &by_token, None).await;
    let revoke = format!("/api/v1/tokens/{id}");
    ask(&world, A, Method::DELETE, &revoke, &by_cookie, None).await;
    ask(&world, B, Method::DELETE, &of_it(""), &by_token, None).await;
    ask(&world, A, Method::GET, workspaces, &[], None).await;
    ask(
        &world,
        A,
        Method::DELETE,
        &of_it("?deleteData=true"),
        &by_alice,
        None,
    )
    .await;

    let (a, b) = ("alice", "bob");
    let denied = "refused: access_denied";
    let wanted = [
        ["workspace.spawn", a, A, "bearer", "traced", "ok"],
        ["workspace.stop", b, B, "bearer", "traced", denied],
        ["read", b, B, "bearer", "get_workspace", denied],
        ["workspace.stop", b, B, "bearer", "traced", denied],
        ["workspace.stop", a, A, "bearer", "traced", "ok"],
        ["workspace.start", a, A, "session", "traced", "ok"],
        ["token.create", a, A, "session", id, "ok"],
        [
            "workspace.delete",
            a,
            B,
            "personal-token",
            "traced",
            "refused: insufficient_scope",
        ],
        ["token.revoke", a, A, "session", id, "ok"],
        [
            "request",
            "-",
            B,
            "personal-token",
            "-",
            "refused: unknown_token",
        ],
        ["request", "-", A, "none", "-", "refused: no_credential"],
        ["workspace.delete-data", a, A, "bearer", "traced", "ok"],
    ];
    assert_eq!(
        log.records(),
        wanted.map(|record| record.map(str::to_owned))
    );
    let text = log.text();
    assert!(text.contains("\"request\":\"r-7\""));
    // And whoever looks at the pods reads who did it.
    let events: Api<Event> = Api::namespaced(world.admin.clone(), WORKSPACES);
    for done in ["spawned", "stopped", "started", "deleted"] {
        let message = format!("workspace traced was {done} by alice");
        world
            .until(&message, || async {
                let told = events.list(&ListParams::default()).await.unwrap();
                told.items
                    .iter()
                    .any(|event| event.message.as_ref() == Some(&message))
            })
            .await;
    }
    for secret in [&alice, &bob, &cookie, &personal] {
        let secret = secret.rsplit(['.', ' ']).next().unwrap();
        assert!(
            !text.contains(secret.trim_start_matches("ng9_")),
            "a credential in the log"
        );
    }
}

#[tokio::test]
async fn a_sign_in_that_does_not_get_as_far_as_the_provider_leaves_its_record() {
    let (log, _listening) = Log::listen();
    let world = World::start().await;
    // Nothing listens there.
    let control = world.another_at("http://127.0.0.1:1").await;
    let request = world.http.get(format!("{control}/auth/login?return=%2Fx"));
    let answer = world.send(request.header("x-forwarded-for", A)).await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    let record = [
        "sign-in",
        "-",
        A,
        "none",
        "-",
        "failed: provider_unreachable",
    ];
    assert_eq!(log.records(), [record.map(str::to_owned)]);
}

#[tokio::test]
async fn what_is_forged_is_limited_and_what_counts_never_is() {
    let (log, _listening) = Log::listen();
    let world = World::start_with(&["--auth-failures-per-minute=1"]).await;
    let good = format!("Bearer {}", world.token("alice"));
    let forged = forge(&good);
    let unknown = format!("Bearer ng9_{}", "a".repeat(40));
    let cookie = world.cookie("alice");
    let altered = forge(&cookie);
    let expired = world.cookie_for("alice", -60);
    let list = async |from: &str, name: &str, value: &str| {
        let headers = [(name, value), ("sec-fetch-site", "same-origin")];
        ask(
            &world,
            from,
            Method::GET,
            "/api/v1/workspaces",
            &headers,
            None,
        )
        .await
    };
    assert_eq!(list(A, "authorization", &forged).await.status, 401);
    for (name, value) in [
        ("authorization", &forged),
        ("authorization", &unknown),
        ("cookie", &altered),
    ] {
        let limited = list(A, name, value).await;
        assert_eq!(limited.status, 429, "{name}: {}", limited.body);
        let wait: u64 = limited.headers["retry-after"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!((1..=60).contains(&wait), "{wait}");
        let body = limited.json();
        assert_eq!(
            (&body["code"], &body["retryable"]),
            (&json!("too_many_failures"), &json!(true))
        );
        assert!(
            body["message"]
                .as_str()
                .unwrap()
                .contains(&format!("{wait} s"))
        );
    }
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let headers = [("authorization", forged.as_str())];
    let tools = ask(&world, A, Method::POST, "/mcp", &headers, Some(&call)).await;
    assert_eq!(tools.status, 429, "{}", tools.body);
    for _ in 0..3 {
        assert_eq!(list(A, "authorization", &good).await.status, 200);
        assert_eq!(list(A, "cookie", &cookie).await.status, 200);
        assert_eq!(list(A, "cookie", &expired).await.status, 401);
    }
    assert_eq!(list(B, "authorization", &forged).await.status, 401);
    // Nobody can be told apart whom no proxy speaks for.
    for _ in 0..3 {
        let request = world.http.get(format!("{}/api/v1/workspaces", world.url));
        let answer = world.send(request.header("authorization", &forged)).await;
        assert_eq!(answer.status, 401);
    }

    // Sign-ins that fail; one that succeeds is never looked at so.
    let callback = async |from: &str| {
        let path = "/auth/callback?state=made-up&code=secret-code";
        ask(&world, from, Method::GET, path, &[], None).await
    };
    let third = "203.0.113.11";
    assert_eq!(callback(third).await.status, 400);
    let limited = callback(third).await;
    assert_eq!(limited.status, 429);
    let wait = limited.headers["retry-after"].to_str().unwrap();
    assert!(
        limited.body.contains(&format!("Wait {wait} second")),
        "{}",
        limited.body
    );
    assert!(
        limited.headers["content-type"]
            .to_str()
            .unwrap()
            .starts_with("text/html")
    );
    let signed_in = [["sign-in", "-", third, "none", "-", "refused: state"]];
    let signed_in = signed_in.map(|record| record.map(str::to_owned));
    let records = log.records();
    let sign_ins = records.iter().filter(|record| record[0] == "sign-in");
    assert_eq!(
        sign_ins.cloned().collect::<Vec<_>>(),
        [signed_in.clone(), signed_in].concat()
    );
    assert!(!log.text().contains("secret-code"));
}
