//! One wait, and all that ends it.

use super::gone;
use pingora::protocols::http::ServerSession;
use tokio::time::Instant;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken<T = ()> {
    /// The route is another.
    Changed,
    /// Control has said something.
    Told(T),
    /// The time is up.
    TimedOut,
    /// The client has gone: nobody waits for an answer.
    ClientGone,
    /// This proxy stops: another one holds what is asked anew.
    Stopping,
}

/// Waits for a change, for what control says, until `deadline`, until this proxy stops, or until the
/// client goes: also one that still has a body to send. What has changed comes first, so that nothing is
/// refused that can be served.
pub async fn wait_for<C, T>(
    client: &mut ServerSession,
    changed: impl Future<Output = C>,
    told: impl Future<Output = T>,
    stopping: impl Future<Output = ()>,
    deadline: Instant,
) -> Woken<T> {
    let body_to_come = match client {
        ServerSession::H1(h1) => (!h1.is_body_empty()).then(|| h1.stream().id()),
        _ => None,
    };
    let left = async {
        match body_to_come {
            Some(connection) => gone(connection).await,
            // No data can come; only the end of the connection, or bytes that break the protocol.
            None => drop(client.read_body_or_idle(true).await),
        }
    };
    tokio::select! {
        biased;
        _ = changed => Woken::Changed,
        told = told => Woken::Told(told),
        () = left => Woken::ClientGone,
        () = stopping => Woken::Stopping,
        () = tokio::time::sleep_until(deadline) => Woken::TimedOut,
    }
}
