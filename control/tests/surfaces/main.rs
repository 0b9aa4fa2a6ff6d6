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
mod bulk_amid;
mod bulk_commands;
mod bulk_stage;
mod challenges;
mod claims;
mod console;
mod events;
mod forgery;
mod ids;
mod lifecycle;
mod limit;
mod listing;
mod look;
mod mcp;
mod rollback;
mod same_work;
mod sessions;
mod templates;
mod tokens;
mod trail;
mod upgrades;
mod world;
