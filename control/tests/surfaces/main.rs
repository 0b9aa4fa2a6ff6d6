//! Control's surfaces over HTTP, in front of the embedded API server: access, lifecycle, upgrades,
//! MCP in both eras, and the page.

mod access;
mod lifecycle;
mod mcp;
mod page;
mod upgrades;
mod world;
