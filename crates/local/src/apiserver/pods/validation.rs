//! Validation of a new pod: the rules of `pkg/apis/core/validation` that people run into.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::apiserver::failure::Cause;
use crate::apiserver::object::{self, list, text};
use crate::apiserver::validate;

/// What is wrong with the spec of a pod that has been defaulted.
pub(crate) fn check(pod: &Value, causes: &mut Vec<Cause>) {
    let volumes = volumes(pod, causes);
    if list(pod, "/spec/containers").is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    let mut names = BTreeSet::new();
    for field in ["initContainers", "containers"] {
        for (index, c) in list(pod, &format!("/spec/{field}")).iter().enumerate() {
            container(
                c,
                &format!("spec.{field}[{index}]"),
                &mut names,
                &volumes,
                causes,
            );
        }
    }
    one_of(
        pod,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
        causes,
    );
    one_of(
        pod,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        causes,
    );
    if let Some(seconds) = pod
        .pointer("/spec/activeDeadlineSeconds")
        .and_then(Value::as_i64)
        && seconds < 1
    {
        causes.push(Cause::invalid(
            "spec.activeDeadlineSeconds",
            &seconds.into(),
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    gates(pod, causes);
    for (field, pointer) in [
        ("spec.nodeName", "/spec/nodeName"),
        ("spec.serviceAccountName", "/spec/serviceAccountName"),
    ] {
        let name = text(pod, pointer);
        if !name.is_empty()
            && let Some(why) = validate::dns_subdomain(name)
        {
            causes.push(Cause::invalid(field, &name.into(), &why));
        }
    }
    if let Some(Value::Object(selector)) = pod.pointer("/spec/nodeSelector") {
        for (key, value) in selector {
            let why = validate::qualified_name(key)
                .or_else(|| validate::label_value(value.as_str().unwrap_or_default()));
            if let Some(why) = why {
                causes.push(Cause::invalid(
                    "spec.nodeSelector",
                    &key.as_str().into(),
                    &why,
                ));
            }
        }
    }
}

fn one_of(pod: &Value, field: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    let value = text(pod, &format!("/spec/{field}"));
    if !allowed.contains(&value) {
        causes.push(Cause::unsupported(
            format!("spec.{field}"),
            &value.into(),
            allowed,
        ));
    }
}

fn gates(pod: &Value, causes: &mut Vec<Cause>) {
    let gates = list(pod, "/spec/schedulingGates");
    let mut seen = BTreeSet::new();
    for (index, gate) in gates.iter().enumerate() {
        let name = text(gate, "/name");
        let field = format!("spec.schedulingGates[{index}]");
        if let Some(why) = validate::qualified_name(name) {
            causes.push(Cause::invalid(field.clone(), &name.into(), &why));
        }
        if !seen.insert(name) {
            causes.push(Cause::duplicate(field, &name.into()));
        }
    }
    if !gates.is_empty() && !text(pod, "/spec/nodeName").is_empty() {
        causes.push(Cause::forbidden(
            "spec.nodeName",
            "cannot be set until all schedulingGates have been cleared",
        ));
    }
}

fn volumes<'a>(pod: &'a Value, causes: &mut Vec<Cause>) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, volume) in list(pod, "/spec/volumes").iter().enumerate() {
        let name = text(volume, "/name");
        let field = format!("spec.volumes[{index}]");
        if name.is_empty() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if let Some(why) = validate::dns_label(name) {
            causes.push(Cause::invalid(format!("{field}.name"), &name.into(), &why));
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{field}.name"), &name.into()));
        }
        let sources = volume
            .as_object()
            .map_or(0, |v| v.keys().filter(|k| *k != "name").count());
        if sources > 1 {
            causes.push(Cause::forbidden(
                field,
                "may not specify more than 1 volume type",
            ));
        } else if volume.get("persistentVolumeClaim").is_some()
            && text(volume, "/persistentVolumeClaim/claimName").is_empty()
        {
            causes.push(Cause::required(
                format!("{field}.persistentVolumeClaim.claimName"),
                "",
            ));
        }
    }
    names
}

fn container<'a>(
    container: &'a Value,
    field: &str,
    names: &mut BTreeSet<&'a str>,
    volumes: &BTreeSet<&str>,
    causes: &mut Vec<Cause>,
) {
    let name = text(container, "/name");
    if name.is_empty() {
        causes.push(Cause::required(format!("{field}.name"), ""));
    } else if let Some(why) = validate::dns_label(name) {
        causes.push(Cause::invalid(format!("{field}.name"), &name.into(), &why));
    } else if !names.insert(name) {
        causes.push(Cause::duplicate(format!("{field}.name"), &name.into()));
    }
    let image = text(container, "/image");
    if image.is_empty() {
        causes.push(Cause::required(format!("{field}.image"), ""));
    } else if image.trim() != image {
        causes.push(Cause::invalid(
            format!("{field}.image"),
            &image.into(),
            "must not have leading or trailing whitespace",
        ));
    }
    ports(container, field, causes);
    for (index, env) in list(container, "/env").iter().enumerate() {
        let name = text(env, "/name");
        let at = format!("{field}.env[{index}]");
        if name.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
            causes.push(Cause::invalid(
                format!("{at}.name"),
                &name.into(),
                "a valid environment variable name must consist only of printable ASCII \
                 characters other than '='",
            ));
        }
        if !text(env, "/value").is_empty() && env.get("valueFrom").is_some() {
            causes.push(Cause::invalid(
                format!("{at}.valueFrom"),
                &"".into(),
                "may not be specified when `value` is not empty",
            ));
        }
    }
    let mut paths = BTreeSet::new();
    for (index, mount) in list(container, "/volumeMounts").iter().enumerate() {
        let at = format!("{field}.volumeMounts[{index}]");
        let (volume, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if volume.is_empty() {
            causes.push(Cause::required(format!("{at}.name"), ""));
        } else if !volumes.contains(volume) {
            causes.push(Cause::not_found(format!("{at}.name"), &volume.into()));
        }
        if path.is_empty() {
            causes.push(Cause::required(format!("{at}.mountPath"), ""));
        } else if !paths.insert(path) {
            causes.push(Cause::invalid(
                format!("{at}.mountPath"),
                &path.into(),
                "must be unique",
            ));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(p) = container.get(probe).filter(|p| p.is_object()) {
            self::probe(
                p,
                &format!("{field}.{probe}"),
                probe == "readinessProbe",
                causes,
            );
        }
    }
}

fn ports(container: &Value, field: &str, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "/ports").iter().enumerate() {
        let at = format!("{field}.ports[{index}]");
        let number = port
            .get("containerPort")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        if number == 0 {
            causes.push(Cause::required(format!("{at}.containerPort"), ""));
        } else if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                format!("{at}.containerPort"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
        let name = text(port, "/name");
        if name.is_empty() {
            continue;
        }
        let good = name.len() <= 15
            && validate::dns_label(name).is_none()
            && !name.contains("--")
            && name.chars().any(|c| c.is_ascii_lowercase());
        if !good {
            causes.push(Cause::invalid(
                format!("{at}.name"),
                &name.into(),
                "must be no more than 15 lower case alphanumeric characters or '-', with at \
                 least one letter",
            ));
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(format!("{at}.name"), &name.into()));
        }
    }
}

fn probe(probe: &Value, field: &str, readiness: bool, causes: &mut Vec<Cause>) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc"]
        .into_iter()
        .filter(|handler| probe.get(*handler).is_some())
        .count();
    match handlers {
        0 => causes.push(Cause::required(field, "must specify a handler type")),
        1 => {}
        _ => causes.push(Cause::forbidden(
            field,
            "may not specify more than 1 handler type",
        )),
    }
    for seconds in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "failureThreshold",
    ] {
        if let Some(value) = probe.get(seconds).and_then(Value::as_i64)
            && value < 0
        {
            causes.push(Cause::invalid(
                format!("{field}.{seconds}"),
                &value.into(),
                "must be greater than or equal to 0",
            ));
        }
    }
    let success = probe
        .get("successThreshold")
        .and_then(Value::as_i64)
        .unwrap_or(1);
    if !readiness && success != 1 {
        causes.push(Cause::invalid(
            format!("{field}.successThreshold"),
            &success.into(),
            "must be 1",
        ));
    }
    if object::list(probe, "/exec/command").is_empty() && probe.get("exec").is_some() {
        causes.push(Cause::required(format!("{field}.exec.command"), ""));
    }
}
