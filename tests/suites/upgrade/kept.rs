//! What an upgrade keeps, and what it brings.

use super::{LONG, begin, ended, text};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Site, Template};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels and annotations that are the workspace's, whatever its template says.
const KEPT_LABELS: [&str; 4] = [
    keys::TYPE,
    keys::WORKSPACE_ID,
    keys::USER_SUB,
    keys::MANAGED_BY,
];
const KEPT_ANNOTATIONS: [&str; 6] = [
    keys::USER_SUB,
    keys::WORKSPACE_NAME,
    keys::WORKSPACE_PORT,
    keys::WORKSPACE_SINCE,
    keys::SPAWN_INPUTS,
    keys::TEMPLATE_REF,
];

fn parameters() -> String {
    json!({"type": "object", "properties": {
        "message": {"type": "string", "x-env": "MESSAGE", "maxLength": 80},
        "region": {"type": "string", "enum": ["north", "south"], "default": "north"},
    }})
    .to_string()
}

fn env(pod: &Pod) -> BTreeMap<String, String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    variables
        .filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)))
        .collect()
}

fn picked(
    keys: &[&'static str],
    map: &BTreeMap<String, String>,
) -> Vec<(&'static str, Option<String>)> {
    keys.iter()
        .map(|key| (*key, map.get(*key).cloned()))
        .collect()
}

pub(super) async fn identity_and_inputs_stay_and_the_template_lands(
    site: Arc<Site>,
) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let first = Template::new("kept", "1.0")
        .annotation(keys::PARAMETERS, &parameters())
        .annotation(keys::WORKSPACE_TYPE, "first")
        .annotation("nogoo9/api.dropped.port", "4001")
        .env("PORT", "4000")
        .env("STAYS", "same")
        .env("CHANGES", "old")
        .env("GOES", "soon")
        .env("MESSAGE", "the template's")
        .container(
            "readinessProbe",
            json!({"httpGet": {"path": "/healthz", "port": 4000}, "periodSeconds": 1}),
        );
    let spawn = json!({
        "name": "Alice's machine ☀",
        "port": 4000,
        "inputs": {"message": "hello from alice"},
    });
    let id = site.spawn(&alice, &first, spawn).await?;
    let before = cluster.pods(&id).await?.remove(0);
    assert_eq!(
        site.edge("alice").await?.get(&id, "/info").await?.json()?["message"],
        "hello from alice"
    );

    // Everything that a template can change does, and it also tries what it must not: the port.
    let second = Template::new("kept", "2.0")
        .annotation(
            keys::PARAMETERS,
            &parameters().replace("\"north\"]", "\"north\",\"west\"]"),
        )
        .annotation(keys::WORKSPACE_PORT, "9999")
        .annotation(keys::WORKSPACE_TYPE, "second")
        .annotation("nogoo9/api.added.port", "4002")
        .env("PORT", "4000")
        .env("STAYS", "same")
        .env("CHANGES", "new")
        .env("ADDED", "now")
        .env("MESSAGE", "the template's")
        .container("args", json!(["--an-argument", "of version 2"]))
        .container(
            "readinessProbe",
            json!({"httpGet": {"path": "/healthz", "port": 4000}, "periodSeconds": 1}),
        );
    cluster.apply(&second).await?;
    let answer = begin(&alice, &id).await?;
    let operation = ended(&alice, &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    let after = cluster
        .only_pod(&id, &text(&answer["podName"]), LONG)
        .await?;

    assert_eq!(
        picked(&KEPT_LABELS, after.labels()),
        picked(&KEPT_LABELS, before.labels())
    );
    assert_eq!(
        picked(&KEPT_ANNOTATIONS, after.annotations()),
        picked(&KEPT_ANNOTATIONS, before.annotations())
    );
    assert_eq!(
        after.annotations()[keys::WORKSPACE_PORT],
        "4000",
        "the user's port"
    );
    assert_eq!(
        after.annotations()[keys::WORKSPACE_NAME],
        "Alice's machine ☀"
    );
    assert_eq!(after.namespace(), before.namespace());
    let generation = |pod: &Pod| pod.labels()[keys::GENERATION].parse::<u32>();
    assert_eq!(generation(&after)?, generation(&before)? + 1);
    assert_ne!(
        after.annotations()[keys::TEMPLATE_VERSION],
        before.annotations()[keys::TEMPLATE_VERSION]
    );

    let note = |key: &str| after.annotations().get(key).map(String::as_str);
    assert_eq!(
        (
            note(keys::WORKSPACE_TYPE),
            note("nogoo9/api.added.port"),
            note("nogoo9/api.dropped.port")
        ),
        (Some("second"), Some("4002"), None)
    );
    let variable = env(&after);
    let variable = |name: &str| variable.get(name).map(String::as_str);
    assert_eq!(
        (
            variable("STAYS"),
            variable("CHANGES"),
            variable("ADDED"),
            variable("GOES")
        ),
        (Some("same"), Some("new"), Some("now"), None)
    );
    assert_eq!(
        (variable("MESSAGE"), variable("REGION")),
        (Some("hello from alice"), Some("north")),
        "what the user set wins"
    );
    let container = after
        .spec
        .iter()
        .flat_map(|spec| &spec.containers)
        .next()
        .map(|c| (c.image.clone(), c.args.clone()));
    let args = Some(vec!["--an-argument".to_owned(), "of version 2".to_owned()]);
    assert_eq!(
        container,
        Some((Some("nogoo9-sample:2.0".to_owned()), args))
    );

    let info = site.edge("alice").await?.get(&id, "/info").await?.json()?;
    assert_eq!(
        (&info["version"], &info["message"], &info["pod"]),
        (
            &json!("2.0"),
            &json!("hello from alice"),
            &answer["podName"]
        )
    );
    Ok(())
}

pub(super) async fn an_admins_upgrade_leaves_the_owner(site: Arc<Site>) -> anyhow::Result<()> {
    let (admin, cluster) = (site.api("admin").await?, site.cluster().await?);
    // Spawned by an admin for bob, upgraded by the admin: bob's all along.
    let template = Template::new("bobs", "1.0");
    let id = site
        .spawn(&admin, &template, json!({"userSub": "bob"}))
        .await?;
    cluster.apply(&template.version("2.0")).await?;
    let answer = begin(&admin, &id).await?;
    assert!(
        text(&answer["podName"]).starts_with("ws-bob-bobs-up-"),
        "{answer}"
    );
    let operation = ended(&admin, &text(&answer["operationId"])).await?;
    assert_eq!(
        (&operation["state"], &operation["actor"]),
        (&json!("succeeded"), &json!("admin")),
        "{operation}"
    );
    let pod = cluster
        .only_pod(&id, &text(&answer["podName"]), LONG)
        .await?;
    assert_eq!(
        (
            pod.annotations()[keys::USER_SUB].as_str(),
            pod.labels()[keys::USER_SUB].as_str()
        ),
        ("bob", "bob")
    );
    assert_eq!(
        cluster.record(&id).await?.unwrap_or_default()["owner"],
        "bob"
    );
    assert_eq!(
        site.edge("bob").await?.get(&id, "/info").await?.json()?["version"],
        "2.0"
    );
    let admins = site.edge("admin").await?.get(&id, "/info").await?;
    assert_eq!(
        admins.status, 404,
        "being admin does not open another's pages"
    );
    Ok(())
}
