//! nogoo9-control: the co-process of the edge. MCP tools, JSON API, login, background upgrades; the
//! only writer.
//!
//! `service` holds every command and query once; `mcp` and `http` are thin adapters over it.
//! Commands change workspace records through `cluster`, the only holder of a writing client;
//! `upgrade` brings pods to what the records say.

mod audit;
pub mod bulk;
pub mod cluster;
pub mod config;
pub mod http;
pub mod lease;
pub mod login;
pub mod mcp;
pub mod personal;
pub mod run;
pub mod service;
pub mod session;
pub mod template;
pub mod upgrade;
