//! The people who use a workspace meanwhile: some with a shell open, some with another socket, all
//! typing.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::{join_all, try_join_all};
use nogoo9_load::{
    ClosedBy, EchoClient, EchoReport, OpenSocket, Phases, ShellClient, SocketOptions,
};
use reqwest::Url;

/// Lines that each types a second.
const LINES_PER_SECOND: f64 = 10.0;
/// Lines that must come back over an old socket after the new pod has taken over.
const PROOF: u64 = 5;
/// Longest wait for those, or for a shell to say where it is.
const BOUND: Duration = Duration::from_secs(30);
/// Longest wait for a pod that is replaced to end, and for its successor to take a socket: over
/// the proxy's longest hold.
const RETURN_BOUND: Duration = Duration::from_secs(150);
/// How long a close may take to be answered.
const CLOSE_BOUND: Duration = Duration::from_secs(5);
/// Codes by which a server says "come back": RFC 6455, section 7.4, and 1012 of its registry.
const COME_BACK: [u16; 2] = [1001, 1012];

/// How a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// By its user, and everything that was typed had come back.
    Kept,
    /// By the server, which asked to come back.
    SentBack,
    /// Otherwise.
    Broken,
}

/// A socket that was closed.
pub(super) struct Closed {
    /// The phase in which it was opened.
    pub(super) opened_in: &'static str,
    pub(super) fate: Fate,
    pub(super) report: EchoReport,
}

/// The sockets that are open at one time.
pub(super) struct Users {
    phases: Phases,
    address: Url,
    token: String,
    count: usize,
    open: Vec<OpenSocket>,
    /// The phase in which the open ones were opened.
    opened_in: &'static str,
    pub(super) closed: Vec<Closed>,
}

impl Users {
    pub(super) const fn new(phases: Phases, address: Url, token: String, count: usize) -> Self {
        Self {
            phases,
            address,
            token,
            count,
            open: Vec::new(),
            opened_in: "",
            closed: Vec::new(),
        }
    }

    /// How many sockets are open.
    pub(super) const fn open_now(&self) -> usize {
        self.open.len()
    }

    /// Opens everybody's sockets, and checks that the shells are on `pod`.
    pub(super) async fn open(
        &mut self,
        phase: &'static str,
        pod: &str,
        problems: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let sockets = (0..self.count).map(|number| self.open_one(number % 2 == 0));
        let opened = try_join_all(sockets).await?;
        self.open = opened;
        self.opened_in = phase;
        for socket in self
            .open
            .iter()
            .filter(|socket| socket.snapshot().kind == "shell")
        {
            match socket.wait_pod(BOUND).await {
                Ok(on) if on == pod => {}
                Ok(on) => problems.push(format!("a new shell is on {on} instead of {pod}")),
                Err(error) => problems.push(format!("a new shell on {pod}: {error}")),
            }
        }
        Ok(())
    }

    async fn open_one(&self, shell: bool) -> anyhow::Result<OpenSocket> {
        let url = self.address.join(if shell { "shell" } else { "echo" })?;
        let options = SocketOptions::new(&url)?
            .header("Authorization", &format!("Bearer {}", self.token))?
            .timeouts(RETURN_BOUND, BOUND, CLOSE_BOUND)
            .rate(LINES_PER_SECOND)?;
        let opened = if shell {
            ShellClient::open(options, 100, 30, &self.phases).await
        } else {
            EchoClient::open(options, &self.phases).await
        };
        opened.with_context(|| format!("a socket at {url} cannot be opened"))
    }

    /// Everybody types on for a while and then closes: nothing may be missing, and nobody
    /// else may have closed.
    pub(super) async fn close(&mut self, problems: &mut Vec<String>) {
        let proofs = self
            .open
            .iter()
            .map(|socket| socket.wait_echoed(socket.echoed() + PROOF, BOUND));
        for error in join_all(proofs).await.into_iter().filter_map(Result::err) {
            problems.push(format!("an open socket no longer answers: {error}"));
        }
        for (fate, report) in self.finish().await {
            if fate != Fate::Kept {
                problems.push(described(&report, "was not kept"));
            }
            self.note(fate, report);
        }
    }

    /// Their pod is about to be replaced: everybody types until the server ends the socket, and
    /// comes back at once, to `pod`.
    pub(super) async fn come_back(
        &mut self,
        phase: &'static str,
        pod: &str,
        problems: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        let ends = self
            .open
            .iter()
            .map(|socket| socket.wait_closed(RETURN_BOUND));
        for ended in join_all(ends).await {
            if let Err(error) = ended {
                bail!("a socket outlives its pod: {error}");
            }
        }
        for (fate, report) in self.finish().await {
            if fate != Fate::SentBack {
                problems.push(described(&report, "was not asked to come back"));
            }
            self.note(fate, report);
        }
        self.open(phase, pod, problems).await
    }

    async fn finish(&mut self) -> Vec<(Fate, EchoReport)> {
        let reports = join_all(self.open.drain(..).map(OpenSocket::finish)).await;
        reports
            .into_iter()
            .map(|report| (fate(&report), report))
            .collect()
    }

    fn note(&mut self, fate: Fate, report: EchoReport) {
        self.closed.push(Closed {
            opened_in: self.opened_in,
            fate,
            report,
        });
    }
}

fn fate(report: &EchoReport) -> Fate {
    let close = report.close.as_ref();
    if report.kept() {
        Fate::Kept
    } else if report.error.is_none()
        && close
            .is_some_and(|close| close.by == ClosedBy::Server && COME_BACK.contains(&close.code))
    {
        Fate::SentBack
    } else {
        Fate::Broken
    }
}

fn described(report: &EchoReport, what: &str) -> String {
    let pod = report.pod.as_deref().unwrap_or("an unknown pod");
    format!(
        "a socket ({}) on {pod} {what}: {} lost, {} out of order, {} twice, {} foreign of {} lines; {}",
        report.kind,
        report.lost,
        report.reordered,
        report.duplicated,
        report.foreign,
        report.sent,
        report.ending(),
    )
}
