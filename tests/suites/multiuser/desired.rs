//! A workspace that should run does: whoever takes its pod away, it comes back.

use super::LONG;
use super::files::{read_file, write_file};
use super::stage::{at_rest, served, text, tidy, workspace};
use super::watch::Pods;
use anyhow::Context as _;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, EvictParams};
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, until};
use std::sync::Arc;

/// Waits until another pod than `old` serves the workspace, alone; returns its name.
async fn replaced(target: &Target, owner: &str, id: &str, old: &str) -> anyhow::Result<String> {
    let api = target.api(owner).await?;
    let new = until(&format!("another pod of {id}"), LONG, || async {
        let seen = api.workspace(id).await?;
        let pod = text(&seen["podName"]);
        let other = seen["status"] == "running" && pod != old && !pod.is_empty();
        Ok(Observation::when(other, pod, seen))
    })
    .await?;
    target.cluster().only_pod(id, &new, LONG).await?;
    target.routed(id, Some(&new)).await?;
    Ok(new)
}

fn generation(pod: &k8s_openapi::api::core::v1::Pod) -> anyhow::Result<u32> {
    let label = pod.labels().get(keys::GENERATION).context("generation")?;
    label.parse().context("generation")
}

pub(super) async fn an_evicted_workspace_comes_back(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template_with_claim("evicted", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "bob", &template).await?;
    let content = write_file(&target, "bob", &id, "notes.bin").await?;
    let before = generation(&target.cluster().pods(&id).await?.remove(0))?;
    let pods = Pods::of(&target, &id).await?;
    target
        .cluster()
        .pods_api()
        .evict(&old, &EvictParams::default())
        .await
        .context("evict")?;
    let new = replaced(&target, "bob", &id, &old).await?;
    let after = generation(&target.cluster().pods(&id).await?.remove(0))?;
    assert!(after > before, "generation {after} after {before}");
    // Only once the old pod was gone may another hold its claim.
    pods.end().await?.never_two_with_the_claim();
    assert_eq!(served(&target, "bob", &id).await?, ("1.0".into(), new));
    assert_eq!(read_file(&target, "bob", &id, "notes.bin").await?, content);
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn a_record_without_a_pod_gets_one(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("lost", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "alice", &template).await?;
    let now = DeleteParams::default().grace_period(0);
    target.cluster().pods_api().delete(&old, &now).await?;
    let new = replaced(&target, "alice", &id, &old).await?;
    assert_eq!(served(&target, "alice", &id).await?, ("1.0".into(), new));
    let seen = at_rest(&target.api("alice").await?, &id).await?;
    assert_eq!(seen["lastUpgradeError"], serde_json::json!(null), "{seen}");
    tidy(&target, &[&id], &[&template]).await
}
