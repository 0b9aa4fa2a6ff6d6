//! What a proxy's admin listener tells control. Unknown fields are ignored and the version is
//! stated, so either side may be upgraded first.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of these payloads.
pub const VERSION: u32 = 1;

/// Answer of `GET /routes`: what the proxy routes to, by workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Routes {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// Active pod by workspace id.
    pub routes: BTreeMap<String, Route>,
}

/// One entry of [`Routes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Uid of the active pod; absent: requests are held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Name of the active pod, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
}

/// Answer of `GET /sessions?workspace=ID`: where one workspace's requests go, and its open sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// [`VERSION`] of the sender.
    pub version: u32,
    /// Uid of the pod that new requests go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<String>,
    /// Uids of the pods that new requests go to while the active one cannot be reached: none once the
    /// sender knows of the commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spare: Vec<String>,
    /// Open sessions by pod uid: WebSockets, streams and requests with data in the last 10 minutes.
    pub sessions: BTreeMap<String, u32>,
    /// Of those, the plain HTTP requests that are being answered, by pod uid: what a recreate lets
    /// finish, since sockets end with their pod anyway.
    #[serde(default)]
    pub requests: BTreeMap<String, u32>,
}
