//! The edge: takes browser HTTP and WebSocket traffic and sends each request to the newest ready pod
//! of its workspace.
//!
//! A connection's way: [`accept`] takes it, knows its client, and waits for its requests. One
//! request's way: [`gate`] decides, purely, what it is (a workspace's, control's, or answered
//! here) and whether its caller may; [`edge`] carries that out with Pingora; [`dial`] and [`hold`]
//! choose and wait for a pod of the [`table`], which follows the cluster; [`tunnel`] relays
//! WebSockets; [`sessions`] knows what is open where; where the table knows no pods, control is
//! asked ([`ask`]), and so it is about personal access tokens ([`personal`]).

pub mod accept;
pub mod admin;
pub mod affinity;
pub mod args;
pub mod ask;
pub mod buffers;
pub mod busy;
pub mod clock;
pub mod control;
pub mod dial;
pub mod edge;
pub mod endless;
pub mod follow;
pub mod gate;
pub mod headers;
pub mod hold;
pub mod http2;
pub mod lines;
pub mod metrics;
pub mod peers;
pub mod personal;
pub mod refusal;
pub mod renew;
pub mod reply;
pub mod retry;
pub mod route;
pub mod server;
pub mod sessions;
pub mod strict;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod tunnel;
