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
    env: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    container: Map<String, Value>,
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
            env: BTreeMap::new(),
            annotations: BTreeMap::new(),
            container: Map::new(),
            spec: None,
        }
        .annotation(keys::SETTLE, "1")
        .annotation(keys::DRAIN_TIMEOUT, "60")
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// With another version of the sample.
    #[must_use]
    pub fn version(self, version: &str) -> Self {
        self.image(&format!("nogoo9-sample:{version}"))
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
        config_map.data = Some([("spec".to_owned(), spec)].into());
        config_map
    }

    fn pod_spec(&self) -> Value {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut env = vec![
            field("POD_NAME", "metadata.name"),
            field("POD_IP", "status.podIP"),
            json!({"name": "WORKSPACE_ID", "value": "${{workspace_id}}"}),
        ];
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
            },
        });
        if let Some(container) = container.as_object_mut() {
            container.extend(self.container.clone());
        }
        json!({"containers": [container]})
    }
}
