//! The ready file of `nogoo9 up`.

use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;
use url::Url;

/// What `nogoo9 up --ready-file` writes once everything serves.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// Console and everything below it.
    #[serde(deserialize_with = "url")]
    pub url: Url,
    /// Address of workspaces, `{id}` standing for theirs.
    pub workspace_url: String,
    /// MCP endpoint.
    #[serde(deserialize_with = "url")]
    pub mcp_url: Url,
    /// Issuer of tokens.
    #[serde(deserialize_with = "url")]
    pub issuer: Url,
    /// Kubeconfig of an admin.
    pub kubeconfig: PathBuf,
    /// The proxy's admin listener.
    #[serde(deserialize_with = "url")]
    pub admin_proxy: Url,
    /// Control's admin listener.
    #[serde(deserialize_with = "url")]
    pub admin_control: Url,
    /// File with the token for `/routes` and `/sessions`.
    pub admin_token_file: PathBuf,
    /// Pids of the parts.
    pub pids: Pids,
    /// Command lines of the parts that it was told to leave out.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
}

/// Pids of the parts of a site; none while a part is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Pids {
    /// The supervisor itself.
    pub up: i32,
    /// The embedded API server.
    pub apiserver: Option<i32>,
    /// `nogoo9-control`.
    pub control: Option<i32>,
    /// `nogoo9-proxy`.
    pub proxy: Option<i32>,
}

pub(crate) fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    String::deserialize(deserializer)?
        .parse()
        .map_err(serde::de::Error::custom)
}
