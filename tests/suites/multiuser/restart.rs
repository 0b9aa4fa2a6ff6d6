//! Control is killed in the middle, or was away while things happened: it converges.

use super::LONG;
use super::adoption::{ends_as, later_than, left_pod};
use super::files::{read_file, write_file};
use super::stage::{begin, ended, offer, served, spawn, text, tidy, tool, workspace};
use super::watch::{Pods, Visits, from_then_to};
use futures::future::try_join_all;
use kube::api::{DeleteParams, PostParams};
use nogoo9_tests::{Observation, Target, until};
use serde_json::json;
use std::sync::Arc;

/// Owner and id of what the bulk upgrades.
const BULK: [(&str, &str); 3] = [
    ("alice", "amidbulk-a"),
    ("bob", "amidbulk-b"),
    ("vera", "amidbulk-v"),
];

pub(super) async fn control_killed_amid_upgrades(target: Arc<Target>) -> anyhow::Result<()> {
    let plain = target.template("amid", "1.0");
    let claimed = target.template_with_claim("amidclaim", "1.0");
    let many = target.template("amidbulk", "1.0");
    offer(&target, &many).await?;
    let bulk = BULK.map(|(owner, id)| spawn(&target, owner, &many, id));
    let alone = [("alice", &plain), ("bob", &claimed)];
    let alone = alone.map(|(owner, template)| workspace(&target, owner, template));
    futures::try_join!(try_join_all(bulk), try_join_all(alone))?;
    let content = write_file(&target, "bob", "amidclaim", "notes.bin").await?;
    for template in [&plain, &claimed, &many] {
        offer(&target, &template.clone().version("2.0")).await?;
    }
    let pods = Pods::of(&target, "amidclaim").await?;
    let (alices, bobs) = (
        Visits::by(&target, "alice", "amid").await?,
        Visits::by(&target, "bob", "amidclaim").await?,
    );
    let first = begin(&target, "admin", "amid").await?;
    let second = begin(&target, "bob", "amidclaim").await?;
    let arguments = json!({"template": "amidbulk", "maxParallel": 1});
    let bulk = tool(&target, "admin", "upgrade_all_workspaces", arguments).await?;
    target.restart_control().await?;
    for answer in [&first, &second] {
        let operation = ended(&target, "admin", &text(&answer["operationId"])).await?;
        assert_eq!(operation["state"], "succeeded", "{operation}");
    }
    // Once more, while the bulk is under way.
    target.restart_control().await?;
    let operation = ended(&target, "admin", &text(&bulk["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    assert_eq!(operation["counts"]["succeeded"], 3, "{operation}");

    for (id, answer) in [("amid", &first), ("amidclaim", &second)] {
        let pod = text(&answer["podName"]);
        target.cluster().only_pod(id, &pod, LONG).await?;
        target.routed(id, Some(&pod)).await?;
        let record = target.cluster().record(id).await?.unwrap_or_default();
        assert_eq!(
            (&record["pod"]["name"], &record["upgrade"]),
            (&json!(pod), &json!(null))
        );
    }
    from_then_to(&alices.end().await?, "1.0", "2.0");
    from_then_to(&bobs.end().await?, "1.0", "2.0");
    pods.end().await?.never_two_with_the_claim();
    assert_eq!(
        read_file(&target, "bob", "amidclaim", "notes.bin").await?,
        content
    );
    for (owner, id) in BULK {
        let (version, pod) = served(&target, owner, id).await?;
        assert_eq!(version, "2.0");
        target.cluster().only_pod(id, &pod, LONG).await?;
    }
    let ids = [
        "amid",
        "amidclaim",
        "amidbulk-a",
        "amidbulk-b",
        "amidbulk-v",
    ];
    tidy(&target, &ids, &[&plain, &claimed, &many]).await
}

pub(super) async fn what_happened_while_control_was_away(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("away", "1.0");
    offer(&target, &template).await?;
    let lost = spawn(&target, "alice", &template, "away-lost").await?;
    let doubled = spawn(&target, "bob", &template, "away-double").await?;
    let untouched = spawn(&target, "vera", &template, "away-well").await?;
    let orphan = "ws-bob-away-orphan";
    // What is older than the record knows, and what the record does not know at all.
    later_than(&target, &doubled).await?;
    let pods = target.cluster().pods_api();
    let double = left_pod(
        &template,
        "bob",
        "away-double",
        "ws-bob-away-double-up-zzzzz",
    )?;
    let left = left_pod(&template, "bob", "away-orphan", orphan)?;
    target
        .without_control(async || {
            pods.delete(&lost, &DeleteParams::default()).await?;
            pods.create(&PostParams::default(), &left).await?;
            pods.create(&PostParams::default(), &double).await?;
            Ok(())
        })
        .await?;

    let new = until("another pod in place of the lost one", LONG, || async {
        let names = target.cluster().pod_names("away-lost").await?;
        Ok(match names.as_slice() {
            [one] if *one != lost => Observation::Holds(one.clone()),
            _ => Observation::NotYet(format!("{names:?}")),
        })
    })
    .await?;
    ends_as(&target, "alice", "away-lost", &new).await?;
    ends_as(&target, "bob", "away-orphan", orphan).await?;
    // The record's own pod has a generation, which the stray lacks.
    ends_as(&target, "bob", "away-double", &doubled).await?;
    ends_as(&target, "vera", "away-well", &untouched).await?;
    let ids = ["away-lost", "away-double", "away-well", "away-orphan"];
    tidy(&target, &ids, &[&template]).await
}
