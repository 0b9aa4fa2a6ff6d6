//! What is counted. Labels come from closed sets: no ids, no names, no texts of errors.

pub mod accept;
mod sockets;

use crate::accept::count::{Connections, Full};
use crate::hold::Holds;
use crate::http2::Http2Metrics;
use crate::sessions::{Kind, Sessions};
use crate::table::Table;
use crate::tls::TlsMetrics;
use nogoo9_runtime::limit::Counted;
use nogoo9_watch::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric,
};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use sockets::{EndLabels, Refused, RefusedLabels, SocketEnd, Sockets};

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum By {
    /// A workspace's pod.
    Pod,
    /// Control.
    Control,
    /// The proxy itself.
    Proxy,
}

/// Class of an answer's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Class {
    /// 1xx and 2xx.
    Success,
    /// 3xx.
    Redirect,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// The client went before the answer.
    ClientGone,
}

impl Class {
    /// The class of a status code; 0 is no answer at all.
    #[must_use]
    pub fn of(status: u16) -> Self {
        match status {
            0 => Self::ClientGone,
            1..300 => Self::Success,
            300..400 => Self::Redirect,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

/// Labels of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// Who answered.
    pub by: By,
    /// With what.
    pub class: Class,
}

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum HoldEnd {
    /// A pod came.
    Served,
    /// The waiting page was shown.
    Page,
    /// The time was up.
    TimedOut,
    /// Too many were held.
    Full,
    /// The client went.
    ClientGone,
    /// The workspace became somebody else's.
    NotTheirs,
    /// The proxy stopped.
    Stopping,
    /// Control said that no pod comes by itself.
    Told,
}

/// Labels of a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct HoldLabels {
    /// How it ended.
    pub end: HoldEnd,
}

/// What control answered about a workspace without pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Told {
    /// What it is doing.
    Known,
    /// Not there, or not theirs.
    NotTheirs,
    /// A refusal.
    Refused,
    /// Nothing.
    Unreachable,
}

/// Labels of a question to control.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ToldLabels {
    /// The answer.
    pub answer: Told,
}

/// What came of asking control whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Renewed {
    /// It does.
    Renewed,
    /// It is over.
    Refused,
    /// Control could not tell.
    Unknown,
    /// Control could not be asked.
    Unreachable,
}

/// Labels of such a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RenewalLabels {
    /// The answer.
    pub answer: Renewed,
}

/// What another proxy answered about a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum PeerSaid {
    /// It has something open there.
    Holding,
    /// It has nothing open there.
    Nothing,
    /// No answer, or none of use.
    Silent,
}

/// Labels of such a question.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PeerLabels {
    /// The answer.
    pub answer: PeerSaid,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BusyLabels {
    kind: &'static str,
}

/// All counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Requests by who answered and with what class.
    pub requests: Family<RequestLabels, Counter>,
    /// Seconds from a request's head to the end of its answer, WebSockets apart.
    pub duration: Histogram,
    /// Holds by how they ended.
    pub holds: Family<HoldLabels, Counter>,
    /// Questions to control about workspaces without pods, by answer.
    pub asked: Family<ToldLabels, Counter>,
    /// Questions to control whether a session goes on, by answer.
    pub renewals: Family<RenewalLabels, Counter>,
    /// Requests and looks at sockets of sessions that nobody could be asked about.
    pub sessions_graced: Counter,
    /// Questions to other proxies about sessions that stay, by answer.
    pub peers_asked: Family<PeerLabels, Counter>,
    /// Attempts that failed before anything was sent, and were repeated.
    pub retries: Counter,
    /// Repetitions that the budget did not allow.
    pub retries_refused: Counter,
    /// WebSockets.
    pub sockets: Sockets,
    /// Times that a workspace's active pod changed.
    pub switches: Counter,
    /// Pods that claimed another workspace's id.
    pub conflicts: Counter,
    /// Pods whose generation could not be read.
    pub bad_generations: Counter,
    /// Credentials that did not count.
    pub failures: Counted,
    /// Connections.
    pub accept: accept::Metrics,
    busy: Family<BusyLabels, Counter>,
    control_full: Family<BusyLabels, Counter>,
    /// HTTP/2 connections.
    pub http2: Http2Metrics,
    /// TLS.
    pub tls: TlsMetrics,
}

impl Metrics {
    /// Registers everything.
    #[must_use]
    pub fn new(registry: &mut Registry) -> Self {
        let failures = Counted::register(registry);
        let http2 = Http2Metrics::new(registry);
        let tls = TlsMetrics::new(registry);
        let registry = registry.sub_registry_with_prefix("nogoo9_proxy");
        let this = Self {
            requests: Family::default(),
            duration: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            holds: Family::default(),
            asked: Family::default(),
            renewals: Family::default(),
            sessions_graced: Counter::default(),
            peers_asked: Family::default(),
            retries: Counter::default(),
            retries_refused: Counter::default(),
            sockets: Sockets::register(registry),
            switches: Counter::default(),
            conflicts: Counter::default(),
            bad_generations: Counter::default(),
            failures,
            accept: accept::Metrics::register(registry),
            busy: Family::default(),
            control_full: Family::default(),
            http2,
            tls,
        };
        registry.register(
            "requests",
            "Requests by who answered, and how",
            this.requests.clone(),
        );
        registry.register(
            "request_duration_seconds",
            "Time from a request's head to the end of its answer",
            this.duration.clone(),
        );
        registry.register(
            "holds",
            "Waits of requests for a pod, by how they ended",
            this.holds.clone(),
        );
        registry.register(
            "asked",
            "Questions to control about workspaces without pods, by answer",
            this.asked.clone(),
        );
        registry.register(
            "session_renewals",
            "Questions to control whether a browser session goes on, by answer",
            this.renewals.clone(),
        );
        registry.register(
            "sessions_graced",
            "Times that a session was accepted although nobody could be asked about it",
            this.sessions_graced.clone(),
        );
        registry.register(
            "peers_asked",
            "Questions to other proxies whether a session has something open there, by answer",
            this.peers_asked.clone(),
        );
        registry.register(
            "workspace_full",
            "Requests and WebSockets refused because too many are open in their workspace",
            this.busy.clone(),
        );
        registry.register(
            "control_full",
            "Requests towards control refused because too many go on, in all or of their client",
            this.control_full.clone(),
        );
        registry.register(
            "retries",
            "Attempts repeated because a pod could not be reached, or its connection broke",
            this.retries.clone(),
        );
        registry.register(
            "retries_refused",
            "Repetitions that the budget did not allow: too many of the requests break off",
            this.retries_refused.clone(),
        );
        registry.register(
            "switches",
            "Times that a workspace's active pod changed",
            this.switches.clone(),
        );
        registry.register(
            "conflicting_pods",
            "Pod events of pods that claim another workspace's id",
            this.conflicts.clone(),
        );
        registry.register(
            "unreadable_generations",
            "Pod events with an unreadable generation label",
            this.bad_generations.clone(),
        );
        this
    }
}

impl Metrics {
    /// Notes a request or socket for which there was no place in its workspace.
    pub fn busy(&self, kind: Kind) {
        let kind = match kind {
            Kind::Request => "request",
            Kind::Socket => "socket",
        };
        self.busy.get_or_create(&BusyLabels { kind }).inc();
    }

    /// Notes a request for which there was no place towards control.
    pub fn control_full(&self, full: Full) {
        let kind = match full {
            Full::Total => "total",
            Full::Client => "client",
        };
        self.control_full.get_or_create(&BusyLabels { kind }).inc();
    }
}

/// What is read at the moment of a scrape.
#[derive(Debug)]
pub struct Gauges {
    /// Routes.
    pub table: Table,
    /// Open sessions.
    pub sessions: Sessions,
    /// Held requests.
    pub holds: Holds,
    /// Open connections.
    pub connections: Connections,
    /// The pod watch.
    pub watch: Status,
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let gauge = |n: usize| ConstGauge::new(i64::try_from(n).unwrap_or(i64::MAX));
        let counts = self.watch.counts();
        let held = self.holds.count();
        let gauges: [(&str, &str, ConstGauge<i64>); 9] = [
            (
                "nogoo9_proxy_routes",
                "Workspaces in the routing table",
                gauge(self.table.len()),
            ),
            (
                "nogoo9_proxy_contested_pods",
                "Ready pods that are not routed to, since another may have their address",
                gauge(self.table.contested()),
            ),
            (
                "nogoo9_proxy_open_sockets",
                "Open WebSockets",
                gauge(self.sessions.count(Kind::Socket)),
            ),
            (
                "nogoo9_proxy_open_requests",
                "Requests in flight to pods",
                gauge(self.sessions.count(Kind::Request)),
            ),
            (
                "nogoo9_proxy_held_requests",
                "Requests that wait for a pod",
                gauge(held.requests),
            ),
            (
                "nogoo9_proxy_held_bytes",
                "Bytes of the heads of requests that wait for a pod",
                gauge(held.bytes),
            ),
            (
                "nogoo9_proxy_open_connections",
                "Open connections of clients, WebSockets among them",
                gauge(self.connections.open()),
            ),
            (
                "nogoo9_proxy_clients",
                "Client addresses that have a connection open, those behind trusted proxies apart",
                gauge(self.connections.clients()),
            ),
            (
                "nogoo9_proxy_watch_failing",
                "1 while the API server does not answer",
                gauge(usize::from(self.watch.is_failing())),
            ),
        ];
        for (name, help, metric) in gauges {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        let age = ConstGauge::new(self.watch.age().as_secs_f64());
        let name = "nogoo9_proxy_watch_age_seconds";
        let help = "Time since the routing table last proved to be what the cluster says";
        age.encode(encoder.encode_descriptor(name, help, None, age.metric_type())?)?;
        let counters = [
            ("nogoo9_proxy_watch_events", "Pod events", counts.events),
            (
                "nogoo9_proxy_watch_failures",
                "Lists and watches that failed",
                counts.failures,
            ),
            (
                "nogoo9_proxy_watch_lists",
                "Full lists of pods",
                counts.lists,
            ),
            (
                "nogoo9_proxy_watch_went_back",
                "Answers of the API server older than what was seen, and not taken in",
                counts.went_back,
            ),
            (
                "nogoo9_proxy_watch_restores",
                "Times that the API server was found put back to an older state",
                counts.restores,
            ),
        ];
        for (name, help, count) in counters {
            let metric = ConstCounter::new(count);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}
