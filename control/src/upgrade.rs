//! The executor: observe, plan, make one write, observe again. All decisions are
//! [`nogoo9_model::upgrade::plan()`]'s; what is here fetches what they rest on, makes the writes,
//! and knows when to look again. Nothing in memory matters: after a restart every workspace is
//! looked at, and what was under way goes on.

mod adopt;
mod discovery;
mod engine;
mod mounts;
mod pass;
mod proxies;
mod sweep;

pub use discovery::Discovery;
pub use engine::{Engine, EngineConfig, Worker};
pub use pass::{Next, run as pass};
pub use proxies::{Proxies, Reports};
