//! Pods that another spawner left, as no-crd did: no record, no generation. Each workspace ends as
//! one pod, and nobody's last pod is deleted.

use super::LONG;
use super::stage::{at_rest, begin, ended, offer, served, text, tidy, tool};
use super::watch::Pods;
use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams, PostParams};
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A pod as no-crd spawned it for `owner` from this template.
pub(super) fn left_pod(
    template: &Template,
    owner: &str,
    id: &str,
    name: &str,
) -> anyhow::Result<Pod> {
    let data = template.config_map().data.unwrap_or_default();
    let spec = data.get("spec").context("spec")?;
    let spec = spec
        .replace("${{workspace_id}}", id)
        .replace("${{user}}", owner);
    let spec: Value = serde_json::from_str(&spec)?;
    Ok(serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": {
                keys::TYPE: keys::TYPE_WORKSPACE,
                keys::WORKSPACE_ID: id,
                keys::USER_SUB: owner,
                keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
            },
            "annotations": {
                keys::USER_SUB: owner,
                keys::TEMPLATE_REF: template.name(),
                keys::TEMPLATE_VERSION: "1",
                keys::WORKSPACE_NAME: "Left behind",
                keys::WORKSPACE_PORT: "3000",
                keys::WORKSPACE_PATH: format!("/route/{id}/"),
            },
        },
        "spec": spec,
    }))?)
}

/// Creates the pod and waits until it has come as far as it will. It counts as a workspace's only
/// once [`reveal`] has labelled it: until then another spawner may still be at work.
async fn leave(target: &Target, mut pod: Pod) -> anyhow::Result<()> {
    let name = pod.name_any();
    pod.labels_mut().remove(keys::MANAGED_BY);
    let api = target.cluster().pods_api();
    let created = api.create(&PostParams::default(), &pod).await;
    created.with_context(|| name.clone())?;
    until(&format!("{name} to be ready, or to fail"), LONG, || async {
        let status = api.get(&name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
        let failed = status.phase.as_deref() == Some("Failed");
        Ok(Observation::when(ready || failed, (), status))
    })
    .await
}

/// While control is away the pods become a workspace's, all at once, as at the end of a day on which
/// no-crd was stopped and nogoo9 started.
async fn reveal(target: &Target, pods: &[&str]) -> anyhow::Result<()> {
    let api = target.cluster().pods_api();
    let label = json!({"metadata": {"labels": {keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER}}});
    target
        .without_control(async || {
            for name in pods {
                api.patch(name, &PatchParams::default(), &Patch::Merge(&label))
                    .await
                    .with_context(|| (*name).to_owned())?;
            }
            Ok(())
        })
        .await
}

/// Waits until a pod that is created now is younger, by the whole seconds that Kubernetes counts.
pub(super) async fn later_than(target: &Target, name: &str) -> anyhow::Result<()> {
    let pod = target.cluster().pods_api().get(name).await?;
    let created = pod.metadata.creation_timestamp.context("creation")?.0;
    until("the next second", Duration::from_secs(5), || async {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let later = i64::try_from(now)? > created.as_second();
        Ok(Observation::when(later, (), now))
    })
    .await
}

/// Waits until the workspace is that pod alone, with a record that says so and the owner's name.
pub(super) async fn ends_as(
    target: &Target,
    owner: &str,
    id: &str,
    pod: &str,
) -> anyhow::Result<()> {
    let kept = target.cluster().only_pod(id, pod, LONG).await?;
    assert!(kept.metadata.deletion_timestamp.is_none());
    let record = until(&format!("a record of {id}"), LONG, || async {
        let record = target.cluster().record(id).await?.unwrap_or_default();
        Ok(Observation::when(
            record["pod"]["name"] == pod && record["upgrade"].is_null(),
            record.clone(),
            record,
        ))
    })
    .await?;
    assert_eq!(
        (&record["owner"], &record["desired"]),
        (&json!(owner), &json!("running"))
    );
    target.routed(id, Some(pod)).await?;
    let seen = at_rest(&target.api(owner).await?, id).await?;
    assert_eq!(
        (&seen["owner"], &seen["podName"]),
        (&json!(owner), &json!(pod)),
        "{seen}"
    );
    Ok(())
}

pub(super) async fn a_pod_without_a_record_is_adopted(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("orphan", "2.0");
    offer(&target, &template).await?;
    let old = target
        .template("orphan", "1.0")
        .env("OF_THE_USER", "kept")
        .env("MESSAGE", "set by hand");
    let (id, name) = ("orphan", "ws-bob-orphan");
    leave(&target, left_pod(&old, "bob", id, name)?).await?;
    reveal(&target, &[name]).await?;
    ends_as(&target, "bob", id, name).await?;
    assert_eq!(
        served(&target, "bob", id).await?,
        ("1.0".into(), name.into())
    );
    // It is bob's, and nobody else's.
    let alices = target.api("alice").await?.act(id, "upgrade").await?;
    assert_eq!(
        (alices.status, &alices.body["message"]),
        (403, &json!("Access Denied"))
    );

    // Like any other it can be upgraded; what its user had set is known from the pod alone, and kept.
    let answer = begin(&target, "bob", id).await?;
    assert!(
        text(&answer["podName"]).starts_with("ws-bob-orphan-up-"),
        "{answer}"
    );
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    let pod = target
        .cluster()
        .only_pod(id, &text(&answer["podName"]), LONG)
        .await?;
    let variables = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables: Vec<(String, Option<String>)> = variables
        .flat_map(|container| container.env.clone().unwrap_or_default())
        .map(|variable| (variable.name, variable.value))
        .collect();
    assert!(
        variables.contains(&("OF_THE_USER".into(), Some("kept".into()))),
        "{variables:?}"
    );
    assert_eq!(pod.annotations()[keys::WORKSPACE_NAME], "Left behind");
    assert_eq!(served(&target, "bob", id).await?.0, "2.0");
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn a_pair_left_by_no_crd_ends_as_one(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("pair", "2.0");
    offer(&target, &template).await?;
    let id = "pair";
    let (older, newer) = ("ws-alice-pair", "ws-alice-pair-up-abcde");
    let first = target.template("pair", "1.0");
    leave(&target, left_pod(&first, "alice", id, older)?).await?;
    later_than(&target, older).await?;
    leave(&target, left_pod(&template, "alice", id, newer)?).await?;
    let pods = Pods::of(&target, id).await?;
    reveal(&target, &[older, newer]).await?;
    ends_as(&target, "alice", id, newer).await?;
    assert_eq!(
        served(&target, "alice", id).await?,
        ("2.0".into(), newer.into())
    );
    let history = pods.end().await?;
    assert_eq!(history.names(), [older, newer]);
    assert!(history.kept(newer), "{newer} was deleted");
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn a_pair_whose_newer_failed_keeps_the_older(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("badpair", "1.0");
    offer(&target, &template).await?;
    let id = "badpair";
    let (older, newer) = ("ws-alice-badpair", "ws-alice-badpair-up-abcde");
    leave(&target, left_pod(&template, "alice", id, older)?).await?;
    later_than(&target, older).await?;
    // It has failed for good, so that nobody has to wait whether it will still be ready.
    let spoiled = template.clone().env("CRASH", "1");
    let spoiled = spoiled.pod("restartPolicy", json!("Never"));
    leave(&target, left_pod(&spoiled, "alice", id, newer)?).await?;
    let pods = Pods::of(&target, id).await?;
    reveal(&target, &[older, newer]).await?;
    ends_as(&target, "alice", id, older).await?;
    let kept = target.cluster().only_pod(id, older, LONG).await?;
    let error = kept.annotations().get(keys::LAST_UPGRADE_ERROR);
    let error = error.context("no error on the pod that was kept")?;
    assert!(error.starts_with("Error"), "{error}");
    let seen = tool(&target, "alice", "get_workspace", json!({"id": id})).await?;
    assert_eq!(text(&seen["lastUpgradeError"]), *error);
    assert_eq!(
        served(&target, "alice", id).await?,
        ("1.0".into(), older.into())
    );
    assert!(pods.end().await?.kept(older), "{older} was deleted");
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn three_duplicates_end_as_one(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("triple", "1.0");
    offer(&target, &template).await?;
    let id = "triple";
    let names = [
        "ws-bob-triple",
        "ws-bob-triple-up-aaaaa",
        "ws-bob-triple-up-bbbbb",
    ];
    for name in names {
        leave(&target, left_pod(&template, "bob", id, name)?).await?;
        later_than(&target, name).await?;
    }
    let pods = Pods::of(&target, id).await?;
    reveal(&target, &names).await?;
    let [_, _, newest] = names;
    ends_as(&target, "bob", id, newest).await?;
    assert_eq!(served(&target, "bob", id).await?.1, newest);
    let history = pods.end().await?;
    assert_eq!(history.names(), names);
    assert!(history.kept(newest), "{newest} was deleted");
    tidy(&target, &[id], &[&template]).await
}
