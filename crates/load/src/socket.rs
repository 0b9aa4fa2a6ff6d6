//! WebSockets as users hold them: opened once, typed into steadily, expected to give
//! back every line once and in order until somebody closes them.

pub(crate) mod connect;
pub(crate) mod dialect;
pub(crate) mod drive;
pub(crate) mod echo;
pub(crate) mod report;
pub(crate) mod shell;
mod state;

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use crate::dial::Endpoint;
use crate::http::header;
use crate::{EchoReport, LoadError, Phases, Schedule, SocketError, WaitError};
use dialect::Dialect;
use state::{Live, State};

/// How one socket is opened and used.
#[derive(Clone)]
pub struct SocketOptions {
    endpoint: Endpoint,
    url: Url,
    headers: HeaderMap,
    schedule: Schedule,
    pod_header: Option<String>,
    open_timeout: Duration,
    answer_timeout: Duration,
    close_timeout: Duration,
}

impl SocketOptions {
    /// A socket at `target` (`ws://…` or `http://…`), 10 lines a second; 10 s to open it,
    /// 30 s for a line to come back, 5 s for a close to be answered.
    ///
    /// # Errors
    /// [`LoadError::Target`] unless `target` is a plain-text URL with a host.
    pub fn new(target: &Url) -> Result<Self, LoadError> {
        Ok(Self {
            endpoint: Endpoint::of(target)?,
            url: target.clone(),
            headers: HeaderMap::new(),
            schedule: Schedule::open(10.0)?,
            pod_header: None,
            open_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
        })
    }

    /// Sends this header with the handshake; `Host` replaces the one of the target.
    ///
    /// # Errors
    /// [`LoadError::Header`] if HTTP does not allow the name or the value.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, LoadError> {
        let (name, value) = header(name, value)?;
        self.headers.append(name, value);
        Ok(self)
    }

    /// Types this many lines a second.
    ///
    /// # Errors
    /// [`LoadError::Rate`] if that is no usable rate.
    pub fn rate(mut self, lines_per_second: f64) -> Result<Self, LoadError> {
        self.schedule = Schedule::open(lines_per_second)?;
        Ok(self)
    }

    /// The header of the handshake's answer that names the pod.
    #[must_use]
    pub fn pod_header(mut self, name: &str) -> Self {
        self.pod_header = Some(name.to_owned());
        self
    }

    /// How long opening may take, a line may take to come back, and a close to be answered.
    #[must_use]
    pub const fn timeouts(mut self, open: Duration, answer: Duration, close: Duration) -> Self {
        self.open_timeout = open;
        self.answer_timeout = answer;
        self.close_timeout = close;
        self
    }

    async fn open(self, dialect: impl Dialect, phases: &Phases) -> Result<OpenSocket, SocketError> {
        let opened = connect::open(&self).await?;
        let state = Arc::new(State::new(phases, dialect.kind(), opened.pod)?);
        let stop = CancellationToken::new();
        let task = drive::drive(
            opened.stream,
            dialect,
            self,
            Arc::clone(&state),
            stop.clone(),
        );
        Ok(OpenSocket {
            live: state.subscribe(),
            state,
            stop,
            task: AbortOnDropHandle::new(tokio::spawn(task)),
        })
    }
}

impl std::fmt::Debug for SocketOptions {
    /// Without header values and the URL's query: they carry credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketOptions")
            .field("endpoint", &self.endpoint.to_string())
            .field("schedule", &self.schedule)
            .finish_non_exhaustive()
    }
}

/// An open socket that is being typed into. Dropping it cuts the connection.
#[derive(Debug)]
pub struct OpenSocket {
    state: Arc<State>,
    live: watch::Receiver<Live>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl OpenSocket {
    /// The pod it is on, once known.
    #[must_use]
    pub fn pod(&self) -> Option<String> {
        self.live.borrow().pod.clone()
    }

    /// Neither side has closed it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.live.borrow().open
    }

    /// Lines that have come back so far.
    #[must_use]
    pub fn echoed(&self) -> u64 {
        self.live.borrow().echoed
    }

    /// What it has seen so far. Lines under way count as lost until they come back.
    #[must_use]
    pub fn snapshot(&self) -> EchoReport {
        self.state.report()
    }

    /// Returns the pod's name as soon as it is known.
    ///
    /// # Errors
    /// [`WaitError`] if it is not known `within` that time, or the socket ends without.
    pub async fn wait_pod(&self, within: Duration) -> Result<String, WaitError> {
        let live = self
            .wait("the pod's name", within, |live| {
                live.pod.is_some() || !live.open
            })
            .await?;
        live.pod
            .ok_or_else(|| self.timed_out("the pod's name", within))
    }

    /// Returns once `lines` lines have come back since the socket was opened.
    ///
    /// # Errors
    /// [`WaitError`] if they have not `within` that time, or the socket ends before.
    pub async fn wait_echoed(&self, lines: u64, within: Duration) -> Result<(), WaitError> {
        let what = format!("{lines} lines");
        let live = self
            .wait(&what, within, |live| live.echoed >= lines || !live.open)
            .await?;
        if live.echoed >= lines {
            Ok(())
        } else {
            Err(self.timed_out(&what, within))
        }
    }

    /// Returns once the socket is closed, by whomever.
    ///
    /// # Errors
    /// [`WaitError`] if it is still open after that time.
    pub async fn wait_closed(&self, within: Duration) -> Result<(), WaitError> {
        self.wait("the socket to close", within, |live| !live.open)
            .await
            .map(drop)
    }

    /// Stops typing, waits for the lines under way, closes with code 1000 and reports.
    /// If the server has closed already, reports at once.
    pub async fn finish(mut self) -> EchoReport {
        self.stop.cancel();
        // Ends within the answer and close timeouts; a panic of the task shows as a
        // report without a close.
        let _ = (&mut self.task).await;
        self.state.report()
    }

    async fn wait(
        &self,
        what: &str,
        within: Duration,
        condition: impl FnMut(&Live) -> bool,
    ) -> Result<Live, WaitError> {
        let mut live = self.live.clone();
        match tokio::time::timeout(within, live.wait_for(condition)).await {
            Ok(Ok(live)) => Ok(live.clone()),
            _ => Err(self.timed_out(what, within)),
        }
    }

    fn timed_out(&self, what: &str, waited: Duration) -> WaitError {
        let report = self.state.report();
        let at = format!(
            "{} of {} lines back, {}",
            report.echoed,
            report.sent,
            report.ending()
        );
        WaitError {
            what: what.to_owned(),
            waited,
            at,
        }
    }
}
