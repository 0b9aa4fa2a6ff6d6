//! Defaulting of pods (`pkg/apis/core/v1/defaults.go`) and the built-in admission that fills
//! fields: service account, priority, tolerations.

use serde_json::{Value, json};

use crate::apiserver::object::{self, default, list_mut};

/// Fills what the API's defaulting functions fill.
pub(crate) fn apply(pod: &mut Value) {
    let spec = object::child(pod, "spec");
    default(spec, &["restartPolicy"], "Always");
    default(spec, &["terminationGracePeriodSeconds"], 30);
    default(spec, &["dnsPolicy"], "ClusterFirst");
    default(spec, &["schedulerName"], "default-scheduler");
    default(spec, &["enableServiceLinks"], true);
    object::child(spec, "securityContext");
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, &[field]).into_iter().flatten() {
            container_defaults(container);
        }
    }
    for volume in list_mut(spec, &["volumes"]).into_iter().flatten() {
        volume_defaults(volume);
    }
}

fn container_defaults(container: &mut Value) {
    default(
        container,
        &["terminationMessagePath"],
        "/dev/termination-log",
    );
    default(container, &["terminationMessagePolicy"], "File");
    let pull = pull_policy(object::text(container, "/image"));
    default(container, &["imagePullPolicy"], pull);
    object::child(container, "resources");
    let limits = container.pointer("/resources/limits").cloned();
    if let Some(Value::Object(limits)) = limits {
        for (name, amount) in limits {
            default(container, &["resources", "requests", name.as_str()], amount);
        }
    }
    for port in list_mut(container, &["ports"]).into_iter().flatten() {
        default(port, &["protocol"], "TCP");
    }
    for env in list_mut(container, &["env"]).into_iter().flatten() {
        if env.pointer("/valueFrom/fieldRef").is_some() {
            default(env, &["valueFrom", "fieldRef", "apiVersion"], "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).filter(|p| p.is_object()) {
            default(probe, &["timeoutSeconds"], 1);
            default(probe, &["periodSeconds"], 10);
            default(probe, &["successThreshold"], 1);
            default(probe, &["failureThreshold"], 3);
            http_get(probe);
            if probe.get("grpc").is_some() {
                default(probe, &["grpc", "service"], "");
            }
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.get_mut("lifecycle").and_then(|l| l.get_mut(hook)) {
            http_get(hook);
        }
    }
}

fn http_get(holder: &mut Value) {
    if holder.get("httpGet").is_some_and(Value::is_object) {
        default(holder, &["httpGet", "path"], "/");
        default(holder, &["httpGet", "scheme"], "HTTP");
    }
}

/// `Always` for `:latest` or no tag, else `IfNotPresent`.
fn pull_policy(image: &str) -> &'static str {
    let last = image.rsplit('/').next().unwrap_or_default();
    if image.contains('@') {
        return "IfNotPresent";
    }
    match last.split_once(':') {
        None | Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
    }
}

fn volume_defaults(volume: &mut Value) {
    let has_source = volume
        .as_object()
        .is_some_and(|v| v.keys().any(|key| key != "name"));
    if !has_source {
        object::set(volume, &["emptyDir"], json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if volume.get(source).is_some_and(Value::is_object) {
            default(volume, &[source, "defaultMode"], 420);
        }
    }
    if volume.get("hostPath").is_some_and(Value::is_object) {
        default(volume, &["hostPath", "type"], "");
    }
    for item in list_mut(volume, &["downwardAPI", "items"])
        .into_iter()
        .flatten()
    {
        if item.get("fieldRef").is_some() {
            default(item, &["fieldRef", "apiVersion"], "v1");
        }
    }
}

/// Fills what admission fills when a pod is made.
pub(crate) fn admit(pod: &mut Value) {
    let spec = object::child(pod, "spec");
    default(spec, &["serviceAccountName"], "default");
    object::copy_within(spec, "serviceAccountName", "serviceAccount");
    default(spec, &["priority"], 0);
    default(spec, &["preemptionPolicy"], "PreemptLowerPriority");
    let tolerations = object::child(spec, "tolerations");
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let Some(list) = tolerations.as_array_mut() else {
            continue;
        };
        let covered = list.iter().any(|t| {
            let named = object::text(t, "/key");
            (named == key || named.is_empty())
                && matches!(object::text(t, "/effect"), "" | "NoExecute")
        });
        if !covered {
            list.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}

/// The quality-of-service class that requests and limits of cpu and memory give.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let containers = object::list(pod, "/spec/containers")
        .iter()
        .chain(object::list(pod, "/spec/initContainers"));
    let (mut any, mut all_equal) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let request = container.pointer(&format!("/resources/requests/{resource}"));
            let limit = container.pointer(&format!("/resources/limits/{resource}"));
            any |= request.is_some() || limit.is_some();
            all_equal &= limit.is_some() && request == limit;
        }
    }
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
