//! What most cases on a [`Target`] begin and end with. What must hold is asserted here; an error is
//! only what keeps a case from looking.

use crate::cluster::selector;
use crate::{Api, Generation, Observation, Target, Template, ToolResult, until};
use anyhow::{Context as _, ensure};
use http::Method;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use nogoo9_model::keys;
use serde_json::{Value, json};
use std::time::Duration;

/// Longest wait for anything that takes processes or containers to start or end.
const LONG: Duration = Duration::from_secs(120);

/// Text of a JSON string; of anything else, nothing.
#[must_use]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Stores the template, and waits until control uses this very version of it.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn offer(target: &Target, template: &Template) -> anyhow::Result<()> {
    let admin = target.api("admin").await?;
    let path = format!("/api/v1/templates/{}", template.name());
    let before = admin.get(&path).await?;
    // Any other answer says nothing of the version that control has, and each would differ from it.
    ensure!(matches!(before.status, 200 | 404), "{path}: {before:?}");
    let before = before.body["version"].clone();
    target.cluster().apply(template).await?;
    until("the template to be known", LONG, || async {
        let reply = admin.get(&path).await?;
        let known = reply.body["usable"] == true && reply.body["version"] != before;
        Ok(Observation::when(known, (), reply))
    })
    .await
}

/// Spawns a workspace in the owner's name, and waits until it is routed to; returns its pod's name.
/// Whoever may not spawn gets it from an admin.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn spawn(
    target: &Target,
    owner: &str,
    template: &Template,
    id: &str,
) -> anyhow::Result<String> {
    let who = if owner == "vera" { "admin" } else { owner };
    let mut body = json!({"template": template.name(), "id": id});
    if who != owner {
        body["userSub"] = owner.into();
    }
    let api = target.api(who).await?;
    api.post("/api/v1/workspaces", &body).await?.expect(201)?;
    target.routed(id, None).await
}

/// A workspace of a new template, both called `id`.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn workspace(
    target: &Target,
    owner: &str,
    template: &Template,
) -> anyhow::Result<String> {
    offer(target, template).await?;
    spawn(target, owner, template, template.name()).await
}

/// What a tool that must not fail returns to a user.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn tool(
    target: &Target,
    user: &str,
    tool: &str,
    arguments: Value,
) -> anyhow::Result<Value> {
    let result = target
        .call(Generation::Second, user, tool, arguments)
        .await?;
    result.ok().with_context(|| format!("{tool} by {user}"))
}

/// Begins an upgrade, as that user, by the tool.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn begin(target: &Target, user: &str, id: &str) -> anyhow::Result<Value> {
    let answer = tool(target, user, "upgrade_workspace", json!({"id": id})).await?;
    assert_eq!(answer["status"], "upgrading", "{answer}");
    Ok(answer)
}

/// Follows an operation to its end by the tool that waits.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn ended(target: &Target, user: &str, operation: &str) -> anyhow::Result<Value> {
    until(&format!("operation {operation} to end"), LONG, || async {
        let arguments = json!({"operationId": operation, "seconds": 5});
        let seen = tool(target, user, "wait_for_operation", arguments).await?;
        Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
    })
    .await
}

/// A tool's refusal: one text that is JSON, with this code and message.
pub fn refused(result: &ToolResult, code: &str, message: &str) {
    assert!(result.is_error, "{result:?}");
    assert_eq!(result.structured, None, "{result:?}");
    assert_eq!(
        (&result.text["code"], &result.text["message"]),
        (&json!(code), &json!(message))
    );
}

/// The version that the workspace says it has, and the pod that says so, to its owner.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn served(target: &Target, owner: &str, id: &str) -> anyhow::Result<(String, String)> {
    let info = target.edge(owner).await?.get(id, "/info").await?.json()?;
    Ok((text(&info["version"]), text(&info["pod"])))
}

/// Asserts that the workspace ended a failed upgrade as it must: on its old version, served by its
/// only pod, with the error on it and no upgrade under way. Returns the error and that pod's name.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn back_on_old(
    target: &Target,
    owner: &str,
    id: &str,
    operation: &Value,
) -> anyhow::Result<(String, String)> {
    assert_eq!(operation["state"], "failed", "{operation}");
    let error = &operation["targets"][0]["error"];
    let error = match text(&error["message"]).as_str() {
        "" => text(&error["reason"]),
        message => format!("{}: {message}", text(&error["reason"])),
    };
    let api = target.api(owner).await?;
    let seen = at_rest(&api, id).await?;
    assert_eq!(
        (&seen["outdated"], text(&seen["lastUpgradeError"])),
        (&json!(true), error.clone()),
        "{seen}"
    );
    let pod = target
        .cluster()
        .only_pod(id, &text(&seen["podName"]), LONG)
        .await?;
    assert_eq!(
        pod.annotations().get(keys::LAST_UPGRADE_ERROR),
        Some(&error)
    );
    let record = target.cluster().record(id).await?.unwrap_or_default();
    assert_eq!(record["upgrade"], json!(null), "{record}");
    let (version, by) = served(target, owner, id).await?;
    assert_eq!((version.as_str(), &by), ("1.0", &pod.name_any()));
    Ok((error, by))
}

/// The workspace, once it runs and no upgrade is under way, but for an old pod that is ending.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn at_rest(api: &Api, id: &str) -> anyhow::Result<Value> {
    until(&format!("{id} to run"), LONG, || async {
        let seen = api.workspace(id).await?;
        Ok(Observation::when(
            seen["status"] == "running",
            seen.clone(),
            seen,
        ))
    })
    .await
}

/// Claims of the workspace.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn claims(target: &Target, id: &str) -> anyhow::Result<Vec<PersistentVolumeClaim>> {
    let params = ListParams::default().labels(&selector(id));
    let claims = target
        .cluster()
        .beside_workspaces::<PersistentVolumeClaim>();
    Ok(claims.list(&params).await.context("list claims")?.items)
}

/// Removes workspaces with their data, and the templates: what is left of a case would otherwise be
/// upgraded by the case that upgrades everything.
///
/// # Errors
/// Something does not answer, or not in time.
pub async fn tidy(target: &Target, ids: &[&str], templates: &[&Template]) -> anyhow::Result<()> {
    let admin = target.api("admin").await?;
    for id in ids {
        let path = format!("/api/v1/workspaces/{id}?deleteData=true&release=true");
        let reply = admin.ask(Method::DELETE, &path, None).await?;
        assert!(matches!(reply.status, 200 | 202), "{id}: {reply:?}");
    }
    for id in ids {
        until(&format!("{id} to be gone"), LONG, || async {
            let pods = target.cluster().pod_names(id).await?;
            let claims = claims(target, id).await?;
            // What stays for a while is a tombstone, which says that nothing else does.
            let record = target.cluster().record(id).await?;
            let record = record.is_some_and(|record| record["goneAt"].is_null());
            let gone = pods.is_empty() && claims.is_empty() && !record;
            Ok(Observation::when(gone, (), (pods, claims.len(), record)))
        })
        .await?;
    }
    for template in templates {
        target
            .cluster()
            .config_maps_api()
            .delete(template.name(), &DeleteParams::default())
            .await?;
    }
    Ok(())
}
