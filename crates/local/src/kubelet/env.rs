//! The environment of a container: `env`, `envFrom`, the downward API and `$(VAR)`
//! expansion. Pure: what it needs from ConfigMaps and Secrets is listed first
//! ([`sources`]) and handed in.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};

/// A ConfigMap or Secret of the pod's namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    ConfigMap(String),
    Secret(String),
}

impl Source {
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::ConfigMap(name) => format!("configmap \"{name}\""),
            Self::Secret(name) => format!("secret \"{name}\""),
        }
    }
}

/// The data of the sources that exist.
pub(crate) type SourceData = BTreeMap<Source, BTreeMap<String, Vec<u8>>>;

/// What the downward API says of a pod beyond its own manifest.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) pod_ip: String,
    pub(crate) host_ip: String,
    pub(crate) node_name: String,
}

/// Which ConfigMaps and Secrets a container's environment reads.
pub(crate) fn sources(container: &Container) -> BTreeSet<Source> {
    let mut found = BTreeSet::new();
    for from in container.env_from.iter().flatten() {
        if let Some(map) = &from.config_map_ref {
            found.insert(Source::ConfigMap(map.name.clone()));
        }
        if let Some(secret) = &from.secret_ref {
            found.insert(Source::Secret(secret.name.clone()));
        }
    }
    for from in container
        .env
        .iter()
        .flatten()
        .filter_map(|var| var.value_from.as_ref())
    {
        if let Some(key) = &from.config_map_key_ref {
            found.insert(Source::ConfigMap(key.name.clone()));
        }
        if let Some(key) = &from.secret_key_ref {
            found.insert(Source::Secret(key.name.clone()));
        }
    }
    found
}

/// The container's variables. `base` is what the node itself sets, which the
/// container may override and refer to.
///
/// # Errors
/// A sentence in the kubelet's words: a missing source or key, an unknown field.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    facts: &Facts,
    data: &SourceData,
    base: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = base;
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let (source, optional) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(map), _) => (Source::ConfigMap(map.name.clone()), map.optional),
            (None, Some(secret)) => (Source::Secret(secret.name.clone()), secret.optional),
            (None, None) => continue,
        };
        match data.get(&source) {
            Some(entries) => {
                for (key, value) in entries {
                    env.insert(
                        format!("{prefix}{key}"),
                        String::from_utf8_lossy(value).into_owned(),
                    );
                }
            }
            None if optional == Some(true) => {}
            None => return Err(format!("{} not found", source.describe())),
        }
    }
    for var in container.env.iter().flatten() {
        if let Some(value) = value_of(pod, var, facts, data, &env)? {
            env.insert(var.name.clone(), value);
        }
    }
    Ok(env)
}

fn value_of(
    pod: &Pod,
    var: &EnvVar,
    facts: &Facts,
    data: &SourceData,
    env: &BTreeMap<String, String>,
) -> Result<Option<String>, String> {
    if let Some(value) = &var.value {
        return Ok(Some(expand(value, env)));
    }
    let Some(from) = &var.value_from else {
        return Ok(Some(String::new()));
    };
    match from {
        EnvVarSource {
            field_ref: Some(field),
            ..
        } => field_value(pod, field, facts).map(Some),
        EnvVarSource {
            config_map_key_ref: Some(key),
            ..
        } => keyed(
            data,
            &Source::ConfigMap(key.name.clone()),
            &key.key,
            key.optional,
        ),
        EnvVarSource {
            secret_key_ref: Some(key),
            ..
        } => keyed(
            data,
            &Source::Secret(key.name.clone()),
            &key.key,
            key.optional,
        ),
        _ => Err(format!(
            "env {}: this node supports valueFrom with fieldRef, configMapKeyRef and secretKeyRef only",
            var.name
        )),
    }
}

fn keyed(
    data: &SourceData,
    source: &Source,
    key: &str,
    optional: Option<bool>,
) -> Result<Option<String>, String> {
    let optional = optional == Some(true);
    match data.get(source).map(|entries| entries.get(key)) {
        Some(Some(value)) => Ok(Some(String::from_utf8_lossy(value).into_owned())),
        _ if optional => Ok(None),
        None => Err(format!("{} not found", source.describe())),
        Some(None) => Err(format!("couldn't find key {key} in {}", source.describe())),
    }
}

/// A `fieldRef` of the downward API, in environments and in volumes.
pub(crate) fn field_value(
    pod: &Pod,
    field: &ObjectFieldSelector,
    facts: &Facts,
) -> Result<String, String> {
    let meta = &pod.metadata;
    let path = field.field_path.as_str();
    if let Some((map, key)) = subscript(path) {
        let entries = match map {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return Err(format!("unsupported fieldPath: {path}")),
        };
        return Ok(entries
            .as_ref()
            .and_then(|map| map.get(key))
            .cloned()
            .unwrap_or_default());
    }
    let spec = pod.spec.as_ref();
    Ok(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => facts.node_name.clone(),
        "spec.serviceAccountName" => spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_default(),
        "status.podIP" | "status.podIPs" => facts.pod_ip.clone(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.clone(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// `metadata.labels['key']` -> (`metadata.labels`, `key`).
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// A whole map as the downward API prints it in volumes.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let entries = map.into_iter().flatten();
    entries
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Replaces `$(NAME)` by the variable; `$$` is one `$`; what has no meaning stays.
pub(crate) fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(escaped) = after.strip_prefix('$') {
            out.push('$');
            rest = escaped;
        } else if let Some((name, tail)) = after.strip_prefix('(').and_then(|t| t.split_once(')')) {
            match env.get(name) {
                Some(value) => out.push_str(value),
                None => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = tail;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::needless_pass_by_value)] // `json!` values read better without a reference
    use super::*;
    use serde_json::json;

    fn facts() -> Facts {
        Facts {
            pod_ip: "127.64.0.1".into(),
            host_ip: "127.0.0.1".into(),
            node_name: "local".into(),
        }
    }

    fn run(
        container: serde_json::Value,
        data: &SourceData,
    ) -> Result<BTreeMap<String, String>, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a/b": "c"},
                         "annotations": {"k": "v w"}},
            "spec": {"containers": [container], "serviceAccountName": "sa"}
        }))
        .unwrap();
        let container = pod.spec.as_ref().unwrap().containers[0].clone();
        let base = BTreeMap::from([("BASE".to_owned(), "b".to_owned())]);
        environment(&pod, &container, &facts(), data, base)
    }

    #[test]
    fn expansion() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expanded) in [
            ("plain", "plain"),
            ("$(A)", "1"),
            ("x$(A)y$(A)", "x1y1"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$1"),
            ("$(A", "$(A"),
            ("$A ${A}", "$A ${A}"),
            ("a$", "a$"),
        ] {
            assert_eq!(expand(text, &env), expanded, "{text}");
        }
    }

    #[test]
    fn downward_api_and_references() {
        let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
        let env = run(
            json!({"name": "c", "env": [
                {"name": "NAME", "valueFrom": field("metadata.name")},
                {"name": "LABEL", "valueFrom": field("metadata.labels['a/b']")},
                {"name": "NOTE", "valueFrom": field("metadata.annotations['k']")},
                {"name": "NONE", "valueFrom": field("metadata.labels['x']")},
                {"name": "IP", "valueFrom": field("status.podIP")},
                {"name": "NODE", "valueFrom": field("spec.nodeName")},
                {"name": "URL", "value": "http://$(IP):1/$(BASE)/$(LATER)"},
                {"name": "LATER", "value": "l"},
                {"name": "EMPTY"}
            ]}),
            &SourceData::new(),
        )
        .unwrap();
        for (name, value) in [
            ("NAME", "p"),
            ("LABEL", "c"),
            ("NOTE", "v w"),
            ("NONE", ""),
            ("IP", "127.64.0.1"),
            ("NODE", "local"),
            ("URL", "http://127.64.0.1:1/b/$(LATER)"),
            ("EMPTY", ""),
        ] {
            assert_eq!(env.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn later_wins_and_env_beats_env_from() {
        let data = SourceData::from([
            (
                Source::ConfigMap("m".into()),
                BTreeMap::from([("A".into(), b"map".to_vec()), ("B".into(), b"map".to_vec())]),
            ),
            (
                Source::Secret("s".into()),
                BTreeMap::from([("B".into(), b"secret".to_vec())]),
            ),
        ]);
        let env = run(
            json!({"name": "c",
                "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}},
                            {"prefix": "P_", "configMapRef": {"name": "m"}}],
                "env": [{"name": "A", "value": "own"}]}),
            &data,
        )
        .unwrap();
        assert_eq!(
            (env["A"].as_str(), env["B"].as_str(), env["P_A"].as_str()),
            ("own", "secret", "map")
        );
    }

    #[test]
    fn missing_sources_are_named_unless_optional() {
        let data = SourceData::from([(Source::ConfigMap("m".into()), BTreeMap::new())]);
        let key = |kind: &str, name: &str, optional: bool| {
            json!({"name": "c", "env": [{"name": "A", "valueFrom":
                {kind: {"name": name, "key": "k", "optional": optional}}}]})
        };
        assert_eq!(
            run(key("configMapKeyRef", "x", false), &data).unwrap_err(),
            "configmap \"x\" not found"
        );
        assert_eq!(
            run(key("secretKeyRef", "x", false), &data).unwrap_err(),
            "secret \"x\" not found"
        );
        assert_eq!(
            run(key("configMapKeyRef", "m", false), &data).unwrap_err(),
            "couldn't find key k in configmap \"m\""
        );
        assert!(
            !run(key("configMapKeyRef", "m", true), &data)
                .unwrap()
                .contains_key("A")
        );
        assert!(
            !run(key("secretKeyRef", "x", true), &data)
                .unwrap()
                .contains_key("A")
        );
        let from = json!({"name": "c", "envFrom": [{"secretRef": {"name": "gone"}}]});
        assert_eq!(run(from, &data).unwrap_err(), "secret \"gone\" not found");
        let field = json!({"name": "c", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]});
        assert_eq!(
            run(field, &data).unwrap_err(),
            "unsupported fieldPath: spec.x"
        );
    }
}
