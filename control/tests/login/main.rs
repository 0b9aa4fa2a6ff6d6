//! Login as a browser sees it: real requests through the router, against a provider over HTTP.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod browser;
mod handover;
mod keys;
mod local;
mod planted;
mod provider;
mod refusals;
mod return_path;
mod server;
mod sessions;
mod sign_in;
mod trouble;
