//! Volumes as folders.
//!
//! All pods share this machine's file system, so nothing can be mounted at a
//! `mountPath`. Instead each volume is a folder of the pod, and each volume that a
//! container mounts is told to it as `NOGOO9_VOLUME_{NAME}` (upper case, `_` for
//! what is no letter or digit), with its `subPath` if it has one. Programs that are
//! meant to run both here and in a cluster take that variable over their default
//! path; `$(NOGOO9_VOLUME_DATA)` also works in `args` and `env`.
//!
//! ConfigMaps, Secrets and the downward API are written once, before the first
//! container starts; later changes arrive with the next pod.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    Container, DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection,
};

use super::env::{Facts, Source, SourceData, field_value};

/// What a volume is here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Empty,
    Files(Vec<Part>),
    Claim(String),
}

/// One contribution to a volume of files.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Keys {
        source: Source,
        items: Option<Vec<KeyToPath>>,
        optional: bool,
    },
    Downward(Vec<DownwardAPIVolumeFile>),
}

/// A file of a volume: path below it, content, mode.
pub(crate) type File = (PathBuf, Vec<u8>, u32);

/// What the pod's volumes are.
///
/// # Errors
/// Names the volume whose kind has no meaning here.
pub(crate) fn contents(pod: &Pod) -> Result<BTreeMap<String, Content>, String> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .map(|volume| Ok((volume.name.clone(), content(volume)?)))
        .collect()
}

fn content(volume: &Volume) -> Result<Content, String> {
    if volume.empty_dir.is_some() {
        return Ok(Content::Empty);
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        return Ok(Content::Claim(claim.claim_name.clone()));
    }
    if let Some(map) = &volume.config_map {
        return Ok(Content::Files(vec![Part::Keys {
            source: Source::ConfigMap(map.name.clone()),
            items: map.items.clone(),
            optional: map.optional == Some(true),
        }]));
    }
    if let Some(secret) = &volume.secret {
        return Ok(Content::Files(vec![Part::Keys {
            source: Source::Secret(secret.secret_name.clone().unwrap_or_default()),
            items: secret.items.clone(),
            optional: secret.optional == Some(true),
        }]));
    }
    if let Some(downward) = &volume.downward_api {
        return Ok(Content::Files(vec![Part::Downward(
            downward.items.clone().unwrap_or_default(),
        )]));
    }
    if let Some(projected) = &volume.projected {
        let parts = projected
            .sources
            .iter()
            .flatten()
            .filter_map(part)
            .collect();
        return Ok(Content::Files(parts));
    }
    Err(format!(
        "volume \"{}\": this node supports emptyDir, configMap, secret, downwardAPI, projected and persistentVolumeClaim",
        volume.name
    ))
}

/// A projected source; service account tokens and cluster certificates, which every
/// cluster adds to every pod, have no meaning on this node and are left out.
fn part(projection: &VolumeProjection) -> Option<Part> {
    if let Some(map) = &projection.config_map {
        return Some(Part::Keys {
            source: Source::ConfigMap(map.name.clone()),
            items: map.items.clone(),
            // `kube-root-ca.crt` is published with a delay, or not at all.
            optional: map.optional == Some(true) || map.name == "kube-root-ca.crt",
        });
    }
    if let Some(secret) = &projection.secret {
        return Some(Part::Keys {
            source: Source::Secret(secret.name.clone()),
            items: secret.items.clone(),
            optional: secret.optional == Some(true),
        });
    }
    let downward = projection.downward_api.as_ref()?;
    Some(Part::Downward(downward.items.clone().unwrap_or_default()))
}

/// Which ConfigMaps and Secrets the volumes read.
pub(crate) fn sources(contents: &BTreeMap<String, Content>) -> BTreeSet<Source> {
    let mut found = BTreeSet::new();
    for content in contents.values() {
        if let Content::Files(parts) = content {
            for part in parts {
                if let Part::Keys { source, .. } = part {
                    found.insert(source.clone());
                }
            }
        }
    }
    found
}

/// The files of a volume.
///
/// # Errors
/// A sentence in the kubelet's words: a missing source or key, a path that leaves
/// the volume.
pub(crate) fn files(
    pod: &Pod,
    parts: &[Part],
    facts: &Facts,
    data: &SourceData,
) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    for part in parts {
        match part {
            Part::Keys {
                source,
                items,
                optional,
            } => {
                let private = matches!(source, Source::Secret(_));
                let mode = if private { 0o600 } else { 0o644 };
                let Some(entries) = data.get(source) else {
                    if *optional {
                        continue;
                    }
                    return Err(format!("{} not found", source.describe()));
                };
                match items {
                    None => {
                        for (key, value) in entries {
                            files.push((inside(key)?, value.clone(), mode));
                        }
                    }
                    Some(items) => {
                        for item in items {
                            match entries.get(&item.key) {
                                Some(value) => {
                                    files.push((inside(&item.path)?, value.clone(), mode));
                                }
                                None if *optional => {}
                                None => {
                                    return Err(format!(
                                        "{} references non-existent key: {}",
                                        source.describe(),
                                        item.key
                                    ));
                                }
                            }
                        }
                    }
                }
            }
            Part::Downward(items) => {
                for item in items {
                    let field = item
                        .field_ref
                        .as_ref()
                        .ok_or_else(|| format!("{}: only fieldRef is supported", item.path))?;
                    files.push((
                        inside(&item.path)?,
                        field_value(pod, field, facts)?.into_bytes(),
                        0o644,
                    ));
                }
            }
        }
    }
    Ok(files)
}

/// A path that stays below where it is joined.
fn inside(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    let stays = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays && path.file_name().is_some() {
        Ok(path)
    } else {
        Err(format!("invalid path {}", path.display()))
    }
}

/// Writes the files of one volume.
pub(crate) fn write(volume: &Path, files: &[File]) -> io::Result<()> {
    std::fs::create_dir_all(volume)?;
    for (path, bytes, mode) in files {
        let target = volume.join(path);
        if let Some(parent) = target.parent() {
            std::fs::create_dir_all(parent)?;
        }
        // Beside it, then renamed: a container never sees half a file, and the mode
        // is right before the name is.
        let mut beside = target.clone().into_os_string();
        beside.push(".new");
        std::fs::write(&beside, b"")?;
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(*mode))?;
        std::fs::write(&beside, bytes)?;
        std::fs::rename(&beside, &target)?;
    }
    Ok(())
}

/// The `NOGOO9_VOLUME_*` variables of a container.
///
/// # Errors
/// Names a mount of a volume that the pod does not have, or a path that leaves it.
pub(crate) fn variables(
    container: &Container,
    folders: &BTreeMap<String, PathBuf>,
) -> Result<BTreeMap<String, String>, String> {
    let mut variables = BTreeMap::new();
    for mount in container.volume_mounts.iter().flatten() {
        let folder = folders
            .get(&mount.name)
            .ok_or_else(|| format!("no volume named \"{}\"", mount.name))?;
        let folder = match mount.sub_path.as_deref().filter(|path| !path.is_empty()) {
            Some(path) => folder.join(inside(path)?),
            None => folder.clone(),
        };
        let name: String = mount
            .name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            })
            .collect();
        variables.insert(
            format!("NOGOO9_VOLUME_{name}"),
            folder.to_string_lossy().into_owned(),
        );
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(volumes: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "volumeMounts": [
                {"name": "my-data", "mountPath": "/data", "subPath": "deep/er"}]}], "volumes": volumes}
        }))
        .unwrap()
    }

    fn listed(volume: &Value, data: &SourceData) -> Result<Vec<(String, String)>, String> {
        let pod = pod(&json!([volume]));
        let facts = Facts {
            pod_ip: "127.64.0.1".into(),
            host_ip: "h".into(),
            node_name: "n".into(),
        };
        let contents = contents(&pod)?;
        let Some(Content::Files(parts)) = contents.values().next() else {
            return Ok(vec![]);
        };
        let files = files(&pod, parts, &facts, data)?;
        Ok(files
            .into_iter()
            .map(|(path, bytes, mode)| {
                (
                    format!("{} {mode:o}", path.display()),
                    String::from_utf8(bytes).unwrap(),
                )
            })
            .collect())
    }

    #[test]
    fn what_is_written() {
        let data = SourceData::from([
            (
                Source::ConfigMap("m".into()),
                BTreeMap::from([("k".into(), b"v".to_vec()), ("l".into(), b"w".to_vec())]),
            ),
            (
                Source::Secret("s".into()),
                BTreeMap::from([("key".into(), b"secret".to_vec())]),
            ),
        ]);
        let entry = |path: &str, text: &str| (path.to_owned(), text.to_owned());
        for (volume, wanted) in [
            (
                json!({"name": "v", "configMap": {"name": "m"}}),
                vec![entry("k 644", "v"), entry("l 644", "w")],
            ),
            (
                json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "a/b"}]}}),
                vec![entry("a/b 644", "v")],
            ),
            (
                json!({"name": "v", "secret": {"secretName": "s"}}),
                vec![entry("key 600", "secret")],
            ),
            (
                json!({"name": "v", "secret": {"secretName": "x", "optional": true}}),
                vec![],
            ),
            (
                json!({"name": "v", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
                vec![entry("l 644", "a=\"b\"")],
            ),
            (
                json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt"}}, {"secret": {"name": "s"}}]}}),
                vec![entry("key 600", "secret")],
            ),
            (json!({"name": "v", "emptyDir": {}}), vec![]),
        ] {
            assert_eq!(listed(&volume, &data).unwrap(), wanted, "{volume}");
        }
    }

    #[test]
    fn what_is_refused() {
        let data = SourceData::from([(
            Source::ConfigMap("m".into()),
            BTreeMap::from([("k".into(), vec![])]),
        )]);
        for (volume, problem) in [
            (
                json!({"name": "v", "configMap": {"name": "x"}}),
                "configmap \"x\" not found",
            ),
            (
                json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "z", "path": "z"}]}}),
                "non-existent key: z",
            ),
            (
                json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "../z"}]}}),
                "invalid path ../z",
            ),
            (
                json!({"name": "v", "configMap": {"name": "m", "items": [{"key": "k", "path": "/etc/z"}]}}),
                "invalid path /etc/z",
            ),
            (
                json!({"name": "v", "hostPath": {"path": "/"}}),
                "volume \"v\": this node supports",
            ),
        ] {
            let error = listed(&volume, &data).unwrap_err();
            assert!(error.contains(problem), "{volume}: {error}");
        }
    }

    #[test]
    fn mounts_become_variables() {
        let pod = pod(&json!([]));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let folders = BTreeMap::from([("my-data".to_owned(), PathBuf::from("/p/v"))]);
        let variables = variables(container, &folders).unwrap();
        assert_eq!(
            variables,
            BTreeMap::from([("NOGOO9_VOLUME_MY_DATA".into(), "/p/v/deep/er".into())])
        );
        assert!(
            super::variables(container, &BTreeMap::new())
                .unwrap_err()
                .contains("my-data")
        );
    }
}
