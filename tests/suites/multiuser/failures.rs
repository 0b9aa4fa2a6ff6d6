//! Side by side, with a successor that does not make it: the original serves all along, and says why.

use super::LONG;
use super::stage::{
    back_on_old, begin, ended, offer, refused, served, text, tidy, tool, workspace,
};
use super::watch::{Pods, Visits};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::api::{DeleteParams, ListParams, PostParams};
use nogoo9_model::keys;
use nogoo9_tests::{Generation, Observation, Target, Template, until};
use serde_json::json;
use std::sync::Arc;

/// An upgrade of the owner's workspace that fails; returns the error that the owner gets to read.
async fn fails(
    target: &Target,
    owner: &str,
    template: &Template,
    spoiled: &Template,
) -> anyhow::Result<String> {
    let id = template.name();
    let old = workspace(target, owner, template).await?;
    offer(
        target,
        &spoiled.clone().annotation(keys::UPGRADE_DEADLINE, "6"),
    )
    .await?;
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
    let spoiled = template.clone().image("localhost/nogoo9-none:1");
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
    let spoiled = template.clone().env("CRASH", "1");
    let error = fails(&target, "bob", &template, &spoiled).await?;
    assert!(
        error.starts_with("CrashLoopBackOff: ") || error.starts_with("Error: "),
        "{error}"
    );
    Ok(())
}

pub(super) async fn a_pod_that_is_never_ready(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("unready", "1.0");
    let spoiled = template.clone().env("READY_DELAY_MS", "3600000");
    let error = fails(&target, "alice", &template, &spoiled).await?;
    assert!(error.to_lowercase().contains("ready"), "{error}");
    Ok(())
}

pub(super) async fn refused_by_quota(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("noroom", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "alice", &template).await?;
    offer(&target, &template.clone().version("2.0")).await?;
    let pods = target.cluster().beside_workspaces::<Pod>();
    let there = pods.list(&ListParams::default()).await?.items;
    let used = there.iter().filter(|pod| !has_ended(pod)).count();
    let quotas = target.cluster().beside_workspaces::<ResourceQuota>();
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": {"name": "full"},
        "spec": {"hard": {"pods": used.to_string()}},
    }))?;
    quotas.create(&PostParams::default(), &quota).await?;
    until("the quota to count", LONG, || async {
        let status = quotas.get("full").await?.status.unwrap_or_default();
        let counted = status
            .used
            .as_ref()
            .is_some_and(|used| used.contains_key("pods"));
        Ok(Observation::when(counted, (), status))
    })
    .await?;

    let before = target.cluster().pod_names(&id).await?;
    let result = target
        .call(
            Generation::Second,
            "alice",
            "upgrade_workspace",
            json!({"id": id}),
        )
        .await?;
    let message = text(&result.text["message"]);
    refused(&result, "refused", &message);
    assert!(
        message.contains("exceeded quota: full") && message.contains("pods="),
        "{message}"
    );
    let reply = target.api("alice").await?.act(&id, "upgrade").await?;
    assert_eq!((reply.status, text(&reply.body["message"])), (422, message));
    assert_eq!(target.cluster().pod_names(&id).await?, before);
    assert_eq!(served(&target, "alice", &id).await?, ("1.0".into(), old));
    let seen = tool(&target, "alice", "get_workspace", json!({"id": id})).await?;
    assert_eq!(seen["status"], "running", "{seen}");

    // With room again, it goes on.
    quotas.delete("full", &DeleteParams::default()).await?;
    let answer = until("room for one more pod", LONG, || async {
        let arguments = json!({"id": id});
        let result = target.call(Generation::Second, "alice", "upgrade_workspace", arguments);
        let result = result.await?;
        let begun = result.structured.clone().unwrap_or_default();
        Ok(Observation::when(!result.is_error, begun, result))
    })
    .await?;
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    tidy(&target, &[&id], &[&template]).await
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
