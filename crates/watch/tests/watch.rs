//! The watch against a small HTTP server that can fail the ways an API server does.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use nogoo9_watch::{Change, Config, Watch, strip_managed_fields};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest wait for anything in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the server treats watches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watches {
    /// Delivers events.
    Work,
    /// Refuses the call with HTTP 410, for ever.
    Gone,
    /// Accepts and stays silent.
    Silent,
    /// The whole server is away.
    Down,
}

struct Server {
    objects: BTreeMap<String, Value>,
    version: u64,
    watches: Watches,
    /// Versions before this one are forgotten: a watch from there gets 410.
    floor: u64,
    lists: usize,
    open: Vec<mpsc::UnboundedSender<Result<Bytes, std::io::Error>>>,
}

type Shared = Arc<Mutex<Server>>;

fn object(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "someone"}],
        },
    })
}

impl Server {
    fn put(&mut self, name: &str, uid: &str) {
        self.version += 1;
        let kind = if self.objects.contains_key(name) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        let object = object(name, uid, self.version);
        self.objects.insert(name.to_owned(), object.clone());
        self.send(kind, &object);
    }

    fn delete(&mut self, name: &str) {
        self.version += 1;
        if let Some(mut object) = self.objects.remove(name) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.send("DELETED", &object);
        }
    }

    fn send(&mut self, kind: &str, object: &Value) {
        let mut line = json!({"type": kind, "object": object}).to_string();
        line.push('\n');
        if self.watches == Watches::Work {
            self.open
                .retain(|watch| watch.send(Ok(Bytes::from(line.clone()))).is_ok());
        }
    }

    /// Ends all open watches, and treats new ones so.
    fn go(&mut self, watches: Watches) {
        self.open.clear();
        self.watches = watches;
        self.floor = self.version;
    }
}

async fn config_maps(
    State(shared): State<Shared>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let mut server = shared.lock().unwrap();
    if server.watches == Watches::Down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    if query
        .get("watch")
        .is_some_and(|watch| watch == "true" || watch == "1")
    {
        let from = query
            .get("resourceVersion")
            .and_then(|v| v.parse::<u64>().ok());
        if server.watches == Watches::Gone || from.is_some_and(|from| from < server.floor) {
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version", "reason": "Expired", "code": 410});
            return (StatusCode::GONE, axum::Json(status)).into_response();
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        server.open.push(sender);
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|item| (item, receiver))
        });
        return Body::from_stream(stream).into_response();
    }
    server.lists += 1;
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList",
        "metadata": {"resourceVersion": server.version.to_string()},
        "items": server.objects.values().collect::<Vec<_>>(),
    });
    axum::Json(list).into_response()
}

struct Harness {
    shared: Shared,
    changes: mpsc::UnboundedReceiver<String>,
    watch: Watch<ConfigMap>,
}

impl Harness {
    async fn start(names: &[(&str, &str)], watches: Watches, config: Config) -> Self {
        let shared = Arc::new(Mutex::new(Server {
            objects: BTreeMap::new(),
            version: 10,
            watches,
            floor: 0,
            lists: 0,
            open: Vec::new(),
        }));
        for (name, uid) in names {
            shared.lock().unwrap().put(name, uid);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/api/v1/namespaces/ns/configmaps", get(config_maps))
            .with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let mut client = kube::Config::new(format!("http://{address}").parse().unwrap());
        client.default_retry = false;
        let api = Api::namespaced(Client::try_from(client).unwrap(), "ns");
        let (sender, changes) = mpsc::unbounded_channel();
        let watch = Watch::start(
            api,
            config,
            strip_managed_fields::<ConfigMap>,
            move |change| {
                let name = |o: &ConfigMap| o.metadata.name.clone().unwrap();
                let _ = sender.send(match &change {
                    Change::Applied(o) => format!("+{}", name(o)),
                    Change::Deleted(o) => format!("-{}", name(o)),
                    Change::Synced => "=".to_owned(),
                });
            },
        );
        Self {
            shared,
            changes,
            watch,
        }
    }

    async fn next(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.changes.recv())
            .await
            .expect("no change came")
            .unwrap()
    }

    /// The next changes up to and without a `=`, sorted.
    async fn until_synced(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let change = self.next().await;
            if change == "=" {
                seen.sort();
                return seen;
            }
            seen.push(change);
        }
    }

    async fn watched(&self) {
        let check = async {
            while self.shared.lock().unwrap().open.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, check)
            .await
            .expect("nobody watches");
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .watch
            .store()
            .list()
            .iter()
            .map(|o| o.metadata.name.clone().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn lists_then_follows() {
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Work, Config::default()).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.watch.synced().await;
    h.watched().await;
    h.shared.lock().unwrap().put("c", "3");
    assert_eq!(h.next().await, "+c");
    h.shared.lock().unwrap().delete("a");
    assert_eq!(h.next().await, "-a");
    assert_eq!(h.names(), ["b", "c"]);
    let b = h.watch.store().get("ns", "b").unwrap();
    assert_eq!(b.metadata.managed_fields, None);
    let counts = h.watch.status().counts();
    assert_eq!((counts.events, counts.lists, counts.failures), (2, 1, 0));
}

/// kube-runtime alone would ask for the same version for ever.
#[tokio::test]
async fn a_watch_refused_with_410_ends_in_a_relist() {
    let config = Config {
        max_failures: 2,
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Gone, config).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.shared.lock().unwrap().delete("a");
    h.shared.lock().unwrap().put("c", "3");
    assert_eq!(h.until_synced().await, ["+c", "-a"]);
    assert!(h.watch.status().counts().restarts >= 1);
    h.shared.lock().unwrap().watches = Watches::Work;
    h.watched().await;
    h.shared.lock().unwrap().put("d", "4");
    // A relist that was under way may deliver it before the watch does.
    while h.next().await != "+d" {}
    assert_eq!(h.names(), ["b", "c", "d"]);
}

#[tokio::test]
async fn a_silent_watch_is_overtaken_by_the_periodic_relist() {
    let config = Config {
        relist_every: Duration::from_millis(300),
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Silent, config).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.watched().await;
    h.shared.lock().unwrap().delete("a");
    // A relist that read before the delete delivers nothing.
    let mut changes = h.until_synced().await;
    while changes.is_empty() {
        changes = h.until_synced().await;
    }
    assert_eq!(changes, ["-a"]);
}

#[tokio::test]
async fn what_is_known_outlives_the_server() {
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    h.shared.lock().unwrap().go(Watches::Down);
    let failing = async {
        while !h.watch.status().is_failing() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, failing)
        .await
        .expect("the failure was not noticed");
    assert_eq!(h.names(), ["a", "b"]);
    h.shared.lock().unwrap().delete("b");
    h.shared.lock().unwrap().put("c", "3");
    h.shared.lock().unwrap().go(Watches::Work);
    // The server's log of events is gone with it, so only a full list can tell.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let change = h.next().await;
        if change != "=" {
            seen.push(change);
        }
    }
    seen.sort();
    assert_eq!(seen, ["+c", "-b"]);
    assert_eq!(h.names(), ["a", "c"]);
}
