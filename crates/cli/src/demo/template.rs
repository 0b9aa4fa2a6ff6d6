//! An act's own template: a copy of the sample's, so that nobody else's template is edited, with a
//! new image and message for every upgrade, and with a volume of its own where that is shown.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api as KubeApi, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use nogoo9_local::supervisor::SYSTEM_NAMESPACE;
use nogoo9_model::keys;
use serde_json::{Value, json};

use super::api::Api;

/// The one that is copied.
const SAMPLE: &str = "sample";
/// Seconds that a new pod must stay ready: the sample keeps no state to warm up.
const SETTLE: &str = "1";
/// Longest wait for control to see an edit.
const SEEN_BOUND: Duration = Duration::from_secs(20);
/// Longest wait for one answer of the API server.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// The volume that only one pod can have at a time.
const VOLUME: &str = "data";

pub(super) struct DemoTemplate {
    maps: KubeApi<ConfigMap>,
    name: String,
    spec: Value,
}

impl DemoTemplate {
    /// Copies the sample's template; with `claim`, each workspace gets a volume that two pods
    /// cannot share.
    pub(super) async fn create(
        cluster: &Client,
        api: &Api,
        name: &str,
        claim: bool,
    ) -> anyhow::Result<Self> {
        let sample = api
            .template(SAMPLE)
            .await
            .context("the sample's template cannot be read")?;
        let mut spec = sample
            .spec
            .context("the sample's template has no usable spec")?;
        let maps: KubeApi<ConfigMap> = KubeApi::namespaced(cluster.clone(), SYSTEM_NAMESPACE);
        let original = bounded(maps.get(SAMPLE))
            .await
            .context("ConfigMap sample cannot be read")?;
        let mut annotations = original.metadata.annotations.unwrap_or_default();
        annotations.insert(keys::SETTLE.to_owned(), SETTLE.to_owned());
        let mut data = std::collections::BTreeMap::new();
        if claim {
            mount(&mut spec);
            data.insert("claims".to_owned(), claims().to_string());
        }
        data.insert("spec".to_owned(), versioned(&spec, 0).to_string());
        let copy = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some([(keys::POD_TEMPLATE.to_owned(), "true".to_owned())].into()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        bounded(maps.create(&PostParams::default(), &copy))
            .await
            .context("the demo's template cannot be created")?;
        Ok(Self {
            maps,
            name: name.to_owned(),
            spec,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns once control knows it.
    pub(super) async fn seen(&self, api: &Api) -> anyhow::Result<()> {
        api.template_moved(&self.name, None, SEEN_BOUND)
            .await
            .map(drop)
    }

    /// Makes version `number` and waits until control has seen it.
    pub(super) async fn edit(&self, number: u32, api: &Api) -> anyhow::Result<()> {
        let before = api.template(&self.name).await?.version;
        let patch = json!({"data": {"spec": versioned(&self.spec, number).to_string()}});
        bounded(
            self.maps
                .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)),
        )
        .await
        .context("the demo's template cannot be edited")?;
        api.template_moved(&self.name, before.as_deref(), SEEN_BOUND)
            .await
            .map(drop)
    }

    pub(super) async fn delete(&self) -> anyhow::Result<()> {
        bounded(self.maps.delete(&self.name, &DeleteParams::default()))
            .await
            .map(drop)
    }
}

/// The claims of a template, which are made for each of its workspaces.
fn claims() -> Value {
    json!([{"name": VOLUME, "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Mi"}},
    }}])
}

/// Mounts the claim into the first container.
fn mount(spec: &mut Value) {
    let add = |spec: &mut Value, list: &str, item: Value| {
        let Some(object) = spec.as_object_mut() else {
            return;
        };
        if let Value::Array(items) = object.entry(list).or_insert_with(|| json!([])) {
            items.push(item);
        }
    };
    let volume = json!({"name": VOLUME, "persistentVolumeClaim": {"claimName": VOLUME}});
    add(spec, "volumes", volume);
    if let Some(container) = spec.pointer_mut("/containers/0") {
        let mount = json!({"name": VOLUME, "mountPath": "/data"});
        add(container, "volumeMounts", mount);
    }
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> anyhow::Result<T> {
    let answer = tokio::time::timeout(CALL_BOUND, call).await;
    Ok(
        answer
            .with_context(|| format!("the API server did not answer within {CALL_BOUND:?}"))??,
    )
}

/// `spec` with another tag on the first container's image, and another message.
fn versioned(spec: &Value, number: u32) -> Value {
    let mut spec = spec.clone();
    let Some(container) = spec
        .pointer_mut("/containers/0")
        .and_then(Value::as_object_mut)
    else {
        return spec;
    };
    if let Some(Value::String(image)) = container.get_mut("image") {
        let repository = match image.rsplit_once(':') {
            // A colon before a slash belongs to a registry's port.
            Some((repository, tag)) if !tag.contains('/') => repository.to_owned(),
            _ => image.clone(),
        };
        *image = format!("{repository}:1.{number}");
    }
    let message =
        json!({"name": "MESSAGE", "value": format!("Version 1.{number}, while you were working")});
    if let Value::Array(env) = container.entry("env").or_insert_with(|| json!([])) {
        env.retain(|variable| variable.get("name") != message.get("name"));
        env.push(message);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_changes_image_and_message_and_nothing_else() {
        let spec = json!({"containers": [{
            "name": "main", "image": "nogoo9-sample:1.0",
            "env": [{"name": "MESSAGE", "value": "Hello"}, {"name": "OTHER", "value": "x"}],
        }], "restartPolicy": "Always"});
        let image = |spec: &Value| spec["containers"][0]["image"].clone();
        let (one, two) = (versioned(&spec, 1), versioned(&versioned(&spec, 1), 2));
        assert_eq!(
            (image(&one), image(&two)),
            (json!("nogoo9-sample:1.1"), json!("nogoo9-sample:1.2"))
        );
        let env = two["containers"][0]["env"].as_array().unwrap();
        assert_eq!(env.len(), 2, "{env:?}");
        assert_eq!(env[0]["name"], "OTHER");
        assert!(env[1]["value"].as_str().unwrap().starts_with("Version 1.2"));
        assert_eq!(two["restartPolicy"], "Always");
    }

    #[test]
    fn a_claim_is_mounted_by_its_name() {
        let mut spec =
            json!({"containers": [{"name": "main"}], "volumes": [{"name": "tmp", "emptyDir": {}}]});
        mount(&mut spec);
        assert_eq!(spec["volumes"][0]["name"], "tmp");
        assert_eq!(
            spec["volumes"][1]["persistentVolumeClaim"]["claimName"],
            claims()[0]["name"]
        );
        assert_eq!(
            spec["containers"][0]["volumeMounts"],
            json!([{"name": VOLUME, "mountPath": "/data"}])
        );
    }

    #[test]
    fn registries_with_ports_and_missing_tags() {
        let image = |image: &str| {
            versioned(&json!({"containers": [{"image": image}]}), 7)["containers"][0]["image"]
                .clone()
        };
        assert_eq!(image("localhost:5000/sample"), "localhost:5000/sample:1.7");
        assert_eq!(
            image("localhost:5000/sample:3"),
            "localhost:5000/sample:1.7"
        );
        assert_eq!(versioned(&json!({}), 1), json!({}));
    }
}
