//! How long a browser session lasts, seen from its page: two proxies and control's sign-in in one
//! process, over real sockets, with a provider that gives refresh tokens, under one clock that the
//! tests move. Half a day takes seconds.
#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests and their helpers"
)]

mod half_a_day;
mod out;
mod page;
mod world;

// Those of control's own tests of signing in.
#[allow(dead_code, reason = "its whims are for other tests")]
#[path = "../../../control/tests/login/provider.rs"]
mod provider;
#[allow(dead_code, reason = "its views are for other tests")]
#[path = "../../../control/tests/login/server.rs"]
mod server;

/// Longest wait for anything in these tests.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
