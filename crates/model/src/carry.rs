//! What an upgrade carries over from the old manifest: everything that the workspace's addresses and
//! data hang on. All else is the new template's, so that a change of the template lands.

use crate::keys;
use serde_json::{Map, Value, json};

/// Annotations that stay as they were at spawn.
const KEPT: [&str; 3] = [
    keys::WORKSPACE_NAME,
    keys::WORKSPACE_PATH,
    keys::PREVIEW_PATH,
];

/// Carries over name, paths, claims with their mounts, and the service account.
pub fn carry_over(old: &Value, new: &mut Value) {
    for key in KEPT {
        if let Some(value) = annotation(old, key) {
            set_annotation(new, key, value.clone());
        }
    }
    let account = old.pointer("/spec/serviceAccountName");
    if let (Some(account), Some(spec)) = (account, spec_mut(new)) {
        spec.entry("serviceAccountName").or_insert(account.clone());
    }
    for volume in claims(old) {
        carry_volume(old, new, volume);
    }
}

/// What the user of an adopted pod may have set, in the shape of a manifest: the port and the
/// variables of each container. Kept with the workspace, so that every later upgrade finds the same.
#[must_use]
pub fn inherited(manifest: &Value) -> Value {
    let containers = list(manifest, "/spec/containers").map(|container| {
        json!({
            "name": container.get("name"),
            "env": container.get("env").cloned().unwrap_or_else(|| json!([])),
        })
    });
    let containers: Vec<Value> = containers.collect();
    let mut kept = json!({"spec": {"containers": containers}});
    if let Some(port) = annotation(manifest, keys::WORKSPACE_PORT) {
        set_annotation(&mut kept, keys::WORKSPACE_PORT, port.clone());
    }
    kept
}

/// Carries over what was [`inherited`], as far as the template does not set it.
pub fn carry_over_inherited(old: &Value, new: &mut Value) {
    if let Some(port) = annotation(old, keys::WORKSPACE_PORT) {
        set_annotation(new, keys::WORKSPACE_PORT, port.clone());
    }
    for (index, container) in list(old, "/spec/containers").enumerate() {
        let Some(target) = same_container(new, container, index == 0) else {
            continue;
        };
        for variable in list(container, "/env") {
            push_unless(target, "env", variable, |there| {
                there.get("name") == variable.get("name")
            });
        }
    }
}

/// Volumes of claims.
fn claims(manifest: &Value) -> impl Iterator<Item = &Value> {
    list(manifest, "/spec/volumes").filter(|volume| claim_name(volume).is_some())
}

fn claim_name(volume: &Value) -> Option<&str> {
    let name = volume.pointer("/persistentVolumeClaim/claimName");
    name.and_then(Value::as_str)
}

/// Adds the volume and its mounts unless the new manifest mounts the same claim by itself.
fn carry_volume(old: &Value, new: &mut Value, volume: &Value) {
    let taken = |manifest: &Value, name: &str| {
        list(manifest, "/spec/volumes").any(|v| v.get("name").and_then(Value::as_str) == Some(name))
    };
    let (Some(claim), Some(name)) = (claim_name(volume), volume.get("name")) else {
        return;
    };
    if claims(new).any(|volume| claim_name(volume) == Some(claim)) {
        return;
    }
    let Some(old_name) = name.as_str() else {
        return;
    };
    let mut new_name = old_name.to_owned();
    while taken(new, &new_name) {
        new_name.push_str("-kept");
    }
    let mut kept = volume.clone();
    kept["name"] = json!(new_name);
    if let Some(spec) = spec_mut(new) {
        push(spec, "volumes", kept);
    }
    for (index, container) in list(old, "/spec/containers").enumerate() {
        let Some(target) = same_container(new, container, index == 0) else {
            continue;
        };
        for mount in list(container, "/volumeMounts") {
            if mount.get("name").and_then(Value::as_str) != Some(old_name) {
                continue;
            }
            let mut kept = mount.clone();
            kept["name"] = json!(new_name);
            push_unless(target, "volumeMounts", &kept, |there| {
                there.get("mountPath") == mount.get("mountPath")
            });
        }
    }
}

/// The container of the new manifest that has the old one's name; a pod's first container stands for
/// its first one, whatever it is called now.
fn same_container<'a>(
    new: &'a mut Value,
    old: &Value,
    is_first: bool,
) -> Option<&'a mut Map<String, Value>> {
    let containers = new.pointer_mut("/spec/containers")?.as_array_mut()?;
    let named = containers
        .iter()
        .position(|container| container.get("name") == old.get("name"));
    let index = named.or(is_first.then_some(0))?;
    containers.get_mut(index)?.as_object_mut()
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn spec_mut(manifest: &mut Value) -> Option<&mut Map<String, Value>> {
    manifest.get_mut("spec")?.as_object_mut()
}

fn annotation<'a>(manifest: &'a Value, key: &str) -> Option<&'a Value> {
    manifest.get("metadata")?.get("annotations")?.get(key)
}

fn set_annotation(manifest: &mut Value, key: &str, value: Value) {
    crate::record::set(manifest, &["metadata", "annotations", key], value);
}

fn push(object: &mut Map<String, Value>, field: &str, entry: Value) {
    let list = object.entry(field).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.push(entry);
    }
}

fn push_unless(
    object: &mut Map<String, Value>,
    field: &str,
    entry: &Value,
    there: impl Fn(&Value) -> bool,
) {
    let list = object.get(field).and_then(Value::as_array);
    if !list.into_iter().flatten().any(there) {
        push(object, field, entry.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn old() -> Value {
        json!({
            "metadata": {"annotations": {
                keys::WORKSPACE_PATH: "/route/dev/", keys::WORKSPACE_PORT: "8443",
                keys::WORKSPACE_NAME: "Dev box",
            }},
            "spec": {
                "serviceAccountName": "coder",
                "volumes": [
                    {"name": "home", "persistentVolumeClaim": {"claimName": "c-home"}},
                    {"name": "tmp", "emptyDir": {}},
                ],
                "containers": [{
                    "name": "ide",
                    "env": [{"name": "A", "value": "old"}, {"name": "B", "value": "old"}],
                    "volumeMounts": [
                        {"name": "home", "mountPath": "/home"}, {"name": "tmp", "mountPath": "/tmp"},
                    ],
                }],
            },
        })
    }

    #[test]
    fn claims_and_their_mounts_survive_a_template_that_forgot_them() {
        let mut new = json!({
            "metadata": {"annotations": {keys::WORKSPACE_NAME: "dev"}},
            "spec": {"containers": [{"name": "renamed", "image": "two"}]},
        });
        carry_over(&old(), &mut new);
        assert_eq!(
            new["spec"]["volumes"],
            json!([{"name": "home", "persistentVolumeClaim": {"claimName": "c-home"}}])
        );
        assert_eq!(
            new["spec"]["containers"][0]["volumeMounts"],
            json!([{"name": "home", "mountPath": "/home"}])
        );
        assert_eq!(new["spec"]["serviceAccountName"], "coder");
        assert_eq!(
            new["metadata"]["annotations"][keys::WORKSPACE_PATH],
            "/route/dev/"
        );
        assert_eq!(
            new["metadata"]["annotations"][keys::WORKSPACE_NAME],
            "Dev box"
        );
        assert!(
            new["metadata"]["annotations"]
                .get(keys::WORKSPACE_PORT)
                .is_none()
        );
    }

    #[test]
    fn the_template_decides_about_what_it_names() {
        let before = json!({"spec": {
            "serviceAccountName": "other",
            "volumes": [
                {"name": "home", "emptyDir": {}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "c-home"}},
            ],
            "containers": [{"name": "ide", "volumeMounts": [{"name": "data", "mountPath": "/new"}]}],
        }});
        let mut new = before.clone();
        carry_over(&old(), &mut new);
        assert_eq!(new["spec"], before["spec"]);
    }

    #[test]
    fn a_volume_name_that_is_taken_gives_way() {
        let mut new = json!({"spec": {
            "volumes": [{"name": "home", "emptyDir": {}}],
            "containers": [{"name": "ide", "volumeMounts": [{"name": "home", "mountPath": "/x"}]}],
        }});
        carry_over(&old(), &mut new);
        assert_eq!(new["spec"]["volumes"][1]["name"], "home-kept");
        assert_eq!(
            new["spec"]["containers"][0]["volumeMounts"][1],
            json!({"name": "home-kept", "mountPath": "/home"})
        );
    }

    #[test]
    fn an_adopted_pod_also_keeps_its_port_and_the_variables_that_the_template_lacks() {
        let mut new = json!({"spec": {"containers": [{"name": "ide", "env": [{"name": "A", "value": "new"}]}]}});
        carry_over_inherited(&inherited(&old()), &mut new);
        assert_eq!(
            new["spec"]["containers"][0]["env"],
            json!([{"name": "A", "value": "new"}, {"name": "B", "value": "old"}])
        );
        assert_eq!(new["metadata"]["annotations"][keys::WORKSPACE_PORT], "8443");
    }

    #[test]
    fn twice_is_once() {
        let mut once = json!({"spec": {"containers": [{"name": "ide"}]}});
        carry_over(&old(), &mut once);
        let mut twice = once.clone();
        carry_over(&old(), &mut twice);
        assert_eq!(once, twice);
    }
}
