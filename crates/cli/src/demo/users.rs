//! The people who use the workspace meanwhile: some with a shell open, some with another
//! socket, all typing.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::{join_all, try_join_all};
use nogoo9_load::{EchoClient, EchoReport, OpenSocket, Phases, ShellClient, SocketOptions};
use reqwest::Url;

/// Lines that each types a second.
const LINES_PER_SECOND: f64 = 10.0;
/// Lines that must come back over an old socket after the new pod has taken over.
const PROOF: u64 = 5;
/// Longest wait for those, or for a shell to say where it is.
const BOUND: Duration = Duration::from_secs(30);

/// The sockets that are open at one time.
pub(super) struct Users<'a> {
    phases: &'a Phases,
    address: Url,
    token: &'a str,
    count: u16,
    open: Vec<OpenSocket>,
    /// The phase in which the open ones were opened.
    opened_in: &'static str,
    /// Sockets that were closed, with the phase in which they were opened.
    pub(super) closed: Vec<(&'static str, EchoReport)>,
}

impl<'a> Users<'a> {
    pub(super) const fn new(phases: &'a Phases, address: Url, token: &'a str, count: u16) -> Self {
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
            .rate(LINES_PER_SECOND)?;
        let opened = if shell {
            ShellClient::open(options, 100, 30, self.phases).await
        } else {
            EchoClient::open(options, self.phases).await
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
        let reports = join_all(self.open.drain(..).map(OpenSocket::finish)).await;
        for report in reports {
            if !report.kept() {
                let pod = report.pod.as_deref().unwrap_or("an unknown pod");
                problems.push(format!(
                    "a socket ({}) on {pod} was not kept: {} lost, {} out of order, {} twice, {} foreign of {} lines; {}",
                    report.kind, report.lost, report.reordered, report.duplicated, report.foreign, report.sent,
                    report.ending(),
                ));
            }
            self.closed.push((self.opened_in, report));
        }
    }
}
