//! What people do in the middle of an upgrade: change the template, delete it, stop the workspace, ask
//! again.

use super::LONG;
use super::doomed::{claimed, one_writer};
use super::eyes::Eyes;
use super::files::{read_file, write_file};
use super::stage::{at_rest, begin, ended, offer, served, text, tidy, tool, workspace};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;

/// A new version that is not ready before somebody has had the time to do something. Nothing rests on
/// how much time that is.
const SLOWLY: &str = "4000";
/// A new version that will not be ready.
const NEVER: &str = "3600000";

/// Waits until the workspace says that.
async fn says(target: &Target, id: &str, field: &str, value: Value) -> anyhow::Result<Value> {
    let api = target.api("admin").await?;
    until(&format!("{field} of {id} to be {value}"), LONG, || async {
        let seen = api.workspace(id).await?;
        Ok(Observation::when(seen[field] == value, seen.clone(), seen))
    })
    .await
}

/// Waits until the upgrade's new pod is there, and known to the record; of a recreate, until it is the
/// only one.
pub(super) async fn successor_alone_or_beside(
    target: &Target,
    id: &str,
    answer: &Value,
) -> anyhow::Result<String> {
    let new = text(&answer["podName"]);
    let alone = answer["mode"] == "recreate";
    until(&format!("{new} to be there"), LONG, || async {
        let names = target.cluster().pod_names(id).await?;
        let record = target.cluster().record(id).await?.unwrap_or_default();
        let known = record["upgrade"]["successor"]["uid"].is_string();
        let there = names.contains(&new) && (names.len() == 1 || !alone);
        Ok(Observation::when(
            known && there,
            (),
            (names, record["upgrade"].clone()),
        ))
    })
    .await?;
    Ok(new)
}

pub(super) async fn a_template_that_changes(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("changing", "1.0");
    let id = template.name();
    workspace(&target, "alice", &template).await?;
    let second = template
        .clone()
        .version("2.0")
        .env("READY_DELAY_MS", SLOWLY);
    offer(&target, &second).await?;
    let eyes = Eyes::on(&target, "alice", id).await?;
    let answer = begin(&target, "alice", id).await?;
    offer(&target, &template.clone().version("3.0")).await?;
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    target.routed(id, Some(&text(&answer["podName"]))).await?;
    // What was begun is what comes, and that there is something newer is told.
    assert_eq!(served(&target, "alice", id).await?.0, "2.0");
    let seen = says(&target, id, "outdated", json!(true)).await?;
    assert_eq!(seen["lastUpgradeError"], json!(null), "{seen}");
    let answer = begin(&target, "alice", id).await?;
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    target.routed(id, Some(&text(&answer["podName"]))).await?;
    assert_eq!(served(&target, "alice", id).await?.0, "3.0");
    assert_eq!(eyes.close().await?.versions(), ["1.0", "2.0", "3.0"]);
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn a_template_that_is_deleted(target: Arc<Target>) -> anyhow::Result<()> {
    let template = claimed(&target, "vanishing");
    let id = template.name();
    workspace(&target, "bob", &template).await?;
    let content = write_file(&target, "bob", id, "notes.bin").await?;
    let second = template
        .clone()
        .version("2.0")
        .env("READY_DELAY_MS", SLOWLY);
    offer(&target, &second).await?;
    let eyes = Eyes::on(&target, "bob", id).await?;
    let answer = begin(&target, "bob", id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let templates = target.cluster().config_maps_api();
    templates.delete(id, &DeleteParams::default()).await?;
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    target.routed(id, Some(&text(&answer["podName"]))).await?;
    assert_eq!(eyes.close().await?.versions(), ["1.0", "2.0"]);
    assert_eq!(read_file(&target, "bob", id, "notes.bin").await?, content);
    one_writer(&target, "bob", id).await?;
    says(&target, id, "outdated", json!("unknown")).await?;
    tidy(&target, &[id], &[]).await
}

/// Stopped once its new pod is there, started again: the old version, and nothing left of the new.
async fn stops(target: &Target, owner: &str, template: &Template) -> anyhow::Result<()> {
    let id = template.name();
    workspace(target, owner, template).await?;
    let never = template.clone().version("2.0").env("READY_DELAY_MS", NEVER);
    offer(target, &never).await?;
    let eyes = Eyes::closed_to_visitors(target, owner, id).await?;
    let answer = begin(target, owner, id).await?;
    successor_alone_or_beside(target, id, &answer).await?;
    tool(target, owner, "stop_workspace", json!({"id": id})).await?;
    // One result, and no pod.
    let operation = ended(target, owner, &text(&answer["operationId"])).await?;
    assert_ne!(operation["state"], "succeeded", "{operation}");
    until(&format!("{id} to be stopped"), LONG, || async {
        let pods = target.cluster().pod_names(id).await?;
        Ok(Observation::when(pods.is_empty(), (), pods))
    })
    .await?;
    let record = target.cluster().record(id).await?.unwrap_or_default();
    assert_eq!(record["desired"], "stopped", "{record}");
    until(&format!("{id} to let go of the upgrade"), LONG, || async {
        let record = target.cluster().record(id).await?.unwrap_or_default();
        Ok(Observation::when(record["upgrade"].is_null(), (), record))
    })
    .await?;

    tool(target, owner, "start_workspace", json!({"id": id})).await?;
    at_rest(&target.api(owner).await?, id).await?;
    let pod = target.routed(id, None).await?;
    target.cluster().only_pod(id, &pod, LONG).await?;
    assert_eq!(served(target, owner, id).await?, ("1.0".into(), pod));
    eyes.close().await?;
    Ok(())
}

pub(super) async fn a_workspace_that_is_stopped(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("halted", "1.0");
    let files = claimed(&target, "halted-claim");
    futures::try_join!(
        stops(&target, "alice", &plain),
        stops(&target, "bob", &files),
    )?;
    one_writer(&target, "bob", files.name()).await?;
    tidy(&target, &[plain.name(), files.name()], &[&plain, &files]).await
}

pub(super) async fn asked_again_and_up_to_date(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("asked", "1.0");
    let id = template.name();
    workspace(&target, "alice", &template).await?;
    let second = template
        .clone()
        .version("2.0")
        .env("READY_DELAY_MS", SLOWLY);
    offer(&target, &second).await?;
    let first = begin(&target, "alice", id).await?;
    // By an admin as well as by the owner.
    for who in ["alice", "admin"] {
        let again = tool(&target, who, "upgrade_workspace", json!({"id": id})).await?;
        if again["status"] == "upgrading" {
            for field in ["operationId", "podName", "previousPodName", "toVersion"] {
                assert_eq!(again[field], first[field], "{field}");
            }
        } else {
            // A slow machine has let it end before.
            assert_eq!(again["status"], "up_to_date", "{again}");
        }
    }
    let operation = ended(&target, "alice", &text(&first["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");

    let facts = || async {
        let pods = target.cluster().pods(id).await?;
        let pods: Vec<_> = pods
            .into_iter()
            .map(|pod| {
                let meta = pod.metadata;
                (meta.uid, meta.labels, meta.annotations, meta.generation)
            })
            .collect();
        let secrets = target.cluster().secrets_api();
        let record = secrets.get(&nogoo9_model::name::record(id)).await?;
        anyhow::Ok((pods, record.metadata.resource_version))
    };
    let before = until(&format!("{id} to come to rest"), LONG, || async {
        let record = target.cluster().record(id).await?.unwrap_or_default();
        let idle = record["upgrade"].is_null() && record["last"]["shown"] == true;
        let (pods, version) = facts().await?;
        // Last of all the pod is told what the newest upgrade came to.
        let told = pods.iter().all(|(_, _, annotations, _)| {
            let annotations = annotations.as_ref();
            annotations.is_some_and(|annotations| annotations.contains_key(keys::LAST_UPGRADE))
        });
        let rests = idle && told && pods.len() == 1;
        Ok(Observation::when(rests, (pods, version), record))
    })
    .await?;
    for who in ["alice", "admin"] {
        let answer = tool(&target, who, "upgrade_workspace", json!({"id": id})).await?;
        assert_eq!(
            (
                &answer["status"],
                &answer["podName"],
                &answer["operationId"]
            ),
            (&json!("up_to_date"), &first["podName"], &json!(null)),
            "{answer}"
        );
    }
    assert_eq!(facts().await?, before);
    tidy(&target, &[id], &[&template]).await
}

/// Called off while it can be: nothing happened to the old pod, and that is no error.
async fn cancels(
    target: &Target,
    owner: &str,
    template: &Template,
    next: &Template,
) -> anyhow::Result<()> {
    let id = template.name();
    let old = workspace(target, owner, template).await?;
    offer(target, next).await?;
    let eyes = Eyes::on(target, owner, id).await?;
    let answer = begin(target, owner, id).await?;
    let operation = text(&answer["operationId"]);
    if answer["mode"] == "side-by-side" {
        successor_alone_or_beside(target, id, &answer).await?;
    }
    let arguments = json!({"operationId": operation});
    tool(target, owner, "cancel_operation", arguments).await?;
    let ended = ended(target, owner, &operation).await?;
    assert_eq!(ended["state"], "cancelled", "{ended}");
    let pod = target.cluster().only_pod(id, &old, LONG).await?;
    assert_eq!(pod.annotations().get(keys::LAST_UPGRADE_ERROR), None);
    eyes.close().await?.untouched(&old);
    let seen = at_rest(&target.api(owner).await?, id).await?;
    assert_eq!(
        (&seen["lastUpgradeError"], &seen["outdated"]),
        (&json!(null), &json!(true)),
        "{seen}"
    );
    assert_eq!(served(target, owner, id).await?, ("1.0".into(), old));
    // It can be had all the same, another time.
    offer(target, &template.clone().version("3.0")).await?;
    let answer = begin(target, owner, id).await?;
    let ended = super::stage::ended(target, owner, &text(&answer["operationId"])).await?;
    assert_eq!(ended["state"], "succeeded", "{ended}");
    target.routed(id, Some(&text(&answer["podName"]))).await?;
    assert_eq!(served(target, owner, id).await?.0, "3.0");
    Ok(())
}

pub(super) async fn an_upgrade_that_is_called_off(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("calledoff", "1.0");
    let files = claimed(&target, "calledoff-claim");
    let never = plain.clone().version("2.0").env("READY_DELAY_MS", NEVER);
    // Its image is long in coming: from a registry that does not answer, or one that is slow.
    let slow = match target.is_real() {
        true => files.clone().image("localhost/nogoo9-none:1"),
        false => files.clone().version("2.0_slow-pull-60m"),
    };
    futures::try_join!(
        Box::pin(cancels(&target, "alice", &plain, &never)),
        Box::pin(cancels(&target, "bob", &files, &slow)),
    )?;
    one_writer(&target, "bob", files.name()).await?;
    tidy(&target, &[plain.name(), files.name()], &[&plain, &files]).await
}
