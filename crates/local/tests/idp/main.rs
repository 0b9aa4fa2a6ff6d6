//! The development identity provider over real HTTP, as a browser and clients use it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod clients;
mod documents;
mod provider;
mod sign_in;
mod tls;
