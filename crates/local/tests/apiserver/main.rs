//! The embedded API server, through kube-rs, kubectl and plain HTTPS.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod clients;
mod durability;
mod kubectl;
mod nodes;
mod support;
mod surfaces;
mod volumes;
mod watching;
