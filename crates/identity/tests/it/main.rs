//! The crate through its public surface: tokens as providers make them, keys over real HTTP.

mod authenticator;
mod bearer;
mod challenge;
mod cookie;
mod jwks;
mod keys;
mod session;
mod support;
