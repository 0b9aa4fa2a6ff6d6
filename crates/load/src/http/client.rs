//! One keep-alive HTTP/1.1 connection, replaced whenever the server ends it.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::{Request, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::run::Run;
use super::{Answer, HttpLoad};
use crate::FailureKind;
use crate::dial::{Counted, Endpoint};
use crate::outcome::Try;
use crate::recorder::Failure;

/// Bytes of a body that are kept for the check and the label.
const MAX_KEPT: usize = 64 * 1024;

/// A try that brought no whole answer.
#[derive(Debug)]
pub(super) struct Failed {
    kind: FailureKind,
    detail: String,
    reused: bool,
    sent: bool,
    answered: bool,
    took: Duration,
}

impl Failed {
    /// Before anything could be sent.
    fn early(kind: FailureKind, detail: String) -> Self {
        Self {
            kind,
            detail,
            reused: false,
            sent: false,
            answered: false,
            took: Duration::ZERO,
        }
    }

    pub(super) fn as_try(&self) -> Try {
        Try {
            kind: self.kind,
            reused: self.reused,
            sent: self.sent,
            answered: self.answered,
            took: self.took,
        }
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        Self {
            kind: failed.kind,
            detail: failed.detail,
        }
    }
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Bytes read from the socket so far.
    read: Arc<AtomicU64>,
    used: bool,
    _driver: AbortOnDropHandle<()>,
}

/// A place for one connection.
pub(super) struct Client {
    endpoint: Endpoint,
    connect_timeout: Duration,
    connection: Option<Connection>,
    reused: bool,
}

impl Client {
    pub(super) fn new(load: &HttpLoad) -> Self {
        Self {
            endpoint: load.endpoint.clone(),
            connect_timeout: load.connect_timeout,
            connection: None,
            reused: false,
        }
    }

    /// The last try went over a connection that had carried a request before.
    pub(super) const fn was_reused(&self) -> bool {
        self.reused
    }

    /// Sends the run's request and reads the whole answer. The connection is kept only if
    /// that went well and the server keeps it, too.
    pub(super) async fn ask(&mut self, run: &Run, deadline: Instant) -> Result<Answer, Failed> {
        let (mut connection, reused) = match self.idle(deadline).await {
            Some(connection) => (connection, true),
            None => (self.connect(deadline).await?, false),
        };
        if !reused {
            run.tally
                .with_recorder(crate::recorder::Recorder::connection_opened);
        }
        self.reused = reused;
        let answer = exchange(&mut connection, run.request.clone(), deadline).await?;
        connection.used = true;
        self.connection = Some(connection);
        Ok(answer)
    }

    /// The kept connection, unless the server is known to have closed it.
    async fn idle(&mut self, deadline: Instant) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        timeout_at(deadline, connection.sender.ready())
            .await
            .ok()?
            .ok()?;
        Some(connection)
    }

    async fn connect(&self, deadline: Instant) -> Result<Connection, Failed> {
        let limit = deadline.min(Instant::now() + self.connect_timeout);
        let connecting = async {
            let stream = self.endpoint.connect().await.map_err(|e| e.to_string())?;
            let (stream, read) = Counted::new(stream);
            let (sender, driver) = http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|e| e.to_string())?;
            // The driver's error also reaches the request that it was for.
            let driver = AbortOnDropHandle::new(tokio::spawn(async move {
                let _ = driver.await;
            }));
            Ok::<_, String>(Connection {
                sender,
                read,
                used: false,
                _driver: driver,
            })
        };
        match timeout_at(limit, connecting).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(message)) => Err(Failed::early(
                FailureKind::Connect,
                format!("connecting to {}: {message}", self.endpoint),
            )),
            Err(_) => Err(Failed::early(
                FailureKind::Connect,
                format!(
                    "connecting to {} took longer than {:?}",
                    self.endpoint, self.connect_timeout
                ),
            )),
        }
    }
}

/// One request and its answer.
async fn exchange(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
    deadline: Instant,
) -> Result<Answer, Failed> {
    let began = Instant::now();
    let read_before = connection.read.load(Ordering::Relaxed);
    let reused = connection.used;
    let read = Arc::clone(&connection.read);
    let failed = |kind, sent, detail| Failed {
        kind,
        detail,
        reused,
        sent,
        answered: read.load(Ordering::Relaxed) > read_before,
        took: began.elapsed(),
    };
    let response = match timeout_at(deadline, connection.sender.try_send_request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(mut error)) => {
            // The library hands the request back only when nothing of it was written.
            let sent = error.take_message().is_none();
            let error = error.into_error();
            let kind = if error.is_parse() {
                FailureKind::Protocol
            } else {
                FailureKind::ResetBeforeHead
            };
            return Err(failed(kind, sent, describe(&error)));
        }
        Err(_) => {
            let detail = format!("no head of an answer after {:?}", began.elapsed());
            return Err(failed(FailureKind::Timeout, true, detail));
        }
    };
    let status = response.status();
    match timeout_at(deadline, whole(response)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let kind = if error.is_parse() {
                FailureKind::Protocol
            } else {
                FailureKind::ResetInBody
            };
            Err(failed(
                kind,
                true,
                format!("in the body of a {status}: {}", describe(&error)),
            ))
        }
        Err(_) => {
            let detail = format!("body of a {status} incomplete after {:?}", began.elapsed());
            Err(failed(FailureKind::Timeout, true, detail))
        }
    }
}

async fn whole(response: Response<Incoming>) -> Result<Answer, hyper::Error> {
    let (head, mut body) = response.into_parts();
    let mut kept = BytesMut::new();
    let mut body_bytes = 0_u64;
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            body_bytes += data.len() as u64;
            let room = MAX_KEPT - kept.len();
            kept.extend_from_slice(data.get(..room).unwrap_or(data));
        }
    }
    Ok(Answer {
        status: head.status,
        headers: head.headers,
        body: kept.freeze(),
        body_bytes,
    })
}

/// An error with what caused it.
fn describe(error: &hyper::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
