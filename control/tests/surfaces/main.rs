//! Control's surfaces over HTTP, in front of the embedded API server: access, lifecycle, upgrades,
//! MCP in both eras, events, and the console.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod absent;
mod access;
mod bulk;
mod bulk_commands;
mod claims;
mod console;
mod events;
mod lifecycle;
mod limit;
mod listing;
mod ids;
mod forgery;
mod mcp;
mod rollback;
mod sessions;
mod look;
mod tokens;
mod upgrades;
mod same_work;
mod world;
mod templates;
