//! Pods of workspaces: live reads and the four writes that a plan may ask for.

use super::{Cluster, ClusterError, limited};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use nogoo9_model::adopt::Found;
use nogoo9_model::container::Trouble;
use nogoo9_model::keys;
use nogoo9_model::pod::PodView;
use nogoo9_model::probe::Probe;
use nogoo9_model::upgrade::{Refusal, Refused};
use serde_json::{Map, Value, json};

/// What became of a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreateAnswer {
    /// The pod exists and is the one that was meant, from this create or an earlier one.
    There,
    /// It was refused.
    Refused(Refused),
}

/// What was made for a workspace.
#[derive(Debug, Clone)]
pub struct Made {
    /// Its pods.
    pub pods: Vec<PodView>,
    /// Its probes.
    pub probes: Vec<Probe>,
}

impl Cluster {
    /// All pods with this workspace id, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn pods(&self, id: &str) -> Result<Vec<PodView>, ClusterError> {
        Ok(self.made(id).await?.pods)
    }

    /// The same, and its probes.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn made(&self, id: &str) -> Result<Made, ClusterError> {
        let params = ListParams::default().labels(&keys::workspace_selector(id));
        let list = limited("list pods of", id, self.pods_api().list(&params)).await?;
        let pods = list.items.iter();
        Ok(Made {
            pods: pods
                .clone()
                .filter_map(|pod| PodView::from_pod(pod).ok())
                .collect(),
            probes: pods.filter_map(Probe::from_pod).collect(),
        })
    }

    /// The same, together with the objects themselves.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn found_pods(&self, id: &str) -> Result<Vec<Found>, ClusterError> {
        let params = ListParams::default().labels(&keys::workspace_selector(id));
        let list = limited("list pods of", id, self.pods_api().list(&params)).await?;
        let understood = |pod: Pod| {
            let view = PodView::from_pod(&pod).ok()?;
            Some(Found { pod, view })
        };
        Ok(list.items.into_iter().filter_map(understood).collect())
    }

    /// Creates a pod. "Already exists" is success if that pod is of the same workspace, generation
    /// and operation: then it is the work of an earlier, interrupted create.
    ///
    /// # Errors
    /// [`ClusterError`], never `Exists` or `Rejected`.
    pub async fn create_pod(&self, object: &Value) -> Result<CreateAnswer, ClusterError> {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let refused = |why| {
            Ok(CreateAnswer::Refused(Refused {
                pod: name.clone(),
                why,
            }))
        };
        let pod = match parse(object) {
            Ok(pod) => pod,
            // Trying again does not mend a template that is no pod.
            Err(error) => {
                return refused(Refusal::Rejected(Trouble::new(
                    "Invalid",
                    error.to_string(),
                )));
            }
        };
        match limited(
            "create pod",
            &name,
            self.pods_api().create(&PostParams::default(), &pod),
        )
        .await
        {
            Ok(_) => Ok(CreateAnswer::There),
            Err(ClusterError::Rejected { trouble, .. }) => refused(Refusal::Rejected(trouble)),
            Err(ClusterError::Exists { .. }) => {
                let there = limited("read pod", &name, self.pods_api().get_opt(&name)).await?;
                match there {
                    Some(there) if is_same(&there, &pod) => Ok(CreateAnswer::There),
                    _ => refused(Refusal::NameTaken),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the API server would take this pod, without creating it.
    ///
    /// # Errors
    /// `Rejected`, with the API server's own words, or another [`ClusterError`].
    pub async fn try_pod(&self, object: &Value) -> Result<(), ClusterError> {
        let pod = parse(object)?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        match limited("check pod", &name, self.pods_api().create(&params, &pod)).await {
            Ok(_) | Err(ClusterError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sets labels and annotations, if uid and version are still those.
    ///
    /// # Errors
    /// `Conflict` if they are not, or another [`ClusterError`].
    pub async fn patch_pod(
        &self,
        name: &str,
        uid: &str,
        resource_version: &str,
        labels: &[(&'static str, String)],
        annotations: &[(&'static str, String)],
    ) -> Result<(), ClusterError> {
        let map = |pairs: &[(&'static str, String)]| -> Map<String, Value> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), json!(value)))
                .collect()
        };
        let patch = json!({"metadata": {
            "uid": uid, "resourceVersion": resource_version,
            "labels": map(labels), "annotations": map(annotations),
        }});
        let params = PatchParams::default();
        limited(
            "patch pod",
            name,
            self.pods_api().patch(name, &params, &Patch::Merge(&patch)),
        )
        .await
        .map(|_| ())
    }

    /// Takes our scheduling gate off a pod, if the uid is still that; other gates stay. One that has
    /// none of ours any more is success.
    ///
    /// # Errors
    /// `Conflict` if the pod or its gates changed in between, `NotFound`, or another
    /// [`ClusterError`].
    pub async fn release_pod(&self, name: &str, uid: &str) -> Result<(), ClusterError> {
        let pod = limited("read pod", name, self.pods_api().get(name)).await?;
        let gates = pod.spec.and_then(|spec| spec.scheduling_gates);
        let Some(index) = gates
            .iter()
            .flatten()
            .position(|gate| gate.name == keys::GATE)
        else {
            return Ok(());
        };
        // The list is known by position only: the tests make sure that it is still ours.
        let gate = format!("/spec/schedulingGates/{index}");
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": format!("{gate}/name"), "value": keys::GATE},
            {"op": "remove", "path": gate},
        ]);
        let patch: json_patch::Patch =
            serde_json::from_value(patch).map_err(|error| ClusterError::Malformed {
                object: format!("patch of pod {name}"),
                reason: error.to_string(),
            })?;
        let patch: Patch<()> = Patch::Json(patch);
        let params = PatchParams::default();
        match limited(
            "release pod",
            name,
            self.pods_api().patch(name, &params, &patch),
        )
        .await
        {
            Ok(_) => Ok(()),
            // What a failed test looks like: somebody was faster. Missing rights look otherwise.
            Err(ClusterError::Rejected { trouble, .. }) if trouble.reason == "Invalid" => {
                Err(ClusterError::Conflict {
                    what: "release pod",
                    object: name.to_owned(),
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes a pod gracefully, if uid and version are still those; one that is gone already is
    /// success.
    ///
    /// # Errors
    /// `Conflict` if they are not, or another [`ClusterError`].
    pub async fn delete_pod(
        &self,
        name: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), ClusterError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(resource_version.to_owned()),
            }),
            ..DeleteParams::default()
        };
        match limited("delete pod", name, self.pods_api().delete(name, &params)).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn parse(object: &Value) -> Result<Pod, ClusterError> {
    serde_json::from_value(object.clone()).map_err(|error| ClusterError::Malformed {
        object: "the rendered pod".to_owned(),
        reason: error.to_string(),
    })
}

/// Same workspace, generation and operation, and not on its way out.
fn is_same(there: &Pod, meant: &Pod) -> bool {
    let label = |pod: &Pod, key: &str| {
        pod.metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(key).cloned())
    };
    let annotation = |pod: &Pod, key: &str| {
        pod.metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(key).cloned())
    };
    there.metadata.deletion_timestamp.is_none()
        && [keys::WORKSPACE_ID, keys::USER_SUB, keys::GENERATION]
            .iter()
            .all(|key| label(there, key) == label(meant, key))
        && annotation(there, keys::UPGRADE_OF) == annotation(meant, keys::UPGRADE_OF)
}
