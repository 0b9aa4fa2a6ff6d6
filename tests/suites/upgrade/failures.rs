//! Upgrades that cannot succeed: the original serves all along, and says why.

use super::{LONG, begin, ended, text};
use kube::ResourceExt as _;
use nogoo9_model::{keys, name};
use nogoo9_tests::{Api, Cluster, Observation, Site, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;

/// Seconds after which an upgrade is given up at the latest: enough for a slow machine to find out why
/// it cannot succeed.
const DEADLINE: &str = "20";

/// Asks the workspace again and again until the operation has ended; every answer is the old pod's.
async fn served_until_ended(
    site: &Site,
    api: &Api,
    id: &str,
    pod: &str,
    operation: &str,
) -> anyhow::Result<Value> {
    let edge = site.edge("alice").await?;
    until(&format!("operation {operation} to end"), LONG, || async {
        assert_eq!(edge.get(id, "/info").await?.json()?["pod"], pod);
        let seen = api.operation(operation).await?;
        Ok(Observation::when(seen["done"] == true, seen.clone(), seen))
    })
    .await
}

/// An upgrade of `id` to `template` that fails; returns the error that the owner gets to read.
async fn fails(
    site: &Site,
    template: &Template,
    spoiled: &Template,
    spoil: impl AsyncFnOnce(&Cluster, &str) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let id = site.spawn(&alice, template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    cluster.apply(spoiled).await?;
    let answer = begin(&alice, &id).await?;
    spoil(&cluster, &text(&answer["podName"])).await?;
    let operation =
        served_until_ended(site, &alice, &id, &old, &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "failed", "{operation}");
    let target = &operation["targets"][0];
    let error = format!(
        "{}: {}",
        text(&target["error"]["reason"]),
        text(&target["error"]["message"])
    );

    // The candidate is gone; the original serves, and carries the reason.
    let pod = cluster.only_pod(&id, &old, LONG).await?;
    assert_eq!(pod.annotations()[keys::LAST_UPGRADE_ERROR], error);
    assert!(pod.metadata.deletion_timestamp.is_none());
    let seen = alice.workspace(&id).await?;
    assert_eq!(
        (&seen["status"], &seen["podName"], &seen["outdated"]),
        (&json!("running"), &json!(old), &json!(true))
    );
    assert_eq!(seen["lastUpgradeError"], error.as_str());
    assert_eq!(
        cluster.record(&id).await?.unwrap_or_default()["upgrade"],
        json!(null)
    );

    // Once the template is mended the next upgrade succeeds, and the error is forgotten.
    cluster.apply(&template.clone().version("3.0")).await?;
    let second = until("another upgrade to begin", LONG, || async {
        let answer = begin(&alice, &id).await?;
        Ok(Observation::when(
            answer["operationId"] != operation["operationId"],
            answer.clone(),
            answer,
        ))
    })
    .await?;
    assert_ne!(
        second["podName"], answer["podName"],
        "a name is not used again"
    );
    assert_eq!(
        ended(&alice, &text(&second["operationId"])).await?["state"],
        "succeeded"
    );
    let pod = cluster
        .only_pod(&id, &text(&second["podName"]), LONG)
        .await?;
    assert_eq!(pod.annotations().get(keys::LAST_UPGRADE_ERROR), None);
    assert_eq!(alice.workspace(&id).await?["lastUpgradeError"], json!(null));
    Ok(error)
}

pub(super) async fn an_image_that_is_not_there(site: Arc<Site>) -> anyhow::Result<()> {
    let template = Template::new("noimage", "1.0");
    let spoiled = template
        .clone()
        .image("registry.invalid/none:1")
        .annotation(keys::UPGRADE_DEADLINE, DEADLINE);
    let error = fails(&site, &template, &spoiled, async |_, _| Ok(())).await?;
    assert!(
        error.starts_with("ErrImagePull: ") || error.starts_with("ImagePullBackOff: "),
        "{error}"
    );
    assert!(error.contains("registry.invalid/none:1"), "{error}");
    Ok(())
}

pub(super) async fn a_program_that_crashes(site: Arc<Site>) -> anyhow::Result<()> {
    let template = Template::new("crashes", "1.0");
    let spoiled = template
        .clone()
        .env("CRASH", "1")
        .annotation(keys::UPGRADE_DEADLINE, DEADLINE);
    let error = fails(&site, &template, &spoiled, async |_, _| Ok(())).await?;
    assert!(
        error.starts_with("CrashLoopBackOff: ") || error.starts_with("Error: "),
        "{error}"
    );
    Ok(())
}

pub(super) async fn a_successor_that_is_deleted(site: Arc<Site>) -> anyhow::Result<()> {
    let template = Template::new("deleted", "1.0");
    let spoiled = template.clone().version("2.0_slow-pull-60m");
    let error = fails(&site, &template, &spoiled, async |cluster, pod| {
        // One that control has not noted yet is made again, as after a create that was lost.
        until("control to note the successor", LONG, || async {
            let record = cluster.record("deleted").await?.unwrap_or_default();
            let noted = record["upgrade"]["successor"]["uid"].is_string();
            Ok(Observation::when(noted, (), record["upgrade"].clone()))
        })
        .await?;
        cluster.delete_pod(pod).await
    })
    .await?;
    assert!(error.starts_with("PodDeleted: "), "{error}");
    Ok(())
}

pub(super) async fn a_broken_template_touches_nothing(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let admin = site.api("admin").await?;
    let template = Template::new("broken", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let secret = || async { cluster.secrets_api().get(&name::record(&id)).await };
    let before = until("the record to come to rest", LONG, || async {
        let record = cluster.record(&id).await?.unwrap_or_default();
        Ok(Observation::when(
            record["pod"]["uid"].is_string(),
            secret().await?.resource_version(),
            record,
        ))
    })
    .await?;
    let pods = cluster.pod_names(&id).await?;

    for (case, spoiled) in [
        ("no YAML", template.clone().spec("containers: [\n - oops")),
        ("no pod spec", template.clone().spec("containers: 7")),
        ("unknown variable", template.clone().env("X", "${{nope}}")),
        (
            "bad deadline",
            template.clone().annotation(keys::UPGRADE_DEADLINE, "soon"),
        ),
    ] {
        cluster.apply(&spoiled).await?;
        let seen = alice.get("/api/v1/templates/broken").await?;
        assert_eq!(
            (seen.status, &seen.body["code"]),
            (422, &json!("template_broken")),
            "{case}"
        );
        let problem = text(&seen.body["message"]);
        assert!(problem.contains("'broken'"), "{case}: {problem}");
        let refused = alice.act(&id, "upgrade").await?;
        assert_eq!(refused, seen, "{case}");
        let spawn = alice
            .post("/api/v1/workspaces", &json!({"template": "broken"}))
            .await?;
        assert_eq!(spawn, seen, "{case}");
        // Whoever may mend it is told; the workspace is not called outdated for it.
        until(&format!("{case} to be noticed"), LONG, || async {
            let list = admin.get("/api/v1/templates").await?.expect(200)?;
            let listed = list["templates"]
                .as_array()
                .into_iter()
                .flatten()
                .find(|t| t["name"] == "broken")
                .cloned();
            let outdated = alice.workspace(&id).await?["outdated"].clone();
            let shown = listed
                .as_ref()
                .is_some_and(|t| t["usable"] == false && t["problem"] == problem.as_str());
            Ok(Observation::when(
                shown && outdated == "unknown",
                (),
                (listed, outdated),
            ))
        })
        .await?;
        // Mended before the next, so that each is noticed for itself.
        cluster.apply(&template).await?;
        until("the template to be usable again", LONG, || async {
            let outdated = alice.workspace(&id).await?["outdated"].clone();
            Ok(Observation::when(outdated == false, (), outdated))
        })
        .await?;
    }
    assert_eq!(
        (
            secret().await?.resource_version(),
            cluster.pod_names(&id).await?
        ),
        (before, pods)
    );
    assert_eq!(
        site.edge("alice").await?.get(&id, "/info").await?.json()?["version"],
        "1.0"
    );
    Ok(())
}

pub(super) async fn a_template_that_is_gone_is_unknown(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let id = site
        .spawn(&alice, &Template::new("gone", "1.0"), json!({}))
        .await?;
    cluster
        .config_maps_api()
        .delete("gone", &kube::api::DeleteParams::default())
        .await?;
    until("the loss to be noticed", LONG, || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["outdated"] == "unknown", (), seen))
    })
    .await?;
    let refused = alice.act(&id, "upgrade").await?;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (404, &json!("template_not_found"))
    );
    assert!(
        text(&refused.body["message"]).contains("'gone'"),
        "{:?}",
        refused.body
    );
    assert_eq!(alice.workspace(&id).await?["status"], "running");
    Ok(())
}
