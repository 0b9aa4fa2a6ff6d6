//! What survives, and what lands.

use super::LONG;
use super::doomed::{claimed, one_writer};
use super::eyes::Eyes;
use super::files::{read_file, write_file};
use super::stage::{
    at_rest, back_on_old, begin, ended, offer, served, spawn, text, tidy, tool, workspace,
};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Target, Template, binary, until};
use serde_json::{Value, json};
use std::sync::Arc;

/// Upgrades to the end; returns the only pod there is then.
async fn upgraded(target: &Target, owner: &str, id: &str) -> anyhow::Result<Pod> {
    let answer = begin(target, owner, id).await?;
    settled(target, owner, id, &answer).await
}

async fn settled(target: &Target, owner: &str, id: &str, answer: &Value) -> anyhow::Result<Pod> {
    let operation = ended(target, owner, &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    let new = text(&answer["podName"]);
    target.routed(id, Some(&new)).await?;
    target.cluster().only_pod(id, &new, LONG).await
}

fn container(pod: &Pod) -> anyhow::Result<&Container> {
    let spec = pod.spec.as_ref().context("spec")?;
    spec.containers.first().context("container")
}

/// With another port, program, arguments, environment, volume and annotation.
fn all_changed(target: &Target, template: &Template) -> anyhow::Result<Template> {
    let program = match target.is_real() {
        true => "/nogoo9-sample".to_owned(),
        false => binary("nogoo9-sample")?.display().to_string(),
    };
    let ready = json!({"httpGet": {"path": "/healthz", "port": 4000}, "periodSeconds": 1});
    Ok(template
        .clone()
        .version("2.0")
        .annotation(keys::WORKSPACE_PORT, "4000")
        .annotation(keys::WORKSPACE_TYPE, "second")
        .env("PORT", "4000")
        .env("MESSAGE", "of the second")
        .container("command", json!([program]))
        .container("args", json!(["--of", "the second"]))
        .container("ports", json!([{"name": "http", "containerPort": 4000}]))
        .container("readinessProbe", ready)
        .volume(json!({"name": "scratch", "emptyDir": {}}), "/scratch"))
}

pub(super) async fn all_that_a_template_changes_lands(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target
        .template("landing", "1.0")
        .annotation(keys::WORKSPACE_TYPE, "first")
        .annotation("nogoo9/api.old.port", "4001")
        .env("MESSAGE", "of the first")
        .env("GOES", "soon");
    let id = template.name();
    workspace(&target, "alice", &template).await?;
    let second = target
        .template("landing", "1.0")
        .annotation("nogoo9/api.new.port", "4002");
    offer(&target, &all_changed(&target, &second)?).await?;
    let pod = upgraded(&target, "alice", id).await?;

    let note = |key: &str| pod.annotations().get(key).map(String::as_str);
    assert_eq!(
        [
            note(keys::WORKSPACE_PORT),
            note(keys::WORKSPACE_TYPE),
            note("nogoo9/api.new.port"),
            note("nogoo9/api.old.port"),
        ],
        [Some("4000"), Some("second"), Some("4002"), None]
    );
    let container = container(&pod)?;
    let variables = container.env.iter().flatten();
    let names: Vec<&str> = variables.map(|variable| variable.name.as_str()).collect();
    assert!(!names.contains(&"GOES"), "{names:?}");
    assert_eq!(
        container.args.as_deref().unwrap_or_default(),
        ["--of", "the second"]
    );
    assert_eq!(container.command.as_ref().map(Vec::len), Some(1));
    let mounts = container.volume_mounts.iter().flatten();
    let mounts: Vec<&str> = mounts.map(|mount| mount.mount_path.as_str()).collect();
    assert!(mounts.contains(&"/scratch"), "{mounts:?}");
    // It is reached at its new port, and says what it was told.
    let info = target.edge("alice").await?.get(id, "/info").await?.json()?;
    assert_eq!(
        (&info["version"], &info["message"], &info["pod"]),
        (
            &json!("2.0"),
            &json!("of the second"),
            &json!(pod.name_any())
        ),
        "{info}"
    );
    tidy(&target, &[id], &[&template]).await
}

/// Waits until the workspace's only pod tells of that operation as the newest; the workspace itself
/// says the same.
async fn tells(target: &Target, owner: &str, id: &str, operation: &Value) -> anyhow::Result<()> {
    let told = until(&format!("{id} to tell of its upgrade"), LONG, || async {
        let pods = target.cluster().pods(id).await?;
        let told: Vec<Value> = pods
            .iter()
            .filter_map(|pod| pod.annotations().get(keys::LAST_UPGRADE))
            .filter_map(|told| serde_json::from_str(told).ok())
            .collect();
        Ok(match told.as_slice() {
            [one] if pods.len() == 1 && one["id"] == operation["operationId"] => {
                Observation::Holds(one.clone())
            }
            _ => Observation::NotYet(format!("{told:?} of {} pods", pods.len())),
        })
    })
    .await?;
    let upgraded = &operation["targets"][0];
    let facts = |id: &str| {
        json!({
            id: operation["operationId"],
            "from": upgraded["fromVersion"],
            "to": upgraded["toVersion"],
            "actor": owner,
            "startedAt": operation["startedAt"],
            "finishedAt": operation["finishedAt"],
            "state": operation["state"],
        })
    };
    assert_eq!(told, facts("id"));
    let (api, shown) = (target.api(owner).await?, facts("operationId"));
    until(&format!("{id} to show its upgrade"), LONG, || async {
        let seen = api.workspace(id).await?;
        Ok(Observation::when(seen["lastUpgrade"] == shown, (), seen))
    })
    .await?;
    Ok(())
}

pub(super) async fn the_newest_upgrade_is_told_and_old_errors_are_forgotten(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("forgiven", "1.0");
    let id = template.name();
    let old = workspace(&target, "bob", &template).await?;
    let spoiled = template.clone().image("localhost/nogoo9-none:1");
    offer(&target, &spoiled.annotation(keys::UPGRADE_DEADLINE, "40")).await?;
    let answer = begin(&target, "bob", id).await?;
    let failed = ended(&target, "bob", &text(&answer["operationId"])).await?;
    let (error, by) = back_on_old(&target, "bob", id, &failed).await?;
    assert_eq!(by, old);
    assert!(error.contains("localhost/nogoo9-none:1"), "{error}");
    tells(&target, "bob", id, &failed).await?;

    for version in ["2.0", "3.0"] {
        offer(&target, &template.clone().version(version)).await?;
        let answer = begin(&target, "bob", id).await?;
        let pod = settled(&target, "bob", id, &answer).await?;
        assert_eq!(pod.annotations().get(keys::LAST_UPGRADE_ERROR), None);
        let seen = at_rest(&target.api("bob").await?, id).await?;
        assert_eq!(seen["lastUpgradeError"], json!(null), "{seen}");
        assert_eq!(served(&target, "bob", id).await?.0, version);
        let done = ended(&target, "bob", &text(&answer["operationId"])).await?;
        tells(&target, "bob", id, &done).await?;
    }
    tidy(&target, &[id], &[&template]).await
}

/// Subjects as identity providers make them.
fn subjects() -> [String; 5] {
    [
        "auth0|61f0c3a9b1e2d40071c2a9f3".to_owned(),
        "zoe.o'brien+ops@mail.example.org".to_owned(),
        "u".repeat(200),
        "ワークスペースの持ち主・Жанна・علي".to_owned(),
        "-- not a label --".to_owned(),
    ]
}

pub(super) async fn owners_of_any_subject(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("anybody", "1.0").env("OWNER", "${{user}}");
    offer(&target, &template).await?;
    let ids: Vec<String> = (0..subjects().len())
        .map(|index| format!("anybody-{index}"))
        .collect();
    for (owner, id) in subjects().iter().zip(&ids) {
        spawn(&target, owner, &template, id).await?;
    }
    offer(&target, &template.clone().version("2.0")).await?;
    let upgrades = subjects().into_iter().zip(&ids).map(|(owner, id)| {
        let target = Arc::clone(&target);
        async move {
            let before = target.cluster().pods(id).await?.remove(0);
            let eyes = Eyes::on(&target, &owner, id).await?;
            let pod = upgraded(&target, &owner, id).await?;
            assert_eq!(eyes.close().await?.versions(), ["1.0", "2.0"], "{owner}");
            assert_eq!(pod.annotations()[keys::USER_SUB], owner);
            assert_eq!(
                pod.labels()[keys::USER_SUB],
                before.labels()[keys::USER_SUB]
            );
            let variables = container(&pod)?.env.iter().flatten();
            let told: Vec<_> = variables
                .filter(|variable| variable.name == "OWNER")
                .map(|variable| variable.value.as_deref())
                .collect();
            assert_eq!(told, [Some(owner.as_str())]);
            let seen = target.api(&owner).await?.workspace(id).await?;
            assert_eq!(seen["owner"], owner.as_str(), "{seen}");
            // Nobody else's, whatever their names have in common.
            let other = target.api("alice").await?.act(id, "upgrade").await?;
            assert_eq!(other.status, 403, "{other:?}");
            anyhow::Ok(())
        }
    });
    futures::future::try_join_all(upgrades).await?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    tidy(&target, &ids, &[&template]).await
}

pub(super) async fn the_longest_id_of_the_longest_owner(target: Arc<Target>) -> anyhow::Result<()> {
    let owner = "longest".repeat(28);
    let template = claimed(&target, "longest");
    let id = "l".repeat(40);
    offer(&target, &template).await?;
    spawn(&target, &owner, &template, &id).await?;
    let content = write_file(&target, &owner, &id, "notes.bin").await?;
    offer(&target, &template.clone().version("2.0")).await?;
    let eyes = Eyes::on(&target, &owner, &id).await?;
    upgraded(&target, &owner, &id).await?;
    assert_eq!(eyes.close().await?.versions(), ["1.0", "2.0"]);
    assert_eq!(read_file(&target, &owner, &id, "notes.bin").await?, content);
    one_writer(&target, &owner, &id).await?;
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn files_and_inputs_survive(target: Arc<Target>) -> anyhow::Result<()> {
    let parameters = json!({"type": "object", "properties": {
        "message": {"type": "string", "x-env": "MESSAGE"},
    }});
    let template = claimed(&target, "surviving")
        .annotation(keys::PARAMETERS, &parameters.to_string())
        .env("MESSAGE", "the template's");
    let (id, said) = (template.name(), "\"by alice\" ☀ \t${{user}}\n");
    offer(&target, &template).await?;
    let alice = target.api("alice").await?;
    let spawn = json!({"template": id, "id": id, "inputs": {"message": said}});
    alice
        .post("/api/v1/workspaces", &spawn)
        .await?
        .expect(201)?;
    target.routed(id, None).await?;
    let first = write_file(&target, "alice", id, "first.bin").await?;
    let holds = async |version: &str| {
        let info = target.edge("alice").await?.get(id, "/info").await?.json()?;
        assert_eq!(
            (&info["version"], &info["message"]),
            (&json!(version), &json!(said)),
            "{info}"
        );
        assert_eq!(read_file(&target, "alice", id, "first.bin").await?, first);
        one_writer(&target, "alice", id).await
    };
    holds("1.0").await?;
    let eyes = Eyes::on(&target, "alice", id).await?;
    offer(&target, &template.clone().version("2.0")).await?;
    upgraded(&target, "alice", id).await?;
    holds("2.0").await?;
    let second = write_file(&target, "alice", id, "second.bin").await?;
    let arguments = json!({"id": id});
    let answer = tool(&target, "alice", "rollback_workspace", arguments).await?;
    settled(&target, "alice", id, &answer).await?;
    holds("1.0").await?;
    // What was written with the newer version is not lost with it.
    assert_eq!(read_file(&target, "alice", id, "second.bin").await?, second);
    assert_eq!(eyes.close().await?.versions(), ["1.0", "2.0", "1.0"]);
    tidy(&target, &[id], &[&template]).await
}
