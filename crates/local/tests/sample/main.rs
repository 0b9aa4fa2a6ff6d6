//! The sample workspace as a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

mod end;
mod files;
mod pages;
mod sockets;
mod support;
