//! The upgrade engine and the bulk driver over an API server in this process: calls that are lost or
//! refused, at each of them; several controls; what is stored, and what somebody makes of it by hand.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod bulk;
mod bulk_stored;
mod claims;
mod crash_points;
mod events;
mod faults;
mod namespaces;
mod proxies;
mod refusals;
mod support;
