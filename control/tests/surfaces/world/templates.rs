//! Templates, as an admin keeps them.

use super::{SYSTEM, World};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

impl World {
    pub(crate) fn templates(&self) -> Api<ConfigMap> {
        Api::namespaced(self.admin.clone(), SYSTEM)
    }

    /// Creates or replaces the template `name` with this pod spec.
    pub(crate) async fn template(&self, name: &str, spec: &str, annotations: Value) {
        let api = self.templates();
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"nogoo9/pod-template": "true"}, "annotations": annotations},
            "data": {"spec": spec},
        }))
        .unwrap();
        match api.get_opt(name).await.unwrap() {
            None => api.create(&PostParams::default(), &map).await,
            Some(_) => api.replace(name, &PostParams::default(), &map).await,
        }
        .unwrap();
    }

    /// The template `sample` at this image, whose upgrades need not settle.
    pub(crate) async fn sample(&self, image: &str) {
        let spec = format!(
            "containers: [{{name: main, image: '{image}', env: [{{name: OWNER, value: '${{{{user}}}}'}}]}}]"
        );
        let schema = json!({"properties": {"message": {"type": "string"}}}).to_string();
        self.template(
            "sample",
            &spec,
            json!({"nogoo9/settle": "0", "nogoo9/parameters": schema}),
        )
        .await;
        // The watch learns of it in its own time; views rest on that.
        self.until("the template", || async {
            let shown = self.get("admin", "/templates").await;
            shown["templates"]
                .as_array()
                .unwrap()
                .iter()
                .any(|t| t["name"] == "sample" && t["images"] == json!([image]))
        })
        .await;
    }
}
