//! Side by side, with a successor that does not make it: the original serves all along, and says why.

use super::LONG;
use super::stage::{back_on_old, begin, ended, offer, served, text, tidy, tool, workspace};
use super::watch::{Pods, Visits};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, ListParams, PostParams};
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;

/// What the template gives a new pod that says what is wrong with it: more than a busy node takes to
/// come to that.
const PATIENCE: &str = "40";
/// The same of one that never will.
const SHORT: &str = "20";

/// An upgrade of the owner's workspace that fails; returns the error that the owner gets to read.
async fn fails(
    target: &Target,
    owner: &str,
    template: &Template,
    spoiled: &Template,
) -> anyhow::Result<String> {
    let id = template.name();
    let old = workspace(target, owner, template).await?;
    offer(target, spoiled).await?;
    let (pods, visits) = (
        Pods::of(target, id).await?,
        Visits::by(target, owner, id).await?,
    );
    let answer = begin(target, owner, id).await?;
    assert_eq!(answer["mode"], "side-by-side", "{answer}");
    let operation = ended(target, owner, &text(&answer["operationId"])).await?;
    let (error, by) = back_on_old(target, owner, id, &operation).await?;
    assert_eq!(by, old);
    let answers = visits.end().await?;
    assert!(answers.iter().all(|(_, pod)| *pod == old), "{answers:?}");
    let mut expected = vec![old, text(&answer["podName"])];
    expected.sort();
    assert_eq!(pods.end().await?.names(), expected);
    tidy(target, &[id], &[template]).await?;
    Ok(error)
}

pub(super) async fn an_image_that_is_not_there(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("noimg", "1.0");
    let spoiled = template
        .clone()
        .image("localhost/nogoo9-none:1")
        .annotation(keys::UPGRADE_DEADLINE, PATIENCE);
    let error = fails(&target, "alice", &template, &spoiled).await?;
    assert!(
        error.starts_with("ErrImagePull: ") || error.starts_with("ImagePullBackOff: "),
        "{error}"
    );
    assert!(error.contains("localhost/nogoo9-none:1"), "{error}");
    Ok(())
}

pub(super) async fn a_crash_at_start(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("crashing", "1.0");
    let spoiled = template
        .clone()
        .env("CRASH", "1")
        .annotation(keys::UPGRADE_DEADLINE, PATIENCE);
    let error = fails(&target, "bob", &template, &spoiled).await?;
    assert!(
        error.starts_with("CrashLoopBackOff: ") || error.starts_with("Error: "),
        "{error}"
    );
    Ok(())
}

pub(super) async fn a_pod_that_is_never_ready(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("unready", "1.0");
    let spoiled = template
        .clone()
        .env("READY_DELAY_MS", "3600000")
        .annotation(keys::UPGRADE_DEADLINE, SHORT);
    let error = fails(&target, "alice", &template, &spoiled).await?;
    assert!(error.to_lowercase().contains("ready"), "{error}");
    Ok(())
}

pub(super) async fn refused_by_quota(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("noroom", "1.0");
    let claimed = target.template_with_claim("noroomclaim", "1.0");
    let mut old = Vec::new();
    for template in [&plain, &claimed] {
        old.push(workspace(&target, "alice", template).await?);
        let next = template.clone().version("2.0");
        offer(&target, &next.annotation(keys::UPGRADE_DEADLINE, PATIENCE)).await?;
    }
    let quotas = target.cluster().beside_workspaces::<ResourceQuota>();
    let quota = full(&target).await?;
    quotas.create(&PostParams::default(), &quota).await?;
    let operations = upgrades_while_full(&target, &[plain.name(), claimed.name()]).await;
    // Whatever came of it: the cases that follow need room.
    quotas.delete("full", &DeleteParams::default()).await?;

    let begun = operations?.into_iter().zip([&plain, &claimed]).zip(old);
    for (((operation, pods), template), old) in begun {
        let id = template.name();
        let (error, by) = back_on_old(&target, "alice", id, &operation).await?;
        assert!(error.contains("exceeded quota: full"), "{error}");
        // Also where the old pod has to go first: not before the new one has its place.
        assert_eq!(by, old);
        assert_eq!(pods.end().await?.names(), [old]);

        // With room again, it goes on.
        let operation = until("room for one more pod", LONG, || async {
            let answer = begin(&target, "alice", id).await?;
            let ended = ended(&target, "alice", &text(&answer["operationId"])).await?;
            let done = ended["state"] == "succeeded";
            Ok(Observation::when(done, ended.clone(), ended))
        })
        .await?;
        assert_eq!(operation["targets"][0]["id"], id);
        assert_eq!(served(&target, "alice", id).await?.0, "2.0");
    }
    tidy(
        &target,
        &[plain.name(), claimed.name()],
        &[&plain, &claimed],
    )
    .await
}

/// Upgrades them to their end; returns each operation as it ended, and the watch on the pods.
async fn upgrades_while_full(target: &Target, ids: &[&str]) -> anyhow::Result<Vec<(Value, Pods)>> {
    let quotas = target.cluster().beside_workspaces::<ResourceQuota>();
    until("the quota to count", LONG, || async {
        let status = quotas.get("full").await?.status.unwrap_or_default();
        let used = status.used.as_ref();
        let counted = used.is_some_and(|used| used.contains_key("pods"));
        Ok(Observation::when(counted, (), status))
    })
    .await?;
    let mut operations = Vec::new();
    for id in ids {
        let pods = Pods::of(target, id).await?;
        let arguments = json!({"id": id});
        let answer = tool(target, "alice", "upgrade_workspace", arguments).await?;
        let operation = ended(target, "alice", &text(&answer["operationId"])).await?;
        operations.push((operation, pods));
    }
    Ok(operations)
}

/// A quota that leaves room for no further pod.
async fn full(target: &Target) -> anyhow::Result<ResourceQuota> {
    let pods = target.cluster().beside_workspaces::<Pod>();
    let used = until("pods that are going to be gone", LONG, || async {
        let pods = pods.list(&ListParams::default()).await?.items;
        let going = pods
            .iter()
            .any(|pod| pod.metadata.deletion_timestamp.is_some());
        let used = pods.iter().filter(|pod| !has_ended(pod)).count();
        Ok(Observation::when(!going, used, used))
    })
    .await?;
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "full"},
        "spec": {"hard": {"pods": used.to_string()}},
    }))?)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
