//! What is counted of WebSockets.

use crate::sessions::End;
use crate::tunnel::relay::Outcome;
use crate::tunnel::request::Fault;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Why a WebSocket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum SocketEnd {
    /// The application ended it, or its pod is gone.
    Pod,
    /// The client ended it, or is gone.
    Client,
    /// Its pod was deleted.
    Restart,
    /// What opened it expired or was revoked.
    Expired,
    /// The proxy stops.
    Shutdown,
    /// Nothing flowed for too long.
    Idle,
}

impl From<Outcome> for SocketEnd {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::ByPod => Self::Pod,
            Outcome::ByClient => Self::Client,
            Outcome::ByUs(End::Restart) => Self::Restart,
            Outcome::ByUs(End::Expired) => Self::Expired,
            Outcome::ByUs(End::Shutdown) => Self::Shutdown,
            Outcome::ByUs(End::Idle) => Self::Idle,
        }
    }
}

/// Labels of an end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EndLabels {
    /// Why.
    pub reason: SocketEnd,
}

/// Why a request for a WebSocket was refused by the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Refused {
    /// Another version than 13 (426).
    Version,
    /// No key, or several (400).
    Key,
    /// It announced a body (400).
    Body,
    /// Frames came before the 101 (400).
    Early,
    /// The pod's answer was no proper one (502).
    Answer,
    /// The workspace speaks HTTP/2 alone (501).
    Protocol,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Version => Self::Version,
            Fault::Key => Self::Key,
            Fault::Body => Self::Body,
        }
    }
}

/// Labels of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusedLabels {
    /// Why.
    pub reason: Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Direction {
    Up,
    Down,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: Direction,
}

/// Counters of WebSockets.
#[derive(Debug, Clone)]
pub struct Sockets {
    /// Opened: both sides have agreed.
    pub opened: Counter,
    /// Ended, by reason: opened less ended are open.
    pub ended: Family<EndLabels, Counter>,
    /// Requests refused by the proxy itself, by reason.
    pub refused: Family<RefusedLabels, Counter>,
    /// Bytes to pods, handshakes apart, as they flow.
    pub up: Counter,
    /// Bytes to clients, likewise.
    pub down: Counter,
}

impl Sockets {
    /// Registers everything.
    pub(super) fn register(registry: &mut Registry) -> Self {
        let bytes = Family::<DirectionLabels, Counter>::default();
        let of = |direction| bytes.get_or_create(&DirectionLabels { direction }).clone();
        let this = Self {
            opened: Counter::default(),
            ended: Family::default(),
            refused: Family::default(),
            up: of(Direction::Up),
            down: of(Direction::Down),
        };
        registry.register("sockets_opened", "WebSockets opened", this.opened.clone());
        registry.register(
            "sockets_ended",
            "WebSockets ended, by reason",
            this.ended.clone(),
        );
        registry.register(
            "sockets_refused",
            "Requests for a WebSocket that the proxy refused, by reason",
            this.refused.clone(),
        );
        registry.register(
            "socket_bytes",
            "Bytes relayed over WebSockets, to pods (Up) and to clients (Down)",
            bytes,
        );
        this
    }

    /// Counts one that has ended.
    pub fn ended(&self, outcome: Outcome) {
        let reason = outcome.into();
        self.ended.get_or_create(&EndLabels { reason }).inc();
    }

    /// Counts one that is refused.
    pub fn refused(&self, reason: Refused) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }
}
