//! An admin upgrades another's workspace: it stays the owner's in every way that shows.

use super::LONG;
use super::stage::{begin, ended, offer, served, text, tidy, tool, workspace};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::Target;
use serde_json::json;
use std::sync::Arc;

/// Value of a variable of the pod's container.
pub(super) fn variable(pod: &Pod, name: &str) -> Option<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .flat_map(|container| container.env.iter().flatten())
        .find(|variable| variable.name == name)
        .and_then(|variable| variable.value.clone())
}

pub(super) async fn an_admins_upgrade_keeps_the_owner(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target
        .template("bobsown", "1.0")
        .env("OWNER", "${{user}}")
        .env("MESSAGE", "of ${{user}}, in ${{workspace_id}}");
    let id = template.name().to_owned();
    workspace(&target, "bob", &template).await?;
    let before = target.cluster().pods(&id).await?.remove(0);
    let seen_before = tool(&target, "bob", "get_workspace", json!({"id": id})).await?;

    offer(&target, &template.clone().version("2.0")).await?;
    let answer = begin(&target, "admin", &id).await?;
    let pod = text(&answer["podName"]);
    assert!(pod.starts_with("ws-bob-bobsown-up-"), "{pod}");
    // The owner follows what an admin began.
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    assert_eq!(
        (&operation["state"], &operation["actor"]),
        (&json!("succeeded"), &json!("admin")),
        "{operation}"
    );
    let after = target.cluster().only_pod(&id, &pod, LONG).await?;

    assert_eq!(after.labels()[keys::USER_SUB], "bob");
    assert_eq!(after.annotations()[keys::USER_SUB], "bob");
    assert_eq!(variable(&after, "OWNER").as_deref(), Some("bob"));
    assert_eq!(
        variable(&after, "MESSAGE").as_deref(),
        Some("of bob, in bobsown")
    );
    for key in [
        keys::WORKSPACE_NAME,
        keys::WORKSPACE_PORT,
        keys::WORKSPACE_PATH,
        keys::PREVIEW_PATH,
        keys::WORKSPACE_SINCE,
    ] {
        assert_eq!(
            after.annotations().get(key),
            before.annotations().get(key),
            "{key}"
        );
    }
    // Who did it stands beside.
    let record = target.cluster().record(&id).await?.unwrap_or_default();
    assert_eq!(
        (&record["owner"], &record["last"]["operation"]["actor"]),
        (&json!("bob"), &json!("admin")),
        "{record}"
    );

    let seen = tool(&target, "bob", "get_workspace", json!({"id": id})).await?;
    assert_eq!(
        (&seen["url"], &seen["owner"]),
        (&seen_before["url"], &json!("bob"))
    );
    assert_eq!(served(&target, "bob", &id).await?, ("2.0".into(), pod));
    // Being admin opens no pages of others, before or after.
    let admins = target.edge("admin").await?.get(&id, "/info").await?;
    assert_eq!(admins.status, 404);
    tidy(&target, &[&id], &[&template]).await
}
