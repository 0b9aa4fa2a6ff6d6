//! Small real servers that stand for the application in a pod, and for control.

use crate::PATIENCE;
use crate::address::{Listening, Reserved};
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, WebSocketUpgrade};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use nogoo9_model::personal_token;
use nogoo9_model::renew::{self, Answer, Answers, Held, Question};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// A server that names itself and shows what it got. It runs on a runtime of its own, so that it can
/// be killed as a process is: the port closes and every connection breaks.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    slow: watch::Sender<bool>,
    told: Arc<Mutex<Told>>,
    sessions: Arc<Mutex<Sessions>>,
    serving: Mutex<Option<(Runtime, Listening)>>,
    _reserved: Reserved,
}

#[derive(Clone)]
struct Shared {
    name: Arc<str>,
    requests: Arc<AtomicUsize>,
    slow: watch::Sender<bool>,
    told: Arc<Mutex<Told>>,
    sessions: Arc<Mutex<Sessions>>,
}

/// What is said of browser sessions, where this stands for control.
#[derive(Default)]
struct Sessions {
    /// By host; of all others, that it cannot be told.
    answers: HashMap<String, Answer>,
    questions: Vec<Vec<Held>>,
    /// Whether it waits for the release.
    slowly: bool,
}

/// What is known of workspaces without pods, where this stands for control.
#[derive(Default)]
struct Told {
    answers: HashMap<String, (u16, String)>,
    questions: Vec<String>,
    /// Whom access tokens speak for; `None`: none counts.
    bearer: Option<String>,
}

impl Upstream {
    pub(crate) async fn start(name: &str) -> Self {
        Self::start_on(name, Reserved::any()).await
    }

    /// Where another one was, which was killed.
    pub(crate) async fn start_at(name: &str, address: SocketAddr) -> Self {
        Self::start_on(name, Reserved::at(address)).await
    }

    async fn start_on(name: &str, reserved: Reserved) -> Self {
        let shared = Shared {
            name: Arc::from(name),
            requests: Arc::default(),
            slow: watch::Sender::new(false),
            told: Arc::default(),
            sessions: Arc::default(),
        };
        let sessions = shared.sessions.clone();
        let (requests, slow) = (shared.requests.clone(), shared.slow.clone());
        let told = shared.told.clone();
        let router = Router::new()
            .route("/socket", get(socket))
            .route("/slow", get(wait))
            .route("/answer", any(answer))
            .route("/events", get(events))
            .route("/.nogoo9/absent/{id}", any(tell))
            .route("/.nogoo9/start/{id}", any(tell))
            .route(renew::PATH, post(renewed))
            .route(personal_token::PATH, get(proven))
            .fallback(any(echo))
            .with_state(shared);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = reserved.address;
        let bound = runtime
            .spawn(TcpListener::bind(address))
            .await
            .unwrap()
            .unwrap();
        let listening = Listening::of(&bound);
        let connections = Arc::<AtomicUsize>::default();
        let counted = bound.tap_io({
            let connections = connections.clone();
            move |_| {
                connections.fetch_add(1, Ordering::SeqCst);
            }
        });
        runtime.spawn(async move { axum::serve(counted, router).await.unwrap() });
        Self {
            address,
            requests,
            connections,
            slow,
            told,
            sessions,
            serving: Mutex::new(Some((runtime, listening))),
            _reserved: reserved,
        }
    }

    /// Has all access tokens speak for that user, or none count.
    pub(crate) fn knows_bearer(&self, user: Option<&str>) {
        self.told.lock().unwrap().bearer = user.map(ToOwned::to_owned);
    }

    /// Requests that arrived.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Says this of a workspace without pods; of all others, that they are not there.
    pub(crate) fn tells(&self, workspace: &str, status: u16, body: &serde_json::Value) {
        let answer = (status, body.to_string());
        let mut told = self.told.lock().unwrap();
        told.answers.insert(workspace.to_owned(), answer);
    }

    /// Says this of the sessions on a host.
    pub(crate) fn says(&self, host: &str, answer: Answer) {
        let mut sessions = self.sessions.lock().unwrap();
        sessions.answers.insert(host.to_owned(), answer);
    }

    /// Says it once it is released.
    pub(crate) fn says_slowly(&self) {
        self.sessions.lock().unwrap().slowly = true;
    }

    /// What was asked about sessions.
    pub(crate) fn asked(&self) -> Vec<Vec<Held>> {
        self.sessions.lock().unwrap().questions.clone()
    }

    /// What was asked about such workspaces: request line and headers as they came.
    pub(crate) fn questions(&self) -> Vec<String> {
        self.told.lock().unwrap().questions.clone()
    }

    /// Lets `/slow` answer.
    pub(crate) fn release(&self) {
        self.slow.send_replace(true);
    }

    /// Returns once the port is closed and every connection is broken.
    pub(crate) fn kill(&self) {
        if let Some((runtime, listening)) = self.serving.lock().unwrap().take() {
            listening.end();
            // On a thread of its own, since a runtime may not be waited for inside another.
            let ending = std::thread::spawn(move || runtime.shutdown_timeout(PATIENCE));
            ending.join().unwrap();
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Name, request line and headers as they came, and the body.
async fn echo(State(shared): State<Shared>, request: Request) -> String {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let (parts, body) = request.into_parts();
    let mut text = format!("{}\n{}", shared.name, head(&parts));
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    text.push_str(&format!("\n{}", String::from_utf8_lossy(&body)));
    text
}

fn head(parts: &axum::http::request::Parts) -> String {
    let mut text = format!("{} {}\n", parts.method, parts.uri);
    for (name, value) in &parts.headers {
        text.push_str(&format!(
            "{name}: {}\n",
            String::from_utf8_lossy(value.as_bytes())
        ));
    }
    text
}

/// Says what it was told to say of a workspace.
async fn tell(State(shared): State<Shared>, Path(id): Path<String>, request: Request) -> Response {
    let mut told = shared.told.lock().unwrap();
    told.questions.push(head(&request.into_parts().0));
    let (status, body) = told
        .answers
        .get(&id)
        .cloned()
        .unwrap_or((404, String::new()));
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], body).into_response()
}

/// Says whom an access token speaks for.
async fn proven(State(shared): State<Shared>) -> Response {
    let bearer = shared.told.lock().unwrap().bearer.clone();
    let Some(sub) = bearer else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let caller = serde_json::json!({"sub": sub, "roles": ["user"], "role": "user", "scopes": null});
    let proven = serde_json::json!({
        "version": personal_token::VERSION, "caller": caller, "expires": i64::from(u32::MAX),
    });
    Json(proven).into_response()
}

/// Says what it was told to say of sessions.
async fn renewed(State(shared): State<Shared>, Json(question): Json<Question>) -> Json<Answers> {
    let (slowly, answers) = {
        let mut sessions = shared.sessions.lock().unwrap();
        let answer = |held: &Held| sessions.answers.get(&held.host).cloned();
        let answers = question.sessions.iter().map(answer);
        let answers = answers.map(|one| one.unwrap_or(Answer::Unknown)).collect();
        sessions.questions.push(question.sessions);
        (sessions.slowly, answers)
    };
    if slowly {
        let mut slow = shared.slow.subscribe();
        slow.wait_for(|released| *released).await.unwrap();
    }
    Json(Answers {
        version: renew::VERSION,
        answers,
    })
}

/// Answers once it is released.
async fn wait(State(shared): State<Shared>) -> String {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let mut slow = shared.slow.subscribe();
    slow.wait_for(|released| *released).await.unwrap();
    format!("{}\n", shared.name)
}

/// One event at once, and one more when it is released.
async fn events(State(shared): State<Shared>) -> Response {
    let first = futures::stream::once(async { Ok::<_, std::io::Error>("data: one\n\n") });
    let second = futures::stream::once(async move {
        let mut slow = shared.slow.subscribe();
        slow.wait_for(|released| *released).await.unwrap();
        Ok("data: two\n\n")
    });
    let body = Body::from_stream(futures::StreamExt::chain(first, second));
    ([("content-type", "text/event-stream")], body).into_response()
}

/// Answers with the headers that the query asks for: `?name=value&name=value`.
async fn answer(request: Request) -> Response {
    let mut response = Body::from("answer").into_response();
    for pair in request.uri().query().unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap();
        let value = percent_encoding::percent_decode_str(value).collect::<Vec<u8>>();
        let name: HeaderName = name.parse().unwrap();
        if name.as_str() == "status" {
            *response.status_mut() = String::from_utf8(value)
                .unwrap()
                .parse::<u16>()
                .unwrap()
                .try_into()
                .unwrap();
        } else {
            response
                .headers_mut()
                .append(name, HeaderValue::from_bytes(&value).unwrap());
        }
    }
    response
}

/// Echoes messages; says its name first; `close` closes, `drop` breaks off.
async fn socket(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .protocols(["chat"])
        .on_upgrade(move |mut socket| async move {
            if socket.send(Message::text(&*shared.name)).await.is_err() {
                return;
            }
            while let Some(Ok(message)) = socket.recv().await {
                let reply = match &message {
                    Message::Text(text) if text.as_str() == "close" => {
                        Message::Close(Some(CloseFrame {
                            code: 4001,
                            reason: "asked".into(),
                        }))
                    }
                    Message::Text(text) if text.as_str() == "drop" => return,
                    Message::Text(_) | Message::Binary(_) => message,
                    _ => continue,
                };
                if socket.send(reply).await.is_err() {
                    return;
                }
            }
        })
}
