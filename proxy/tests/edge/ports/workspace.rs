//! A workspace with extra ports, and what people ask of them.

use crate::client::{Answer, Connection, own, request};
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::sockets::{opening, text};
use crate::upstream::Upstream;

pub(super) const DEV: &str = "dev.localhost:9009";
pub(super) const WEB: &str = "web--dev.localhost:9009";

/// A workspace that is served, with its application at the main port and another at its extra port
/// `web`.
pub(super) struct Workspace {
    pub(super) stage: Stage,
    pub(super) app: Upstream,
    pub(super) web: Upstream,
}

impl Workspace {
    /// Of that owner; and what more its pod's annotations say.
    pub(super) async fn start(owner: &str, annotations: &[(&str, &str)]) -> Self {
        let stage = Stage::start().await;
        let (app, web) = (Upstream::start("app").await, Upstream::start("web").await);
        let pod = Spec::new("app", "dev", 1, app.address).of(owner);
        run(&stage, pod.with(annotations), &[("web", &web)]).await;
        Self { stage, app, web }
    }
}

/// Creates a pod with extra ports, by their names and what serves there; it is not ready.
pub(super) async fn create(stage: &Stage, pod: &Spec<'_>, ports: &[(&str, &Upstream)]) -> String {
    let ports = ports.iter().map(|(name, server)| {
        let port = server.address.port();
        (format!("api.{name}.port"), port.to_string())
    });
    let ports: Vec<(String, String)> = ports.collect();
    let ports = ports
        .iter()
        .map(|(key, port)| (key.as_str(), port.as_str()));
    let annotations: Vec<(&str, &str)> = ports.chain(pod.annotations.iter().copied()).collect();
    let pod = Spec {
        annotations: &annotations,
        ..*pod
    };
    stage.cluster.create(&pod).await
}

/// The same, once the proxy routes to it.
pub(super) async fn run(stage: &Stage, pod: Spec<'_>, ports: &[(&str, &Upstream)]) {
    let uid = create(stage, &pod, ports).await;
    stage.cluster.set_ready(&pod, true).await;
    stage.routed(pod.workspace, Some(&uid)).await;
}

/// A request of a user's browser from a page of that very host.
pub(super) async fn ask(stage: &Stage, user: &str, method: &str, host: &str, path: &str) -> Answer {
    let cookie = stage.cookie_on(user, host);
    let headers = own(&cookie);
    stage.ask(method, host, path, &headers).await
}

pub(super) async fn get(stage: &Stage, host: &str, path: &str) -> Answer {
    ask(stage, "alice", "GET", host, path).await
}

/// A request of a user's browser from a page of that very host, whose answer is left to be read.
pub(super) async fn begin(stage: &Stage, user: &str, host: &str, path: &str) -> Connection {
    let cookie = stage.cookie_on(user, host);
    let headers = own(&cookie);
    let mut connection = Connection::open(stage.address).await;
    connection.send(request("GET", host, path, &headers)).await;
    connection
}

/// An open stream of events of a user on the port's own host, of which the first has come.
pub(super) async fn events(stage: &Stage, user: &str) -> Connection {
    let mut events = begin(stage, user, WEB, "/events").await;
    assert_eq!(events.head().await.status, 200);
    assert_eq!(events.chunk().await, b"data: one\n\n");
    events
}

/// A visit of alice's, who is signed in on that host.
pub(super) async fn visit(
    stage: &Stage,
    host: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let cookie = stage.cookie_on("alice", host);
    let mut headers = headers.to_vec();
    headers.push(("Cookie", &cookie));
    stage.ask("GET", host, path, &headers).await
}

/// The application's name and the request line that it got.
pub(super) fn seen(answer: &Answer) -> (String, String) {
    let text = answer.text();
    let mut lines = text.lines().map(ToOwned::to_owned);
    (
        lines.next().unwrap_or_default(),
        lines.next().unwrap_or_default(),
    )
}

/// A socket of a user on a host, which has heard the application's name.
pub(super) async fn socket(
    stage: &Stage,
    user: &str,
    host: &str,
    path: &str,
    name: &str,
) -> Connection {
    let cookie = stage.cookie_on(user, host);
    let mut socket = Connection::open(stage.address).await;
    let handshake = opening(&cookie, host).replacen("/socket", path, 1);
    socket.send(handshake).await;
    assert_eq!(socket.head().await.status, 101, "{host}{path}");
    assert_eq!(text(&mut socket).await, name);
    socket
}
