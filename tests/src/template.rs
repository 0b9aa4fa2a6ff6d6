//! Templates of workspaces under test: the sample program, with what a scenario needs set.

use k8s_openapi::api::core::v1::ConfigMap;
use nogoo9_model::keys;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A template, stored as a `ConfigMap` in control's namespace.
#[derive(Debug, Clone)]
pub struct Template {
    name: String,
    image: String,
    /// The image has one tag; the version is told by the environment.
    fixed: bool,
    env: BTreeMap<String, String>,
    references: Vec<Value>,
    annotations: BTreeMap<String, String>,
    container: Map<String, Value>,
    pod: Map<String, Value>,
    claims: Vec<Value>,
    spec: Option<String>,
}

impl Template {
    /// The sample in that version. It settles within a second, and lets go of sessions after a
    /// minute, so that a scenario that forgets one fails on its assertions, not on a long drain.
    #[must_use]
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            name: name.to_owned(),
            image: format!("nogoo9-sample:{version}"),
            fixed: false,
            env: BTreeMap::new(),
            references: Vec::new(),
            annotations: BTreeMap::new(),
            container: Map::new(),
            pod: Map::new(),
            claims: Vec::new(),
            spec: None,
        }
        .annotation(keys::SETTLE, "1")
        .annotation(keys::DRAIN_TIMEOUT, "60")
    }

    /// The sample out of an image that exists once, on a cluster without a registry.
    #[must_use]
    pub fn of_image(name: &str, image: &str, version: &str) -> Self {
        let template = Self {
            image: image.to_owned(),
            fixed: true,
            ..Self::new(name, version)
        };
        template.version(version)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With another version of the sample.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        if self.fixed {
            self.env("VERSION", version)
        } else {
            self.image(&format!("nogoo9-sample:{version}"))
        }
    }

    /// With another image.
    #[must_use]
    pub fn image(self, image: &str) -> Self {
        Self {
            image: image.to_owned(),
            ..self
        }
    }

    /// With this environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With this environment variable, whose value is somewhere else: `source` is its `valueFrom`.
    #[must_use]
    pub fn env_from(mut self, name: &str, source: &Value) -> Self {
        self.references
            .push(json!({"name": name, "valueFrom": source}));
        self
    }

    /// With this volume, mounted at `path`.
    #[must_use]
    pub fn volume(mut self, volume: Value, path: &str) -> Self {
        let mount = json!({"name": volume["name"], "mountPath": path});
        append(&mut self.pod, "volumes", volume);
        append(&mut self.container, "volumeMounts", mount);
        self
    }

    /// With this annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this field of its container.
    #[must_use]
    pub fn container(mut self, field: &str, value: Value) -> Self {
        self.container.insert(field.to_owned(), value);
        self
    }

    /// With this field of its pod.
    #[must_use]
    pub fn pod(mut self, field: &str, value: Value) -> Self {
        self.pod.insert(field.to_owned(), value);
        self
    }

    /// With a claim `data` that only one node may mount, in which the sample keeps its files.
    #[must_use]
    pub fn files(self, class: Option<&str>) -> Self {
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
        self.claim("data", class)
            .env("NOGOO9_SAMPLE_DATA", "/data")
            .volume(volume, "/data")
            // A volume belongs to root until it is given to those who use it.
            .pod("securityContext", json!({"fsGroup": 65532}))
    }

    /// With a claim that only one node may mount. It takes a volume of the pod to use it.
    #[must_use]
    pub fn claim(mut self, name: &str, class: Option<&str>) -> Self {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "16Mi"}},
        });
        if let (Some(class), Some(spec)) = (class, spec.as_object_mut()) {
            spec.insert("storageClassName".into(), class.into());
        }
        self.claims.push(json!({"name": name, "spec": spec}));
        self
    }

    /// With this text instead of a pod spec.
    #[must_use]
    pub fn spec(mut self, text: &str) -> Self {
        self.spec = Some(text.to_owned());
        self
    }

    /// The object.
    #[must_use]
    pub fn config_map(&self) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some(self.name.clone());
        config_map.metadata.labels =
            Some([(keys::POD_TEMPLATE.to_owned(), "true".to_owned())].into());
        config_map.metadata.annotations = Some(self.annotations.clone());
        let spec = self
            .spec
            .clone()
            .unwrap_or_else(|| self.pod_spec().to_string());
        let mut data = BTreeMap::from([("spec".to_owned(), spec)]);
        if !self.claims.is_empty() {
            data.insert("claims".to_owned(), json!(self.claims).to_string());
        }
        config_map.data = Some(data);
        config_map
    }

    fn pod_spec(&self) -> Value {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut env = vec![
            field("POD_NAME", "metadata.name"),
            field("POD_IP", "status.podIP"),
            json!({"name": "WORKSPACE_ID", "value": "${{workspace_id}}"}),
        ];
        env.extend(self.references.iter().cloned());
        env.extend(
            self.env
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value})),
        );
        let mut container = json!({
            "name": "workspace",
            "image": self.image,
            "env": env,
            "ports": [{"name": "http", "containerPort": 3000}],
            "readinessProbe": {
                "httpGet": {"path": "/healthz", "port": 3000},
                "periodSeconds": 1,
                "failureThreshold": 2,
                // On a loaded machine a slow answer is none that failed.
                "timeoutSeconds": 10,
            },
        });
        if let Some(container) = container.as_object_mut() {
            container.extend(self.container.clone());
        }
        let mut pod = self.pod.clone();
        pod.insert("containers".into(), json!([container]));
        Value::Object(pod)
    }
}

fn append(object: &mut Map<String, Value>, field: &str, item: Value) {
    let list = object.entry(field).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}
