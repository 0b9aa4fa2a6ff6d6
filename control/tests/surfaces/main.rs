//! Control's surfaces over HTTP, in front of the embedded API server: access, lifecycle, upgrades,
//! MCP in both eras, and the page.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod access;
mod lifecycle;
mod mcp;
mod page;
mod upgrades;
mod world;
