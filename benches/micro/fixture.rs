//! Pods and hosts as they are in a real cluster.

#![allow(
    clippy::expect_used,
    reason = "a bench whose input cannot be made must not go on"
)]

use k8s_openapi::api::core::v1::Pod;
use nogoo9_model::pod::PodView;
use nogoo9_proxy::route::Router;
use nogoo9_runtime::args::{Public, WorkspaceDomain};
use serde_json::{Value, json};

/// The owner of every workspace.
pub(crate) const OWNER: &str = "auth0|65f0a1b2c3d4e5f6a7b8c9d0";

/// The API server's object of a pod of workspace `workspace`, as a watch delivers it.
pub(crate) fn pod_object(workspace: &str, uid: &str, generation: u32, ready: bool) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("ws-auth0-{workspace}-up-{uid}"),
            "namespace": "nogoo9-workspaces",
            "uid": format!("7d8e2a34-90ab-4c1d-8e5f-{uid:0>12}"),
            "resourceVersion": "48151623",
            "creationTimestamp": "2026-11-29T08:15:00Z",
            "labels": {
                "nogoo9/type": "workspace",
                "nogoo9/managed-by": "nogoo9-spawner",
                "nogoo9/workspace-id": workspace,
                "nogoo9/user-sub": "h-k3jd7fh2la9s8d7f6g5h4j3k2l1",
                "nogoo9/generation": generation.to_string(),
                "nogoo9/upgrade-state": "committed",
            },
            "annotations": {
                "nogoo9/user-sub": OWNER,
                "nogoo9/workspace-since": "2026-03-01T12:00:00Z",
                "nogoo9/workspace-port": "3000",
                "nogoo9/workspace-name": "My workspace",
                "nogoo9/template-ref": "sample",
                "nogoo9/template-version": "3f2a9c1b7d5e",
            },
        },
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "workspace", "image": "nogoo9-sample:1.0"}],
        },
        "status": {
            "phase": "Running",
            "podIP": address(uid),
            "conditions": [{
                "type": "Ready",
                "status": if ready { "True" } else { "False" },
                "lastTransitionTime": "2026-11-29T08:15:09Z",
            }],
            "containerStatuses": [{
                "name": "workspace", "image": "nogoo9-sample:1.0", "imageID": "", "ready": ready,
                "restartCount": 0, "state": {"running": {"startedAt": "2026-11-29T08:15:04Z"}},
            }],
        },
    })
}

/// Each pod has an address of its own.
fn address(uid: &str) -> String {
    let number = uid.bytes().fold(7u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    std::net::Ipv4Addr::from(0x0a00_0000 | (number & 0x00ff_ffff)).to_string()
}

/// The same, as the typed object.
pub(crate) fn pod(workspace: &str, uid: &str, generation: u32, ready: bool) -> Pod {
    serde_json::from_value(pod_object(workspace, uid, generation, ready)).expect("a valid pod")
}

/// The same, as the proxy and the planner see it.
pub(crate) fn view(workspace: &str, uid: &str, generation: u32, ready: bool) -> PodView {
    PodView::from_pod(&pod(workspace, uid, generation, ready)).expect("a pod of ours")
}

/// The edge of an installation: console and workspaces on hosts of their own, path mode on.
pub(crate) fn router() -> Router {
    Router::new(&Public {
        listen: "127.0.0.1:0".parse().expect("an address"),
        url: "https://console.example.org/".parse().expect("a URL"),
        workspace_domain: WorkspaceDomain {
            host: "ws.example.org".to_owned(),
            port: None,
        },
        path_mode: true,
        path_host: None,
    })
}
