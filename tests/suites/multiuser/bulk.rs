//! An admin upgrades everything that is outdated.

use super::LONG;
use super::files::{read_file, write_file};
use super::owner::variable;
use super::stage::{begin, ended, offer, served, spawn, text, tidy, tool};
use super::watch::Pods;
use anyhow::Context as _;
use futures::future::try_join_all;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is outdated: owner, id, and how it is upgraded. The last one will fail.
const WORKSPACES: [(&str, &str, &str); 5] = [
    ("alice", "many-a", "side-by-side"),
    ("bob", "many-b", "side-by-side"),
    ("bob", "many-c", "recreate"),
    ("vera", "many-v", "side-by-side"),
    ("alice", "spoiled-a", "side-by-side"),
];

fn good_ones() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    WORKSPACES
        .into_iter()
        .filter(|(_, id, _)| *id != "spoiled-a")
}

/// Targets of a bulk by workspace.
fn by_id(targets: &Value) -> BTreeMap<String, Value> {
    let targets = targets.as_array().into_iter().flatten();
    targets.map(|one| (text(&one["id"]), one.clone())).collect()
}

pub(super) async fn an_admin_upgrades_all_and_one_fails(target: Arc<Target>) -> anyhow::Result<()> {
    let good = target.template("many", "1.0").env("OWNER", "${{user}}");
    let claimed = target
        .template_with_claim("manyfiles", "1.0")
        .env("OWNER", "${{user}}");
    let bad = target.template("spoiled", "1.0");
    let fresh = target.template("fresh", "1.0");
    for template in [&good, &claimed, &bad, &fresh] {
        offer(&target, template).await?;
    }
    let spawned = WORKSPACES.into_iter().map(|(owner, id, _)| {
        let template = match id {
            "spoiled-a" => &bad,
            "many-c" => &claimed,
            _ => &good,
        };
        spawn(&target, owner, template, id)
    });
    try_join_all(spawned).await?;
    spawn(&target, "bob", &fresh, "fresh-b").await?;
    let content = write_file(&target, "bob", "many-c", "notes.bin").await?;
    let urls = urls(&target).await?;
    offer(&target, &good.clone().version("2.0")).await?;
    offer(&target, &claimed.clone().version("2.0")).await?;
    let spoiled = bad
        .clone()
        .image("localhost/nogoo9-none:1")
        .annotation(keys::UPGRADE_DEADLINE, "30");
    offer(&target, &spoiled).await?;

    // First what would happen: to whom, and how. Nothing does.
    let pods = pods(&target).await?;
    let would = tool(
        &target,
        "admin",
        "upgrade_all_workspaces",
        json!({"dryRun": true}),
    )
    .await?;
    assert_eq!(
        (&would["status"], &would["total"]),
        (&json!("dry_run"), &json!(5)),
        "{would}"
    );
    let targets = by_id(&would["targets"]);
    for (owner, id, mode) in WORKSPACES {
        let one = &targets[id];
        assert_eq!(
            (&one["owner"], &one["verdict"], &one["mode"]),
            (&json!(owner), &json!("upgrade"), &json!(mode)),
            "{one}"
        );
        assert_ne!(one["fromVersion"], one["toVersion"]);
    }
    assert_eq!(
        self::pods(&target).await?,
        pods,
        "a dry run touched something"
    );

    let watched = Pods::of_all(&target).await?;
    let arguments = json!({"maxParallel": 2});
    let answer = tool(&target, "admin", "upgrade_all_workspaces", arguments).await?;
    assert_eq!(
        (&answer["status"], &answer["total"]),
        (&json!("upgrading"), &json!(5)),
        "{answer}"
    );
    let operation = text(&answer["operationId"]);
    let bulk = follow(&target, &operation).await?;
    // A successor counts until it is ready: when it takes over, the record says so before the pod,
    // and the next one may begin in between.
    assert!(
        watched.end().await?.most_candidates() <= 2,
        "more than asked for"
    );
    results(&target, &bulk).await?;
    for (owner, id, _) in good_ones() {
        let (version, pod) = served(&target, owner, id).await?;
        assert_eq!(version, "2.0");
        assert!(pod.starts_with(&format!("ws-{owner}-{id}-up-")), "{pod}");
        let pod = target.cluster().only_pod(id, &pod, LONG).await?;
        assert_eq!(pod.annotations()[keys::USER_SUB], owner);
        assert_eq!(pod.labels()[keys::USER_SUB], owner);
        assert_eq!(variable(&pod, "OWNER").as_deref(), Some(owner));
    }
    assert_eq!(self::urls(&target).await?, urls);
    let after = read_file(&target, "bob", "many-c", "notes.bin").await?;
    assert_eq!(after, content);
    // Its parts are not operations of their own in the list.
    let listed = tool(&target, "admin", "list_operations", json!({})).await?;
    let listed = listed["operations"].as_array().cloned().unwrap_or_default();
    let itself = listed
        .iter()
        .filter(|one| one["operationId"] == operation.as_str());
    assert_eq!(itself.count(), 1, "{listed:?}");
    let mut parts = listed.iter().filter(|one| {
        let id = one["targets"][0]["id"].as_str();
        one["kind"] == "upgrade"
            && one["actor"] == "admin"
            && WORKSPACES.iter().any(|(_, known, _)| Some(*known) == id)
    });
    assert_eq!(parts.next(), None);
    // Owners do not see who else was upgraded.
    let alices = target.api("alice").await?;
    let path = format!("/api/v1/operations/{operation}");
    assert_ne!(alices.get(&path).await?.status, 200);

    // The one that failed is upgraded once its template is mended, and then there is nothing to do.
    offer(&target, &bad.clone().version("3.0")).await?;
    let answer = begin(&target, "alice", "spoiled-a").await?;
    let last = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(last["state"], "succeeded", "{last}");
    none_outdated(&target).await?;
    let answer = tool(&target, "admin", "upgrade_all_workspaces", json!({})).await?;
    assert_eq!(
        (&answer["status"], &answer["total"]),
        (&json!("up_to_date"), &json!(0)),
        "{answer}"
    );
    let ids = WORKSPACES.map(|(_, id, _)| id);
    let ids = [ids.as_slice(), &["fresh-b"]].concat();
    tidy(&target, &ids, &[&good, &claimed, &bad, &fresh]).await
}

/// Waits until the lists, which follow what is stored, show nothing that is outdated.
pub(super) async fn none_outdated(target: &Target) -> anyhow::Result<()> {
    until("nothing to be outdated", LONG, || async {
        let listed = tool(target, "admin", "list_workspaces", json!({})).await?;
        let listed = listed["workspaces"].as_array().context("workspaces")?;
        let outdated = listed.iter().filter(|one| one["outdated"] == true);
        let left: Vec<String> = outdated.map(|one| text(&one["id"])).collect();
        Ok(Observation::when(left.is_empty(), (), left))
    })
    .await
}

/// Follows the bulk to its end.
async fn follow(target: &Target, operation: &str) -> anyhow::Result<Value> {
    let path = format!("/api/v1/operations/{operation}?limit=250");
    let admin = target.api("admin").await?;
    until("the bulk to end", LONG, || async {
        let seen = admin.get(&path).await?.expect(200)?;
        Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
    })
    .await
}

/// One result each: four succeeded, one failed with its container's words.
async fn results(target: &Target, bulk: &Value) -> anyhow::Result<()> {
    assert_eq!(
        (&bulk["kind"], &bulk["actor"]),
        (&json!("upgrade-all"), &json!("admin"))
    );
    let counts = &bulk["counts"];
    assert_eq!(
        (&counts["total"], &counts["succeeded"], &counts["failed"]),
        (&json!(5), &json!(4), &json!(1)),
        "{bulk}"
    );
    let targets = by_id(&bulk["targets"]);
    for (owner, id, _) in good_ones() {
        assert_eq!(
            (&targets[id]["state"], &targets[id]["owner"]),
            (&json!("succeeded"), &json!(owner)),
            "{bulk}"
        );
    }
    let failed = &targets["spoiled-a"];
    assert_eq!(failed["state"], "failed", "{bulk}");
    let reason = text(&failed["error"]["reason"]);
    assert!(
        reason == "ErrImagePull" || reason == "ImagePullBackOff",
        "{failed}"
    );
    let (version, pod) = served(target, "alice", "spoiled-a").await?;
    assert_eq!(version, "1.0");
    let pod = target.cluster().only_pod("spoiled-a", &pod, LONG).await?;
    let error = &pod.annotations()[keys::LAST_UPGRADE_ERROR];
    assert_eq!(
        *error,
        format!("{reason}: {}", text(&failed["error"]["message"]))
    );
    assert!(error.contains("localhost/nogoo9-none:1"), "{error}");
    Ok(())
}

async fn pods(target: &Target) -> anyhow::Result<BTreeMap<&'static str, Vec<String>>> {
    let mut all = BTreeMap::new();
    for (_, id, _) in WORKSPACES {
        all.insert(id, target.cluster().pod_names(id).await?);
    }
    Ok(all)
}

/// Owner and address of every workspace, which an upgrade never changes.
async fn urls(target: &Target) -> anyhow::Result<BTreeMap<String, (String, String)>> {
    let listed = tool(target, "admin", "list_workspaces", json!({})).await?;
    let listed = listed["workspaces"].as_array().cloned();
    Ok(listed
        .unwrap_or_default()
        .iter()
        .map(|one| (text(&one["id"]), (text(&one["owner"]), text(&one["url"]))))
        .collect())
}
