//! Cases that need the whole cluster: what a quota counts, and what all logs say.

use super::LONG;
use super::eyes::Eyes;
use super::stage::{back_on_old, begin, ended, offer, served, spawn, text, tidy, tool, workspace};
use k8s_openapi::api::core::v1::{Event, Pod, ResourceQuota};
use kube::api::{DeleteParams, ListParams, PostParams};
use nogoo9_model::keys;
use nogoo9_tests::{Ground as _, Observation, Target, until};
use serde_json::json;
use std::sync::Arc;

/// Workspaces of the bulk: more than there is room for at once.
const MANY: [(&str, &str); 3] = [
    ("alice", "tight-a"),
    ("bob", "tight-b"),
    ("alice", "tight-c"),
];

/// A quota with room for one pod more than there are. Counts once it is returned.
async fn room_for_one(target: &Target) -> anyhow::Result<()> {
    let pods = target.cluster().beside_workspaces::<Pod>();
    let used = until("pods that are going to be gone", LONG, || async {
        let pods = pods.list(&ListParams::default()).await?.items;
        let going = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        let going = pods.iter().filter(going).count();
        Ok(Observation::when(going == 0, pods.len(), going))
    })
    .await?;
    let quota = serde_json::from_value(json!({
        "metadata": {"name": "tight"},
        "spec": {"hard": {"pods": (used + 1).to_string()}},
    }))?;
    let quotas = target.cluster().beside_workspaces::<ResourceQuota>();
    quotas.create(&PostParams::default(), &quota).await?;
    until("the quota to count", LONG, || async {
        let status = quotas.get("tight").await?.status.unwrap_or_default();
        let counted = status
            .used
            .as_ref()
            .is_some_and(|used| used.contains_key("pods"));
        Ok(Observation::when(counted, (), status))
    })
    .await
}

pub(super) async fn a_bulk_waits_for_room_that_its_own_pods_take(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("tight", "1.0");
    offer(&target, &template).await?;
    for (owner, id) in MANY {
        spawn(&target, owner, &template, id).await?;
    }
    // Not at once, so that they are in each other's way.
    let second = template
        .clone()
        .version("2.0")
        .env("READY_DELAY_MS", "1000");
    offer(&target, &second).await?;
    let bulk = async {
        room_for_one(&target).await?;
        let arguments = json!({"template": "tight", "maxParallel": 3});
        let answer = tool(&target, "admin", "upgrade_all_workspaces", arguments).await?;
        assert_eq!(answer["total"], 3, "{answer}");
        ended(&target, "admin", &text(&answer["operationId"])).await
    };
    let bulk = bulk.await;
    // Whatever came of it: the cases that follow need room.
    let quotas = target.cluster().beside_workspaces::<ResourceQuota>();
    quotas.delete("tight", &DeleteParams::default()).await?;
    let bulk = bulk?;
    assert_eq!(
        (&bulk["state"], &bulk["counts"]["succeeded"]),
        (&json!("succeeded"), &json!(3)),
        "{bulk}"
    );
    for (owner, id) in MANY {
        assert_eq!(served(&target, owner, id).await?.0, "2.0");
    }
    tidy(&target, &MANY.map(|(_, id)| id), &[&template]).await
}

pub(super) async fn no_secret_in_any_word_about_a_failure(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let secret = "correct-horse-battery-staple";
    let template = target.template("discreet", "1.0");
    let id = template.name();
    workspace(&target, "alice", &template).await?;
    let told = template
        .clone()
        .version("2.0")
        .env("DATABASE_PASSWORD", secret)
        .env("DATABASE_URL", &format!("postgres://app:{secret}@db/app"));
    // Refused by the API server; never running; ended by itself.
    let port = json!([{"name": "http", "containerPort": 70_000}]);
    let spoilt = [
        told.clone().container("ports", port),
        told.clone().image("localhost/nogoo9-none:1"),
        told.env("CRASH", "1"),
    ];
    for spoiled in spoilt {
        offer(&target, &spoiled.annotation(keys::UPGRADE_DEADLINE, "6")).await?;
        let eyes = Eyes::on(&target, "alice", id).await?;
        let answer = begin(&target, "alice", id).await?;
        let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
        let (error, _) = back_on_old(&target, "alice", id, &operation).await?;
        eyes.close().await?;
        let alice = target.api("alice").await?;
        let seen = alice.workspace(id).await?;
        for (what, words) in [
            ("the error", error),
            ("the operation", operation.to_string()),
            ("the workspace", seen.to_string()),
        ] {
            assert!(!words.contains(secret), "{what}: {words}");
        }
    }
    let events = target.cluster().beside_workspaces::<Event>();
    for event in events.list(&ListParams::default()).await?.items {
        let note = event.message.unwrap_or_default();
        assert!(!note.contains(secret), "an event: {note}");
    }
    let stored = target.cluster().config_maps_api();
    for map in stored.list(&ListParams::default()).await?.items {
        // The template is where it comes from.
        if map.metadata.name.as_deref() != Some(id) {
            let data = format!("{:?}", map.data);
            assert!(!data.contains(secret), "{:?}", map.metadata.name);
        }
    }
    assert!(!target.dump().await.contains(secret), "a log");
    tidy(&target, &[id], &[&template]).await
}
