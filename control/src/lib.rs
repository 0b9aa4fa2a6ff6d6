//! nogoo9-control: the co-process of the edge. MCP tools, JSON API, login, background upgrades; the
//! only writer.

pub mod cluster;
pub mod login;
pub mod template;
pub mod upgrade;
