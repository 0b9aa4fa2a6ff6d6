//! The Node object: registered once, then kept alive by a heartbeat.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::api::{CallError, Pauses, call};
use super::status::{HOST_IP, time};

const HEARTBEAT: Duration = Duration::from_secs(10);
/// As many pods as the node says it takes.
const MAX_PODS: u32 = 250;

/// Registers the node and keeps it Ready; never returns.
pub(crate) async fn keep(client: Client, name: String) {
    let api: Api<Node> = Api::all(client);
    let mut pauses = Pauses::new();
    let mut ready_since = Timestamp::now();
    loop {
        let now = Timestamp::now();
        match beat(&api, &name, ready_since, now).await {
            Ok(since) => {
                ready_since = since;
                pauses.reset();
                tokio::time::sleep(HEARTBEAT).await;
            }
            Err(error) => {
                tracing::debug!(node = name, %error, "the heartbeat will be sent again");
                pauses.pause().await;
            }
        }
    }
}

/// One heartbeat; says since when the node is Ready.
async fn beat(
    api: &Api<Node>,
    name: &str,
    since: Timestamp,
    now: Timestamp,
) -> Result<Timestamp, CallError> {
    let existing = match call(api.get_opt(name)).await? {
        Some(node) => node,
        None => match call(api.create(&PostParams::default(), &node(name))).await {
            Ok(node) => node,
            // Someone was faster; the next heartbeat finds it.
            Err(error) if error.code() == Some(409) => return Ok(since),
            Err(error) => return Err(error),
        },
    };
    let since = existing
        .status
        .and_then(|status| status.conditions)
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")
        .and_then(|condition| condition.last_transition_time)
        .map_or(now, |Time(at)| at);
    let patch = json!({"status": status(name, since, now)});
    call(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await?;
    Ok(since)
}

fn node(name: &str) -> Node {
    let labels = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", arch()),
    ];
    Node {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        ..Node::default()
    }
}

fn status(name: &str, since: Timestamp, now: Timestamp) -> NodeStatus {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(time(now)),
        last_transition_time: Some(time(since)),
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut resources = BTreeMap::from([
        ("cpu".to_owned(), Quantity(cores.to_string())),
        ("pods".to_owned(), Quantity(MAX_PODS.to_string())),
    ]);
    if let Some(kibibytes) = memory() {
        resources.insert("memory".to_owned(), Quantity(format!("{kibibytes}Ki")));
    }
    let address = |type_: &str, address: &str| NodeAddress {
        type_: type_.to_owned(),
        address: address.to_owned(),
    };
    NodeStatus {
        addresses: Some(vec![
            address("InternalIP", HOST_IP),
            address("Hostname", name),
        ]),
        capacity: Some(resources.clone()),
        allocatable: Some(resources),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition(
                "DiskPressure",
                "False",
                "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure",
            ),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            condition(
                "Ready",
                "True",
                "KubeletReady",
                "the process kubelet is posting ready status",
            ),
        ]),
        node_info: Some(NodeSystemInfo {
            architecture: arch().to_owned(),
            operating_system: "linux".to_owned(),
            container_runtime_version: concat!("nogoo9-process://", env!("CARGO_PKG_VERSION"))
                .to_owned(),
            kubelet_version: concat!("v1.34.0-nogoo9.", env!("CARGO_PKG_VERSION")).to_owned(),
            kernel_version: read("/proc/sys/kernel/osrelease"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            machine_id: read("/etc/machine-id"),
            os_image: "Linux".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// The architecture as Go names it, which is what node labels hold.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
