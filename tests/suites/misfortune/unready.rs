//! New pods that come up and are no good: they are given up, and the old version serves.

use super::LONG;
use super::doomed::{claimed, one_writer};
use super::eyes::Eyes;
use super::files::{read_file, write_file};
use super::midway::successor_alone_or_beside;
use super::stage::{at_rest, back_on_old, begin, ended, offer, served, text, tidy, workspace};
use anyhow::Context as _;
use kube::ResourceExt as _;
use kube::api::EvictParams;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, Template, until};
use serde_json::json;
use std::sync::Arc;

/// How long a template gives a new pod where it takes its time to tell that it is no good.
const SHORT: &str = "40";
/// A new version that will not be ready.
const NEVER: &str = "3600000";

/// A workspace whose upgrade fails after its only pod had to go: the old version is back with its
/// files, and requests waited for it. Returns the error.
async fn is_restored(
    target: &Target,
    owner: &str,
    template: &Template,
    spoiled: Template,
) -> anyhow::Result<String> {
    let id = template.name();
    let old = workspace(target, owner, template).await?;
    let content = write_file(target, owner, id, "notes.bin").await?;
    offer(target, &spoiled.annotation(keys::UPGRADE_DEADLINE, SHORT)).await?;
    let eyes = Eyes::on(target, owner, id).await?;
    let answer = begin(target, owner, id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let operation = ended(target, owner, &text(&answer["operationId"])).await?;
    let (error, by) = back_on_old(target, owner, id, &operation).await?;
    assert_ne!(by, old);
    assert_eq!(eyes.close().await?.versions(), ["1.0"]);
    assert_eq!(read_file(target, owner, id, "notes.bin").await?, content);
    one_writer(target, owner, id).await?;
    tidy(target, &[id], &[template]).await?;
    Ok(error)
}

pub(super) async fn never_ready_where_the_old_pod_had_to_go(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = claimed(&target, "late");
    let spoiled = template.clone().version("2.0").env("READY_DELAY_MS", NEVER);
    let error = is_restored(&target, "alice", &template, spoiled).await?;
    assert!(error.to_lowercase().contains("ready"), "{error}");
    Ok(())
}

/// The container that runs before the others, of the sample's own image.
fn init(template: &Template, version: &str, variables: &[(&str, &str)]) -> Template {
    let spec = template.clone().version(version).config_map();
    let spec = spec.data.unwrap_or_default().remove("spec");
    let spec: serde_json::Value =
        serde_json::from_str(&spec.unwrap_or_default()).unwrap_or_default();
    let env: Vec<_> = variables
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    let first = json!([{"name": "prepare", "image": spec["containers"][0]["image"], "env": env}]);
    template
        .clone()
        .version(version)
        .pod("initContainers", first)
}

pub(super) async fn an_init_container_that_fails(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("unprepared", "1.0");
    let files = claimed(&target, "unprepared-claim");
    let crash = [("CRASH", "1")];
    let beside = async {
        let id = plain.name();
        let old = workspace(&target, "alice", &plain).await?;
        let spoiled = init(&plain, "2.0", &crash);
        offer(&target, &spoiled.annotation(keys::UPGRADE_DEADLINE, SHORT)).await?;
        let eyes = Eyes::on(&target, "alice", id).await?;
        let answer = begin(&target, "alice", id).await?;
        let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
        let (error, by) = back_on_old(&target, "alice", id, &operation).await?;
        assert_eq!(by, old);
        eyes.close().await?.untouched(&old);
        tidy(&target, &[id], &[&plain]).await?;
        anyhow::Ok(error)
    };
    let recreate = is_restored(&target, "bob", &files, init(&files, "2.0", &crash));
    let (beside, recreate) = futures::try_join!(beside, recreate)?;
    for error in [beside, recreate] {
        // By its name, and with what it ended with.
        assert!(error.contains("container prepare"), "{error}");
        assert!(error.contains("exit code 1"), "{error}");
    }
    Ok(())
}

pub(super) async fn ready_by_turns_within_the_settle_time(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("flapping", "1.0");
    let id = template.name();
    let old = workspace(&target, "bob", &template).await?;
    // Longer than it is ever ready, many times over.
    let spoiled = template.clone().version("2.0").env("FLAP_MS", "4000");
    offer(&target, &spoiled.annotation(keys::SETTLE, "60")).await?;
    let eyes = Eyes::on(&target, "bob", id).await?;
    let answer = begin(&target, "bob", id).await?;
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    let (error, by) = back_on_old(&target, "bob", id, &operation).await?;
    assert_eq!(by, old);
    assert!(error.contains("stopped being ready 3 times"), "{error}");
    // It was ready by turns, so either may have answered; nobody was turned away.
    assert!(eyes.close().await?.pods.kept(&old), "{old} was deleted");
    tidy(&target, &[id], &[&template]).await
}

/// Evicts as `kubectl drain` does: what is gone already needs no eviction.
async fn evict(target: &Target, pod: &str) -> anyhow::Result<()> {
    let pods = target.cluster().pods_api();
    match pods.evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("evict {pod}")),
    }
}

pub(super) async fn the_candidate_is_evicted(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("evictedcandidate", "1.0");
    let id = template.name();
    let old = workspace(&target, "alice", &template).await?;
    let never = template.clone().version("2.0").env("READY_DELAY_MS", NEVER);
    offer(&target, &never).await?;
    let eyes = Eyes::on(&target, "alice", id).await?;
    let answer = begin(&target, "alice", id).await?;
    let new = successor_alone_or_beside(&target, id, &answer).await?;
    evict(&target, &new).await?;
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    let (_, by) = back_on_old(&target, "alice", id, &operation).await?;
    assert_eq!(by, old);
    eyes.close().await?.untouched(&old);
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn the_original_is_evicted(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("evictedoriginal", "1.0");
    let files = claimed(&target, "evictedoriginal-claim");
    let upgrades = |owner, template: &Template| {
        let (target, template) = (Arc::clone(&target), template.clone());
        async move {
            let id = template.name();
            let old = workspace(&target, owner, &template).await?;
            let second = template
                .clone()
                .version("2.0")
                .env("READY_DELAY_MS", "2000");
            offer(&target, &second).await?;
            let eyes = Eyes::closed_to_visitors(&target, owner, id).await?;
            let answer = begin(&target, owner, id).await?;
            evict(&target, &old).await?;
            let operation = ended(&target, owner, &text(&answer["operationId"])).await?;
            // The new pod comes all the same, and nothing is left of the old one.
            assert_eq!(operation["state"], "succeeded", "{operation}");
            let new = text(&answer["podName"]);
            target.cluster().only_pod(id, &new, LONG).await?;
            target.routed(id, Some(&new)).await?;
            assert_eq!(served(&target, owner, id).await?, ("2.0".into(), new));
            eyes.close().await?;
            anyhow::Ok(())
        }
    };
    let with_files = async {
        upgrades("bob", &files).await?;
        one_writer(&target, "bob", files.name()).await
    };
    futures::try_join!(upgrades("alice", &plain), with_files)?;
    tidy(&target, &[plain.name(), files.name()], &[&plain, &files]).await
}

pub(super) async fn both_are_evicted(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("evictedboth", "1.0");
    let id = template.name();
    let old = workspace(&target, "bob", &template).await?;
    let never = template.clone().version("2.0").env("READY_DELAY_MS", NEVER);
    offer(&target, &never).await?;
    let eyes = Eyes::closed_to_visitors(&target, "bob", id).await?;
    let answer = begin(&target, "bob", id).await?;
    let new = successor_alone_or_beside(&target, id, &answer).await?;
    futures::try_join!(evict(&target, &new), evict(&target, &old))?;
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "failed", "{operation}");
    // The old version comes back in a pod of its own.
    let api = target.api("bob").await?;
    let by = until(&format!("another pod of {id}"), LONG, || async {
        let seen = api.workspace(id).await?;
        let pod = text(&seen["podName"]);
        let other = seen["status"] == "running" && pod != old && pod != new;
        Ok(Observation::when(other, pod, seen))
    })
    .await?;
    let pod = target.cluster().only_pod(id, &by, LONG).await?;
    assert_eq!(pod.name_any(), by);
    target.routed(id, Some(&by)).await?;
    assert_eq!(served(&target, "bob", id).await?, ("1.0".into(), by));
    assert_eq!(at_rest(&api, id).await?["outdated"], true);
    eyes.close().await?;
    tidy(&target, &[id], &[&template]).await
}
