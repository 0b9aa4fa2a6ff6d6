//! Load as users make it, and an honest account of what they saw.
//!
//! Three parts, used together by the demo, the black-box tests and the benches:
//!
//! - [`HttpLoad`]: many keep-alive HTTP/1.1 connections, open loop (a request is due
//!   when the schedule says so, whatever the answers before it took) or closed loop.
//!   Every request ends in exactly one [`Outcome`]; none is dropped from the count. Latencies are
//!   summed up by phase and over time ([`SliceReport`]); several loads can be one run.
//! - [`EchoClient`] and [`ShellClient`]: WebSockets on which numbered lines are typed;
//!   each line must come back once, in order.
//! - [`Phases`]: one clock and one timeline for all of them, so that a number can be
//!   read as "before", "during" or "after" what the controller did.
//!
//! Guarantees: every operation has a deadline; memory does not grow with the length of
//! a run (histograms, bounded samples, bounded labels); dropping a handle ends its tasks.
//!
//! ```no_run
//! use nogoo9_load::{EchoClient, HttpLoad, Phases, SocketOptions};
//!
//! # async fn example(url: url::Url, token: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let phases = Phases::new("before");
//! let bearer = format!("Bearer {token}");
//! let load = HttpLoad::new(&url.join("info")?)?
//!     .connections(64)
//!     .rate(1000.0)?
//!     .header("Authorization", &bearer)?
//!     .label(|answer| Some(answer.headers.get("x-pod")?.to_str().ok()?.to_owned()))
//!     .start(&phases)?;
//! let options = SocketOptions::new(&url.join("echo")?)?.header("Authorization", &bearer)?;
//! let socket = EchoClient::open(options, &phases).await?;
//!
//! phases.enter("during");
//! // … upgrade something …
//! phases.mark("committed");
//!
//! let (http, echo) = (load.finish().await, socket.finish().await);
//! println!("{}", http.table());
//! assert!(http.failures == 0 && echo.kept(), "{:?} {echo:?}", http.samples);
//! # Ok(())
//! # }
//! ```

mod dial;
mod error;
mod http;
mod latency;
mod outcome;
mod phases;
mod recorder;
mod report;
mod schedule;
mod sequence;
mod slices;
mod socket;
mod table;

pub use error::{LoadError, SocketError, WaitError};
pub use http::{Answer, HttpLoad, HttpRun};
pub use latency::{Latency, LatencySummary};
pub use outcome::{FailureKind, Outcome, Stale};
pub use phases::{Mark, PhaseId, Phases, Timeline};
pub use report::{FailureSample, HttpReport, LabelReport, PhaseReport};
pub use schedule::{Schedule, TIMER_SLACK};
pub use sequence::{Arrival, Sequence};
pub use slices::SliceReport;
pub use socket::echo::EchoClient;
pub use socket::report::{Close, ClosedBy, EchoReport, SocketTotals};
pub use socket::shell::ShellClient;
pub use socket::{OpenSocket, SocketOptions};
pub use table::Table;
