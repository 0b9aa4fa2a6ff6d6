//! Who may upgrade what, and the words of every refusal, over MCP and JSON alike.

use super::LONG;
use super::stage::{begin, ended, offer, refused, served, text, tidy, tool, workspace};
use http::Method;
use kube::ResourceExt as _;
use nogoo9_model::name;
use nogoo9_tests::{Generation, Observation, Target, until};
use serde_json::{Value, json};
use std::sync::Arc;

const GENERATIONS: [Generation; 2] = [Generation::First, Generation::Second];
/// The decision record's words, to the letter.
const NOT_YOURS: &str = "Access Denied";
const ADMINS_ONLY: &str = "Forbidden: Only admin users can upgrade all workspaces";

pub(super) async fn a_writer_upgrades_own(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("ownup", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "alice", &template).await?;
    let before = tool(&target, "alice", "get_workspace", json!({"id": id})).await?;
    assert_eq!(
        served(&target, "alice", &id).await?,
        ("1.0".into(), old.clone())
    );

    offer(&target, &template.clone().version("2.0")).await?;
    let token_holder = target
        .call(
            Generation::First,
            "alice",
            "upgrade_workspace",
            json!({"id": id}),
        )
        .await?
        .ok()?;
    let (pod, operation) = (
        text(&token_holder["podName"]),
        text(&token_holder["operationId"]),
    );
    assert_eq!(
        (
            &token_holder["id"],
            &token_holder["status"],
            &token_holder["mode"],
            text(&token_holder["previousPodName"])
        ),
        (&json!(id), &json!("upgrading"), &json!("side-by-side"), old)
    );
    assert!(
        pod.starts_with("ws-alice-ownup-up-") && pod.len() < 63,
        "{pod}"
    );
    let operation = ended(&target, "alice", &operation).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");

    let after = tool(&target, "alice", "get_workspace", json!({"id": id})).await?;
    assert_eq!(after["url"], before["url"]);
    assert_eq!(
        (&after["owner"], &after["podName"], &after["outdated"]),
        (&json!("alice"), &json!(pod), &json!(false)),
        "{after}"
    );
    target.cluster().only_pod(&id, &pod, LONG).await?;
    assert_eq!(served(&target, "alice", &id).await?, ("2.0".into(), pod));
    tidy(&target, &[&id], &[&template]).await
}

/// What a refused command must leave as it is: the pods and the record.
async fn facts(target: &Target, id: &str) -> anyhow::Result<(Vec<String>, Option<String>)> {
    let record = target
        .cluster()
        .secrets_api()
        .get(&name::record(id))
        .await?;
    Ok((
        target.cluster().pod_names(id).await?,
        record.resource_version(),
    ))
}

pub(super) async fn anothers_is_refused_like_none(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("notbobs", "1.0");
    let id = template.name().to_owned();
    workspace(&target, "alice", &template).await?;
    offer(&target, &template.clone().version("2.0")).await?;
    let before = facts(&target, &id).await?;

    // A writer and a reader; by either SDK; one's own role makes no difference to the words.
    for (user, generation) in [
        ("bob", Generation::First),
        ("bob", Generation::Second),
        ("vera", Generation::Second),
    ] {
        for action in ["upgrade_workspace", "get_workspace"] {
            let ask = |id: &str| target.call(generation, user, action, json!({"id": id}));
            let anothers = ask(&id).await?;
            refused(&anothers, "access_denied", NOT_YOURS);
            assert_eq!(anothers, ask("there-is-none").await?, "{user} {action}");
        }
        let api = target.api(user).await?;
        let anothers = api.act(&id, "upgrade").await?;
        assert_eq!(
            (anothers.status, &anothers.body["message"]),
            (403, &json!(NOT_YOURS)),
            "{user}: {anothers:?}"
        );
        assert_eq!(anothers, api.act("there-is-none", "upgrade").await?);
        let absent = format!("/api/v1/workspaces/{id}");
        assert_eq!(
            api.get(&absent).await?,
            api.get("/api/v1/workspaces/there-is-none").await?
        );
        let listed = tool(&target, user, "list_workspaces", json!({})).await?;
        assert!(!listed.to_string().contains(&id), "{listed}");
    }
    // Even for an admin, what is not there is refused in the same words.
    let absent = target
        .call(
            Generation::Second,
            "admin",
            "upgrade_workspace",
            json!({"id": "there-is-none"}),
        )
        .await?;
    refused(&absent, "access_denied", NOT_YOURS);
    assert_eq!(facts(&target, &id).await?, before, "something was touched");
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn a_reader_cannot_upgrade_own(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("veras", "1.0");
    let id = template.name().to_owned();
    workspace(&target, "vera", &template).await?;
    offer(&target, &template.clone().version("2.0")).await?;
    let before = facts(&target, &id).await?;

    // It is hers: she sees it, and that there is a newer version, and opens it.
    let seen = tool(&target, "vera", "get_workspace", json!({"id": id})).await?;
    assert_eq!(
        (&seen["owner"], &seen["outdated"]),
        (&json!("vera"), &json!(true))
    );
    assert_eq!(served(&target, "vera", &id).await?.0, "1.0");
    let message = "Forbidden: this needs the role 'user'";
    for generation in GENERATIONS {
        let result = target
            .call(generation, "vera", "upgrade_workspace", json!({"id": id}))
            .await?;
        refused(&result, "forbidden", message);
    }
    let api = target.api("vera").await?;
    for action in ["upgrade", "stop", "start"] {
        let reply = api.act(&id, action).await?;
        assert_eq!(
            (reply.status, &reply.body["message"]),
            (403, &json!(message)),
            "{action}"
        );
    }
    let path = format!("/api/v1/workspaces/{id}");
    let reply = api.ask(Method::DELETE, &path, None).await?;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(facts(&target, &id).await?, before, "something was touched");

    // An admin may, and it stays hers.
    let answer = begin(&target, "admin", &id).await?;
    let operation = ended(&target, "vera", &text(&answer["operationId"])).await?;
    assert_eq!(
        (&operation["state"], &operation["actor"]),
        (&json!("succeeded"), &json!("admin"))
    );
    assert_eq!(served(&target, "vera", &id).await?.0, "2.0");
    // She reads what was done to it, and what it writes.
    until("what was done to be told", LONG, || async {
        let arguments = json!({"id": id, "limit": 200});
        let told = tool(&target, "vera", "get_workspace_events", arguments).await?;
        let done = told["events"].as_array().is_some_and(|events| {
            let succeeded = |event: &Value| event["reason"] == "OperationSucceeded";
            events.iter().any(succeeded)
        });
        Ok(Observation::when(done, (), told))
    })
    .await?;
    let arguments = json!({"id": id, "tailLines": 5});
    let log = tool(&target, "vera", "get_workspace_logs", arguments).await?;
    assert_eq!(
        (&log["id"], &log["container"], log["log"].is_string()),
        (&json!(id), &json!("workspace"), true),
        "{log}"
    );
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn bulk_is_for_admins(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("nobulk", "1.0");
    let id = template.name().to_owned();
    workspace(&target, "alice", &template).await?;
    offer(&target, &template.clone().version("2.0")).await?;
    let before = facts(&target, &id).await?;

    // However little is asked for: also a dry run, also of one's own.
    let asked: [Value; 3] = [
        json!({}),
        json!({"dryRun": true}),
        json!({"userSub": "alice", "template": id}),
    ];
    for user in ["alice", "vera"] {
        let api = target.api(user).await?;
        for arguments in &asked {
            for generation in GENERATIONS {
                let result = target
                    .call(
                        generation,
                        user,
                        "upgrade_all_workspaces",
                        arguments.clone(),
                    )
                    .await?;
                refused(&result, "forbidden", ADMINS_ONLY);
            }
            let reply = api.post("/api/v1/upgrade-all", arguments).await?;
            assert_eq!(
                (reply.status, &reply.body["message"]),
                (403, &json!(ADMINS_ONLY)),
                "{user} {arguments}"
            );
        }
        let can = tool(&target, user, "get_capabilities", json!({})).await?;
        assert_eq!(can["isAdmin"], false, "{can}");
    }
    let can = tool(&target, "admin", "get_capabilities", json!({})).await?;
    assert_eq!(can["isAdmin"], true, "{can}");
    assert_eq!(facts(&target, &id).await?, before, "something was touched");
    tidy(&target, &[&id], &[&template]).await
}
