//! Harness of the black-box suites: real processes, started and ended as a user would.
//!
//! A [`Site`] is one `nogoo9 up` with everything that it starts. Suites talk to it through the same
//! surfaces that users have: the edge, the JSON API, `/mcp` and Kubernetes. A [`Suite`] runs
//! scenarios on one site and ends with the assertion that no process outlives it.

mod api;
mod beside;
mod binaries;
mod browser;
mod cluster;
mod edge;
pub mod faults;
pub mod files;
mod gate;
mod mcp;
mod node;
pub mod peer;
mod process;
pub mod proxies;
mod ready;
mod results;
mod sdk;
mod site;
mod socket;
pub mod stage;
mod suite;
mod target;
mod template;
mod visitor;
mod wait;
pub mod watch;

pub use api::{Api, Reply};
pub use beside::Control;
pub use binaries::binary;
pub use browser::{browse, signalled};
pub use cluster::{Cluster, record_of};
pub use edge::{Answer, Edge};
pub use gate::{Call, Judge, Verdict};
pub use mcp::{Mcp, ToolResult};
pub use node::{ensure_modules, node, python};
pub use process::{Census, Process};
pub use ready::Ready;
pub use results::Results;
pub use sdk::{Generation, Sdk};
pub use site::{Down, Options, Site};
pub use socket::{Received, Socket};
pub use suite::{Ground, Outcome, Suite};
pub use target::{Real, Target};
pub use template::Template;
pub use visitor::{NAVIGATION, Visitor};
pub use wait::{Observation, patiently, until};
