//! The crate through its public surface: tokens as providers make them, keys over real HTTP.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attacks;
mod authenticator;
mod bearer;
mod challenge;
mod cookie;
mod fuzz;
mod issuers;
mod jwks;
mod keys;
mod roots;
mod seal;
mod session;
mod support;
