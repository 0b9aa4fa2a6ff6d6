//! What happens in the cluster: the hand that plays the kubelet, and time.

use super::{SYSTEM, WORKSPACES, World};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use nogoo9_model::name;
use serde_json::{Value, json};

impl World {
    pub(crate) fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), WORKSPACES)
    }

    pub(crate) async fn pods_of(&self, id: &str) -> Vec<Pod> {
        let params = ListParams::default().labels(&format!("nogoo9/workspace-id={id}"));
        self.pods_api().list(&params).await.unwrap().items
    }

    /// What a kubelet does to a pod that comes up.
    pub(crate) async fn ready(&self, pod: &str) {
        assert!(self.try_ready(pod).await, "there is no pod {pod}");
    }

    /// The same to a pod that control may have deleted meanwhile.
    pub(crate) async fn try_ready(&self, pod: &str) -> bool {
        let now = k8s_openapi::jiff::Timestamp::from_second(self.connection.clock.now()).unwrap();
        let ready =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()}]);
        let status = json!({"phase": "Running", "podIP": "127.64.0.9", "conditions": ready});
        self.try_status(pod, status).await
    }

    pub(crate) async fn status(&self, pod: &str, status: Value) {
        assert!(self.try_status(pod, status).await, "there is no pod {pod}");
    }

    /// What a kubelet keeps of a container's runs: all that each wrote.
    pub(crate) fn write_log(&self, pod: &Pod, container: &str, run: u32, lines: &[&str]) {
        let uid = pod.metadata.uid.as_deref().unwrap();
        let folder = self.api_dir.path().join("pods").join(uid).join(container);
        std::fs::create_dir_all(&folder).unwrap();
        let stored = lines
            .iter()
            .map(|line| format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n"));
        std::fs::write(
            folder.join(format!("{run}.log")),
            stored.collect::<String>(),
        )
        .unwrap();
    }

    /// Sets the status of a pod; `false`: there is none.
    pub(crate) async fn try_status(&self, pod: &str, status: Value) -> bool {
        let status = json!({"status": status});
        let api = self.pods_api();
        let patch = Patch::Merge(&status);
        match api.patch_status(pod, &PatchParams::default(), &patch).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 404 => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// Spawns and brings to life.
    pub(crate) async fn running(&self, user: &str, id: &str) -> Value {
        self.spawn(user, json!({"template": "sample", "id": id}))
            .await;
        self.until("the pod", || async { !self.pods_of(id).await.is_empty() })
            .await;
        for pod in self.pods_of(id).await {
            self.ready(&pod.name_any()).await;
        }
        let path = format!("/workspaces/{id}");
        self.until("running", || async {
            self.get(user, &path).await["status"] == "running"
        })
        .await;
        self.get(user, &path).await
    }

    /// What time does to a workspace that was deleted: it is not remembered any more.
    pub(crate) async fn forget(&self, id: &str) {
        let secrets: Api<Secret> = Api::namespaced(self.admin.clone(), SYSTEM);
        let name = name::record(id);
        self.until("it to be gone", || async {
            let secret = secrets.get_opt(&name).await.unwrap();
            let record = secret.and_then(|secret| secret.data?.remove("record.json"));
            record.is_none_or(|record| {
                serde_json::from_slice::<Value>(&record.0).unwrap()["goneAt"].is_number()
            })
        })
        .await;
        let parameters = DeleteParams::default();
        secrets.delete(&name, &parameters).await.unwrap();
    }
}
