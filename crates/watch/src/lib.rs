//! Watching Kubernetes objects so that what was learnt is never lost again.
//!
//! [`Watch`] lists and watches one kind, turns each object into what its user needs of it, and
//! hands over *changes*: applied, deleted, synced. The guarantees, in order of weight:
//!
//! - **Nothing is cleared.** A relist is compared with what is known, and only the differences are
//!   delivered. While the API server is away, what is known stays.
//! - **Nothing goes back.** Versions are compared: a list or an event older than what was seen is not
//!   taken in. If all lists are older for some seconds, the server's database was put back to an
//!   older copy; then that is what there is ([`Config::distrust_restored`]).
//! - **Nothing is missed for good.** All is listed anew after a 410, after [`Config::max_failures`]
//!   failures in a row, when a server that otherwise sends bookmarks was silent for a whole watch (as
//!   one is that was asked for a version beyond its present), and every [`Config::relist_every`] in
//!   any case.
//! - **A name used again is another object.** If the uid behind a name changes, the old object is
//!   delivered as deleted before the new one as applied.
//! - **Memory is bounded** by the number of objects: one projected value each, two during a relist.
//!
//! Changes of one watch are delivered in order, by one task, and a slow receiver slows the watch
//! down rather than filling a queue.

mod backoff;
mod config;
mod course;
mod mirror;
mod status;
mod store;
mod watch;

pub use config::Config;
pub use mirror::Change;
pub use status::{Counts, Status};
pub use store::Store;
pub use watch::{Watch, strip_managed_fields};
