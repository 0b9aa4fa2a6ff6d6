//! What one socket saw, and what many did.

use serde::{Deserialize, Serialize};

use crate::LatencySummary;

/// Which side ended a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClosedBy {
    /// This client, after it had stopped typing.
    Client,
    /// The other side.
    Server,
}

/// A close frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Close {
    /// Who closed first.
    pub by: ClosedBy,
    /// The code, RFC 6455, section 7.4; 1005: the frame had none.
    pub code: u16,
    /// The reason given.
    pub reason: String,
}

/// Everything one socket saw. Moments are microseconds on the clock of its `Phases`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EchoReport {
    /// `echo` or `shell`.
    pub kind: String,
    /// The pod it was on, if that became known.
    pub pod: Option<String>,
    /// When it was opened.
    pub opened_us: u64,
    /// When it ended; none: it is open.
    pub closed_us: Option<u64>,
    /// Lines typed.
    pub sent: u64,
    /// Lines that came back, each counted once.
    pub echoed: u64,
    /// Lines that did not come back.
    pub lost: u64,
    /// Lines that came back after one typed later.
    pub reordered: u64,
    /// Lines that came back more than once.
    pub duplicated: u64,
    /// Arrivals that this socket never typed, or that were changed on the way.
    pub foreign: u64,
    /// The first of those.
    pub foreign_sample: Option<String>,
    /// From typing a line to its return.
    pub round_trip: LatencySummary,
    /// The longest time between two lines coming back, in microseconds.
    pub longest_gap_us: u64,
    /// When that gap ended.
    pub longest_gap_at_us: u64,
    /// The close frame received, or the client's own if the server answered none.
    pub close: Option<Close>,
    /// Why it ended without a clean close: a reset, a deadline, a protocol error.
    pub error: Option<String>,
}

impl EchoReport {
    /// All that was typed came back, once, in order, unchanged.
    #[must_use]
    pub const fn intact(&self) -> bool {
        self.lost == 0 && self.reordered == 0 && self.duplicated == 0 && self.foreign == 0
    }

    /// Intact, and nobody but this client ended it.
    #[must_use]
    pub fn kept(&self) -> bool {
        let by_us = self
            .close
            .as_ref()
            .is_none_or(|close| close.by == ClosedBy::Client);
        self.intact() && self.error.is_none() && by_us
    }

    /// How it ended, in words.
    #[must_use]
    pub fn ending(&self) -> String {
        match (&self.error, &self.close) {
            (Some(error), _) => error.clone(),
            (None, Some(close)) => {
                let by = match close.by {
                    ClosedBy::Client => "client",
                    ClosedBy::Server => "server",
                };
                format!("closed by the {by} with {} {:?}", close.code, close.reason)
            }
            (None, None) if self.closed_us.is_some() => "ended without a close frame".to_owned(),
            (None, None) => "open".to_owned(),
        }
    }
}

/// Sums over many sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SocketTotals {
    /// Sockets that were opened.
    pub opened: u64,
    /// Those that were [kept](EchoReport::kept).
    pub kept: u64,
    /// Lines typed.
    pub sent: u64,
    /// Lines that did not come back.
    pub lost: u64,
    /// Lines that came back out of order.
    pub reordered: u64,
    /// Lines that came back more than once.
    pub duplicated: u64,
    /// Arrivals never typed.
    pub foreign: u64,
    /// The longest gap of any, in microseconds.
    pub longest_gap_us: u64,
}

impl SocketTotals {
    /// Adds one socket.
    pub fn add(&mut self, report: &EchoReport) {
        self.opened += 1;
        self.kept += u64::from(report.kept());
        self.sent += report.sent;
        self.lost += report.lost;
        self.reordered += report.reordered;
        self.duplicated += report.duplicated;
        self.foreign += report.foreign;
        self.longest_gap_us = self.longest_gap_us.max(report.longest_gap_us);
    }
}

impl<'a> FromIterator<&'a EchoReport> for SocketTotals {
    fn from_iter<I: IntoIterator<Item = &'a EchoReport>>(reports: I) -> Self {
        let mut totals = Self::default();
        for report in reports {
            totals.add(report);
        }
        totals
    }
}
