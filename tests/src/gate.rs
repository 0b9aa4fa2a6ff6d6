//! A gate between one control and the API server: every call passes through it, and at a call that
//! it is told, control dies, before the call was made or after it was and its reply is lost.

use crate::Process;
use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use nix::sys::signal::Signal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How often a killed process is looked for.
const LOOK: Duration = Duration::from_millis(1);
/// Longer than any watch is silent.
const SILENCE: Duration = Duration::from_secs(90);

/// One call of control to the API server.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Its path and query, as they were sent.
    pub target: String,
    /// Its body.
    pub body: Bytes,
}

/// What is done about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is passed on, and so is its reply.
    Pass,
    /// Control dies before the call takes effect.
    KillBefore,
    /// The call takes effect, and control dies before the reply reaches it.
    KillAfter,
}

/// Judges every call, in the order in which they arrive.
pub type Judge = Arc<dyn Fn(&Call) -> Verdict + Send + Sync>;

/// A running gate. It ends with this value.
pub(crate) struct Gate {
    address: SocketAddr,
    inner: Arc<Inner>,
    accepting: JoinHandle<()>,
}

struct Inner {
    api: Client,
    judge: Judge,
    /// Whom to kill; 0 is nobody.
    pid: AtomicI32,
}

/// The call's connection is cut.
#[derive(Debug)]
enum Cut {
    Killed,
    Body(hyper::Error),
    Api(kube::Error),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Killed => f.write_str("control was killed"),
            Self::Body(error) => error.fmt(f),
            Self::Api(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Cut {}

impl Gate {
    /// A gate to the API server of this kubeconfig, with the rights that it gives.
    pub(crate) async fn open(kubeconfig: &Path, judge: Judge) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).context("kubeconfig of control")?;
        let mut config =
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(SILENCE);
        // What is repeated, and what is not, is for control to decide.
        config.default_retry = false;
        let inner = Arc::new(Inner {
            api: Client::try_from(config)?,
            judge,
            pid: AtomicI32::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            accepting: tokio::spawn(accept(listener, Arc::clone(&inner))),
            inner,
        })
    }

    /// A kubeconfig that leads through the gate. It holds no secret: the gate has its own.
    pub(crate) fn kubeconfig(&self) -> String {
        let server = format!("http://{}", self.address);
        serde_json::json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "gate",
            "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "gate"}}],
            "clusters": [{"name": "gate", "cluster": {"server": server}}],
            "users": [{"name": "gate", "user": {}}],
        })
        .to_string()
    }

    /// Who calls from now on.
    pub(crate) fn belongs_to(&self, pid: i32) {
        self.inner.pid.store(pid, Ordering::Release);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, inner: Arc<Inner>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&inner)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, inner: Arc<Inner>) {
    let _nodelay = stream.set_nodelay(true);
    let service = service_fn(move |request| pass(Arc::clone(&inner), request));
    // It ends when control does, or with a call at which it is killed.
    let _ended = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn pass(inner: Arc<Inner>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(Cut::Body)?.to_bytes();
    let target = head
        .uri
        .path_and_query()
        .map_or_else(String::new, ToString::to_string);
    let call = Call {
        method: head.method,
        target,
        body,
    };
    let verdict = (inner.judge)(&call);
    if verdict == Verdict::KillBefore {
        inner.kill().await;
        return Err(Cut::Killed);
    }
    let mut onward = Request::new(Body::from(call.body.to_vec()));
    *onward.method_mut() = call.method;
    *onward.uri_mut() = head.uri;
    *onward.headers_mut() = head.headers;
    // Each connection has its own of these.
    for name in [header::HOST, header::CONNECTION, header::AUTHORIZATION] {
        onward.headers_mut().remove(name);
    }
    let reply = inner.api.send(onward).await.map_err(Cut::Api)?;
    if verdict == Verdict::KillAfter {
        inner.kill().await;
        return Err(Cut::Killed);
    }
    Ok(reply)
}

impl Inner {
    /// Returns once nothing of it can reach the API server any more.
    async fn kill(&self) {
        let pid = self.pid.load(Ordering::Acquire);
        let Some(process) = (pid != 0).then(|| Process::of(pid)).flatten() else {
            return;
        };
        // It may have ended by itself; all the same it is gone then.
        let _gone = process.signal(Signal::SIGKILL);
        while process.runs() {
            tokio::time::sleep(LOOK).await;
        }
    }
}
