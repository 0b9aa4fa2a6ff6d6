//! A small HTTP server that lists and watches config maps, and can fail the ways an API server does.

use crate::PATIENCE;
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
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc;

/// How the server treats watches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watches {
    /// Delivers events.
    Work,
    /// Delivers one event each, and ends.
    One,
    /// Accepts, and fails at once.
    Break,
    /// Accepts, repeats in a bookmark what is known, and ends at once.
    Repeat,
    /// Refuses the call with HTTP 410, for ever.
    Gone,
    /// Accepts and stays silent.
    Silent,
    /// The whole server is away.
    Down,
}

type Sender = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;
type Objects = BTreeMap<String, Value>;

pub(crate) struct Server {
    pub(crate) objects: Objects,
    pub(crate) version: u64,
    pub(crate) watches: Watches,
    /// Versions before this one are forgotten: a watch from there gets 410.
    pub(crate) floor: u64,
    pub(crate) lists: usize,
    pages: usize,
    /// What lists are answered with in place of the present: a cache that lags behind.
    pub(crate) cache: Option<(u64, Objects)>,
    /// Whether the rest of a list has expired when it is asked for.
    pub(crate) expires: bool,
    /// Whether lists in one piece are refused; and how many were.
    pub(crate) no_whole: bool,
    pub(crate) refused: usize,
    open: Vec<(u64, Sender)>,
    /// What happened, for watches that begin before the present.
    log: Vec<(u64, String)>,
}

pub(crate) type Shared = Arc<Mutex<Server>>;

fn object(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "someone"}],
        },
    })
}

fn gone() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410})
}

impl Server {
    pub(crate) fn put(&mut self, name: &str, uid: &str) {
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

    pub(crate) fn delete(&mut self, name: &str) {
        self.version += 1;
        if let Some(mut object) = self.objects.remove(name) {
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.send("DELETED", &object);
        }
    }

    /// Says how far it is.
    pub(crate) fn bookmark(&mut self) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"resourceVersion": self.version.to_string()}});
        self.send("BOOKMARK", &object);
    }

    /// Sends a line to every watch, in whatever order versions come.
    pub(crate) fn send(&mut self, kind: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": kind, "object": object}));
        let version = object["metadata"]["resourceVersion"].as_str();
        let version: u64 = version.map_or(u64::MAX, |text| text.parse().unwrap());
        if kind != "BOOKMARK" {
            self.log.push((version, line.clone()));
        }
        if !matches!(self.watches, Watches::Work | Watches::One) {
            return;
        }
        self.open.retain(|(from, watch)| {
            // A watch that began beyond the present hears nothing before that is reached.
            version < *from || watch.send(Ok(Bytes::from(line.clone()))).is_ok()
        });
        if self.watches == Watches::One {
            self.open.clear();
        }
    }

    /// Sends a line that no order of versions holds back.
    pub(crate) fn send_raw(&mut self, kind: &str, name: &str, uid: &str, version: u64) {
        let line = json!({"type": kind, "object": object(name, uid, version)});
        for (_, watch) in &self.open {
            let _ = watch.send(Ok(Bytes::from(format!("{line}\n"))));
        }
    }

    /// Tells all open watches that their version is forgotten.
    pub(crate) fn forget(&mut self) {
        let line = json!({"type": "ERROR", "object": gone()});
        for (_, watch) in self.open.drain(..) {
            let _ = watch.send(Ok(Bytes::from(format!("{line}\n"))));
        }
        self.floor = self.version;
    }

    /// Ends all open watches, and treats new ones so.
    pub(crate) fn go(&mut self, watches: Watches) {
        self.open.clear();
        self.watches = watches;
        self.floor = self.version;
    }

    /// Lists that were begun, and pages that were served.
    pub(crate) fn asked(&self) -> (usize, usize) {
        (self.lists, self.pages)
    }

    pub(crate) fn is_watched(&self) -> bool {
        !self.open.is_empty()
    }

    /// What a list would say now.
    pub(crate) fn snapshot(&self) -> (u64, Objects) {
        (self.version, self.objects.clone())
    }

    /// The database is put back to an older copy, and the server begins anew with it.
    pub(crate) fn restore(&mut self, (version, objects): (u64, Objects)) {
        self.open.clear();
        (self.version, self.objects, self.floor) = (version, objects, 0);
        self.log.retain(|(then, _)| *then <= version);
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
    let number = |name: &str| query.get(name).and_then(|text| text.parse::<u64>().ok());
    if query
        .get("watch")
        .is_some_and(|watch| watch == "true" || watch == "1")
    {
        let from = number("resourceVersion");
        if server.watches == Watches::Gone || from.is_some_and(|from| from < server.floor) {
            return (StatusCode::GONE, axum::Json(gone())).into_response();
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        if server.watches == Watches::Break {
            let failed = json!({"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1",
                "metadata": {}, "status": "Failure", "message": "broken", "code": 500}});
            let _ = sender.send(Ok(Bytes::from(format!("{failed}\n"))));
            return stream(receiver, 1);
        }
        if server.watches == Watches::Repeat {
            let known = json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1",
                "metadata": {"resourceVersion": server.version.to_string()}}});
            let _ = sender.send(Ok(Bytes::from(format!("{known}\n"))));
            return stream(receiver, 1);
        }
        let from = from.unwrap_or_default();
        let missed = server.log.iter().filter(|(then, _)| *then > from);
        let mut missed = missed.map(|(_, line)| Ok(Bytes::from(line.clone())));
        match server.watches {
            Watches::Work => missed.for_each(|line| drop(sender.send(line))),
            Watches::One => {
                if let Some(line) = missed.next() {
                    let _ = sender.send(line);
                    return stream(receiver, 1);
                }
            }
            _ => {}
        }
        server.open.push((from, sender));
        return stream(receiver, number("timeoutSeconds").unwrap_or(3600));
    }
    let begin: usize = match query.get("continue") {
        Some(_) if server.expires => {
            return (StatusCode::GONE, axum::Json(gone())).into_response();
        }
        Some(token) => token.parse().unwrap(),
        None if server.no_whole && number("limit").is_none() => {
            server.refused += 1;
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        None => {
            server.lists += 1;
            0
        }
    };
    server.pages += 1;
    let (version, objects) = match &server.cache {
        Some((version, objects)) => (*version, objects),
        None => (server.version, &server.objects),
    };
    let most = number("limit").map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
    let end = begin.saturating_add(most).min(objects.len());
    let token = (end < objects.len()).then(|| end.to_string());
    let list = json!({
        "apiVersion": "v1", "kind": "ConfigMapList",
        "metadata": {"resourceVersion": version.to_string(), "continue": token},
        "items": objects.values().skip(begin).take(end - begin).collect::<Vec<_>>(),
    });
    axum::Json(list).into_response()
}

/// What a watch sends, for so many seconds.
fn stream(
    receiver: mpsc::UnboundedReceiver<Result<Bytes, std::io::Error>>,
    seconds: u64,
) -> Response {
    let ends = tokio::time::Instant::now() + Duration::from_secs(seconds);
    let stream = futures::stream::unfold(receiver, move |mut receiver| async move {
        let next = tokio::time::timeout_at(ends, receiver.recv()).await;
        next.ok().flatten().map(|item| (item, receiver))
    });
    Body::from_stream(stream).into_response()
}

pub(crate) struct Harness {
    shared: Shared,
    changes: mpsc::UnboundedReceiver<String>,
    pub(crate) watch: Watch<ConfigMap>,
}

impl Harness {
    pub(crate) async fn start(names: &[(&str, &str)], watches: Watches, config: Config) -> Self {
        let shared = Arc::new(Mutex::new(Server {
            objects: BTreeMap::new(),
            version: 10,
            watches,
            floor: 0,
            lists: 0,
            pages: 0,
            cache: None,
            expires: false,
            no_whole: false,
            refused: 0,
            open: Vec::new(),
            log: Vec::new(),
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

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.shared.lock().unwrap()
    }

    pub(crate) async fn next(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.changes.recv())
            .await
            .expect("no change came")
            .unwrap()
    }

    /// The next changes up to and without a `=`, sorted.
    pub(crate) async fn until_synced(&mut self) -> Vec<String> {
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

    /// The next changes that a list brings which brings any, sorted.
    pub(crate) async fn differences(&mut self) -> Vec<String> {
        loop {
            let changes = self.until_synced().await;
            if !changes.is_empty() {
                return changes;
            }
        }
    }

    /// Waits for something that the server or the watch tells.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let check = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, check)
            .await
            .unwrap_or_else(|_| panic!("never came: {what}"));
    }

    pub(crate) async fn watched(&self) {
        self.until("a watch", |h| h.server().is_watched()).await;
    }

    pub(crate) fn names(&self) -> Vec<String> {
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
