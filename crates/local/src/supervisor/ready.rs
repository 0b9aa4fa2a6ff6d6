//! What others may know of an instance: the files `instance.json` and `ready.json`, and
//! whether a part is ready.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{UpError, data_dir::read_json};

/// File of [`Instance`] in the data folder; stays when stopped.
pub(super) const INSTANCE_FILE: &str = "instance.json";
/// File of [`Ready`] in the data folder; there while everything runs.
pub(super) const READY_FILE: &str = "ready.json";

/// What stays the same over restarts of a data folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// URL of the console.
    pub url: String,
    /// Issuer of tokens.
    pub issuer: String,
    /// Audience of access tokens.
    pub audience: String,
}

impl Instance {
    /// Reads it from the data folder of an instance that runs or ran; `None` if none did.
    ///
    /// # Errors
    /// The file is unreadable or damaged.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, UpError> {
        read_json(&data_dir.join(INSTANCE_FILE))
    }
}

/// A ready instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    /// URL of the console, as in `http://localhost:9009`.
    pub url: String,
    /// URL of a workspace, with `{id}` in place of its id.
    pub workspace_url: String,
    /// URL of the MCP endpoint.
    pub mcp_url: String,
    /// Issuer of tokens.
    pub issuer: String,
    /// Kubeconfig with all rights.
    pub kubeconfig: PathBuf,
    /// URL of the proxy's admin listener.
    pub admin_proxy: String,
    /// URL of control's admin listener.
    pub admin_control: String,
    /// File with the bearer token of the proxy's /routes and /sessions.
    pub admin_token_file: PathBuf,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The processes.
    pub pids: Pids,
    /// Command lines of the parts that this instance was told to leave to others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, Vec<String>>,
}

/// Process ids; a part that is down, or not part of this instance, is `null`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pids {
    /// `nogoo9 up` itself, with the kubelet and the identity provider.
    pub up: u32,
    /// The embedded API server.
    pub apiserver: Option<u32>,
    /// Control.
    pub control: Option<u32>,
    /// The proxy.
    pub proxy: Option<u32>,
}

impl Ready {
    /// Reads it from a data folder; `None` if nothing is ready there.
    ///
    /// # Errors
    /// The file is unreadable or damaged.
    pub fn read(data_dir: &Path) -> Result<Option<Self>, UpError> {
        read_json(&data_dir.join(READY_FILE))
    }
}

impl Pids {
    /// Whether `nogoo9 up` still runs: a killed one leaves its ready file behind.
    pub fn up_is_alive(&self) -> bool {
        let folder = Path::new("/proc").join(self.up.to_string());
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        // The id may be that of a zombie, or of another program by now.
        let line = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        !matches!(state, None | Some('Z' | 'X'))
            && line.split(|b| *b == 0).any(|word| word == b"up")
    }
}

/// Asks a part's /readyz.
///
/// # Errors
/// Why it is not ready, in one line.
pub(super) async fn probe(http: &reqwest::Client, admin: &str) -> Result<(), String> {
    let reply = http
        .get(format!("{admin}/readyz"))
        .timeout(Duration::from_secs(2))
        .send()
        .await
        .map_err(|error| {
            if error.is_connect() {
                "it does not listen yet".to_owned()
            } else {
                error.without_url().to_string()
            }
        })?;
    if reply.status().is_success() {
        return Ok(());
    }
    let reasons = reply.text().await.unwrap_or_default();
    Err(reasons.trim().replace('\n', "; "))
}
