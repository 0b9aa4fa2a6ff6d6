//! Columns and cells of each kind, as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::apiserver::object::{self, list, text};
use crate::apiserver::registry::Resource;
use crate::apiserver::table::age;
use crate::apiserver::table::pod_status::summarise;

/// One column; priority 1 shows with `-o wide` only.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) priority: u8,
}

const fn col(name: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        priority: 0,
    }
}

const fn wide(name: &'static str) -> Column {
    Column {
        name,
        kind: "string",
        priority: 1,
    }
}

const fn number(name: &'static str) -> Column {
    Column {
        name,
        kind: "integer",
        priority: 0,
    }
}

const AGE: Column = col("Age");
const NAME: Column = col("Name");

pub(crate) fn columns(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Pods => {
            const {
                &[
                    NAME,
                    col("Ready"),
                    col("Status"),
                    col("Restarts"),
                    AGE,
                    wide("IP"),
                    wide("Node"),
                    wide("Nominated Node"),
                    wide("Readiness Gates"),
                ]
            }
        }
        Resource::Nodes => {
            const {
                &[
                    NAME,
                    col("Status"),
                    col("Roles"),
                    AGE,
                    col("Version"),
                    wide("Internal-IP"),
                    wide("External-IP"),
                    wide("OS-Image"),
                    wide("Kernel-Version"),
                    wide("Container-Runtime"),
                ]
            }
        }
        Resource::Namespaces => const { &[NAME, col("Status"), AGE] },
        Resource::ConfigMaps => const { &[NAME, number("Data"), AGE] },
        Resource::Secrets => const { &[NAME, col("Type"), number("Data"), AGE] },
        Resource::PersistentVolumeClaims => {
            const {
                &[
                    NAME,
                    col("Status"),
                    col("Volume"),
                    col("Capacity"),
                    col("Access Modes"),
                    col("StorageClass"),
                    col("VolumeAttributesClass"),
                    AGE,
                    wide("VolumeMode"),
                ]
            }
        }
        Resource::ServiceAccounts => const { &[NAME, number("Secrets"), AGE] },
        Resource::Quotas => const { &[NAME, col("Request"), col("Limit"), AGE] },
        Resource::Events => {
            const {
                &[
                    col("Last Seen"),
                    col("Type"),
                    col("Reason"),
                    col("Object"),
                    wide("Subobject"),
                    wide("Source"),
                    col("Message"),
                    wide("First Seen"),
                    wide("Count"),
                    wide("Name"),
                ]
            }
        }
        Resource::Leases => const { &[NAME, col("Holder"), AGE] },
        Resource::EndpointSlices => {
            const {
                &[
                    NAME,
                    col("AddressType"),
                    col("Ports"),
                    col("Endpoints"),
                    AGE,
                ]
            }
        }
    }
}

fn or<'a>(value: &'a str, absent: &'a str) -> &'a str {
    if value.is_empty() { absent } else { value }
}

fn size(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    }
}

/// The cells of an object, one for each column.
pub(crate) fn row(resource: Resource, object: &Value, now: Timestamp) -> Value {
    let name = object::name(object);
    let old = age(text(object, "/metadata/creationTimestamp"), now);
    match resource {
        Resource::Pods => pod(object, name, &old, now),
        Resource::Nodes => node(object, name, &old),
        Resource::Namespaces => json!([name, text(object, "/status/phase"), old]),
        Resource::ConfigMaps => {
            json!([
                name,
                size(object, "/data") + size(object, "/binaryData"),
                old
            ])
        }
        Resource::Secrets => json!([name, text(object, "/type"), size(object, "/data"), old]),
        Resource::PersistentVolumeClaims => claim(object, name, &old),
        Resource::ServiceAccounts => json!([name, size(object, "/secrets"), old]),
        Resource::Quotas => {
            let (requests, limits) = quota(object);
            json!([name, requests, limits, old])
        }
        Resource::Events => event(object, name, now),
        Resource::Leases => json!([name, text(object, "/spec/holderIdentity"), old]),
        Resource::EndpointSlices => slice(object, name, &old),
    }
}

fn pod(pod: &Value, name: &str, old: &str, now: Timestamp) -> Value {
    let summary = summarise(pod, now);
    let gates = list(pod, "/spec/readinessGates");
    let open = gates
        .iter()
        .filter(|gate| {
            object::condition(pod, text(gate, "/conditionType"))
                .is_some_and(|c| text(c, "/status") == "True")
        })
        .count();
    let gates = if gates.is_empty() {
        "<none>".into()
    } else {
        format!("{open}/{}", gates.len())
    };
    json!([
        name,
        summary.ready,
        summary.status,
        summary.restarts,
        old,
        or(text(pod, "/status/podIP"), "<none>"),
        or(text(pod, "/spec/nodeName"), "<none>"),
        or(text(pod, "/status/nominatedNodeName"), "<none>"),
        gates,
    ])
}

fn node(node: &Value, name: &str, old: &str) -> Value {
    let ready = object::condition(node, "Ready").map(|c| text(c, "/status") == "True");
    let mut status = match ready {
        Some(true) => "Ready".to_owned(),
        Some(false) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = node
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        list(node, "/status/addresses")
            .iter()
            .find(|a| text(a, "/type") == kind)
            .map_or("<none>", |a| text(a, "/address"))
    };
    let info = |field: &str| text(node, &format!("/status/nodeInfo/{field}")).to_owned();
    json!([
        name,
        status,
        or(&roles.join(","), "<none>"),
        old,
        info("kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        or(&info("osImage"), "<unknown>"),
        or(&info("kernelVersion"), "<unknown>"),
        or(&info("containerRuntimeVersion"), "<unknown>"),
    ])
}

fn claim(claim: &Value, name: &str, old: &str) -> Value {
    let phase = if object::terminating(claim) {
        "Terminating"
    } else {
        text(claim, "/status/phase")
    };
    let modes: Vec<&str> = list(claim, "/status/accessModes")
        .iter()
        .filter_map(Value::as_str)
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    json!([
        name,
        phase,
        text(claim, "/spec/volumeName"),
        text(claim, "/status/capacity/storage"),
        modes.join(","),
        text(claim, "/spec/storageClassName"),
        or(text(claim, "/spec/volumeAttributesClassName"), "<unset>"),
        old,
        or(text(claim, "/spec/volumeMode"), "<unset>"),
    ])
}

fn quota(quota: &Value) -> (String, String) {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in quota
        .pointer("/status/hard")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let used = quota
            .pointer("/status/used")
            .and_then(|used| used.get(name))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let hard = hard.as_str().unwrap_or_default();
        let list = if name.starts_with("limits") {
            &mut limits
        } else {
            &mut requests
        };
        list.push(format!("{name}: {used}/{hard}"));
    }
    (requests.join(", "), limits.join(", "))
}

fn event(event: &Value, name: &str, now: Timestamp) -> Value {
    let first_of = |pointers: &[&str]| {
        pointers
            .iter()
            .map(|p| text(event, p))
            .find(|t| !t.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let first = first_of(&["/firstTimestamp", "/eventTime"]);
    let last = first_of(&[
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/firstTimestamp",
        "/eventTime",
    ]);
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    let component = first_of(&["/source/component", "/reportingComponent"]);
    let host = first_of(&["/source/host", "/reportingInstance"]);
    let source = if host.is_empty() {
        component
    } else {
        format!("{component}, {host}")
    };
    let count = event
        .get("count")
        .or_else(|| event.pointer("/series/count"))
        .and_then(Value::as_i64);
    json!([
        age(&last, now),
        text(event, "/type"),
        text(event, "/reason"),
        format!("{kind}/{}", text(event, "/involvedObject/name")),
        text(event, "/involvedObject/fieldPath"),
        source,
        text(event, "/message").trim(),
        age(&first, now),
        count.unwrap_or(1).to_string(),
        name,
    ])
}

fn slice(slice: &Value, name: &str, old: &str) -> Value {
    let ports: Vec<String> = list(slice, "/ports")
        .iter()
        .map(|p| {
            p.get("port")
                .and_then(Value::as_i64)
                .map_or("*".into(), |n| n.to_string())
        })
        .collect();
    let addresses: Vec<&str> = list(slice, "/endpoints")
        .iter()
        .flat_map(|e| list(e, "/addresses"))
        .filter_map(Value::as_str)
        .collect();
    let shown = match addresses.get(..3) {
        Some(three) if addresses.len() > 3 => {
            format!("{} + {} more...", three.join(","), addresses.len() - 3)
        }
        _ => addresses.join(","),
    };
    json!([
        name,
        text(slice, "/addressType"),
        or(&ports.join(","), "<unset>"),
        or(&shown, "<unset>"),
        old,
    ])
}
