//! Spawn, stop, start, delete, and pods that go by themselves.

use super::{LONG, begin, ended, text};
use http::Method;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Edge, Observation, Site, Template, until};
use serde_json::{Value, json};
use std::sync::Arc;

async fn status(api: &Api, id: &str, wanted: &str) -> anyhow::Result<Value> {
    until(&format!("{id} to be {wanted}"), LONG, || async {
        let seen = api.workspace(id).await?;
        Ok(Observation::when(
            seen["status"] == wanted,
            seen.clone(),
            seen,
        ))
    })
    .await
}

async fn deleted(site: &Site, api: &Api, id: &str) -> anyhow::Result<()> {
    site.cluster().await?.gone(id, LONG).await?;
    let refused = api.get(&format!("/api/v1/workspaces/{id}")).await?;
    assert_eq!(
        (refused.status, &refused.body["message"]),
        (403, &json!("Access Denied"))
    );
    Ok(())
}

pub(super) async fn stop_start_delete_and_the_id_is_free(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let id = site
        .spawn(
            &alice,
            &Template::new("life", "1.0"),
            json!({"name": "Life"}),
        )
        .await?;
    let first = cluster.pod_names(&id).await?;
    let since = alice.workspace(&id).await?["createdAt"].clone();

    for _ in 0..2 {
        alice.act(&id, "stop").await?.expect(200)?;
    }
    let stopped = status(&alice, &id, "stopped").await?;
    assert_eq!(
        (&stopped["podName"], cluster.pod_names(&id).await?.len()),
        (&json!(null), 0)
    );
    assert!(
        cluster.record(&id).await?.is_some(),
        "stop keeps the record"
    );

    for _ in 0..2 {
        alice.act(&id, "start").await?.expect(200)?;
    }
    let running = status(&alice, &id, "running").await?;
    let second = cluster.pods(&id).await?;
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].name_any(), first[0]);
    assert_eq!(second[0].labels()[keys::GENERATION], "2");
    assert_eq!(
        (&running["name"], &running["createdAt"]),
        (&json!("Life"), &since)
    );
    assert_eq!(
        site.edge("alice").await?.get(&id, "/info").await?.json()?["pod"],
        second[0].name_any().as_str()
    );

    let taken = alice
        .post("/api/v1/workspaces", &json!({"template": "life", "id": id}))
        .await?;
    assert_eq!(
        (taken.status, &taken.body["code"]),
        (409, &json!("id_taken"))
    );
    alice
        .ask(Method::DELETE, &format!("/api/v1/workspaces/{id}"), None)
        .await?
        .expect(200)?;
    deleted(&site, &alice, &id).await?;

    // The id is free again; for others once what the first sent late can no longer arrive.
    let spawn = json!({"template": "life", "id": id});
    let bob = site.api("bob").await?;
    let early = bob.post("/api/v1/workspaces", &spawn).await?;
    assert_eq!(
        (early.status, &early.body["code"]),
        (409, &json!("id_taken"))
    );
    alice
        .post("/api/v1/workspaces", &spawn)
        .await?
        .expect(201)?;
    let anew = status(&alice, &id, "running").await?;
    assert!(first.iter().all(|name| anew["podName"] != name.as_str()));
    assert_ne!(anew["podName"], second[0].name_any());
    assert_eq!(
        bob.get(&format!("/api/v1/workspaces/{id}")).await?.status,
        403
    );
    Ok(())
}

pub(super) async fn a_stopped_workspace_is_not_upgraded(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("asleep", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    alice.act(&id, "stop").await?.expect(200)?;
    status(&alice, &id, "stopped").await?;
    cluster.apply(&template.version("2.0")).await?;
    until("the new version to be known", LONG, || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["outdated"] == true, (), seen))
    })
    .await?;
    let refused = alice.act(&id, "upgrade").await?;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("conflict"))
    );
    assert!(
        text(&refused.body["message"]).contains("start it first"),
        "{:?}",
        refused.body
    );
    assert_eq!(cluster.pod_names(&id).await?.len(), 0);
    Ok(())
}

pub(super) async fn a_workspace_deleted_in_mid_upgrade(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("midway", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    cluster
        .apply(&template.version("2.0_slow-pull-60m"))
        .await?;
    let answer = begin(&alice, &id).await?;
    until("the successor", LONG, || async {
        let pods = cluster.pod_names(&id).await?;
        Ok(Observation::when(pods.len() == 2, (), pods))
    })
    .await?;
    alice
        .ask(Method::DELETE, &format!("/api/v1/workspaces/{id}"), None)
        .await?
        .expect(200)?;
    deleted(&site, &alice, &id).await?;
    // The operation does not stay open for ever.
    let stored = cluster
        .operation(&text(&answer["operationId"]))
        .await?
        .unwrap_or_default();
    assert_ne!(stored["state"], "running", "{stored}");
    Ok(())
}

pub(super) async fn a_pod_that_is_deleted_or_dies_comes_back(
    site: Arc<Site>,
) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let id = site
        .spawn(&alice, &Template::new("phoenix", "1.0"), json!({}))
        .await?;
    let first = cluster.pod_names(&id).await?.remove(0);
    let edge = site.edge("alice").await?;

    // Its process dies: the kubelet starts it again, in the same pod.
    let dying = Edge::send(edge.request(Method::POST, &edge.host(&id), "/die")?).await?;
    assert_eq!(
        dying.status, 502,
        "the request that killed it was not repeated"
    );
    until("the container to run again", LONG, || async {
        let pod = cluster.pods_api().get(&first).await?;
        let restarts = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten())
            .map(|c| c.restart_count)
            .sum::<i32>();
        Ok(Observation::when(restarts == 1, (), restarts))
    })
    .await?;
    // Held while it is away, not refused.
    assert_eq!(edge.get(&id, "/info").await?.json()?["pod"], first.as_str());

    // It is deleted behind our back: another takes its place, under the next generation.
    cluster.delete_pod(&first).await?;
    let second = until("another pod", LONG, || async {
        let pods = cluster.pod_names(&id).await?;
        Ok(Observation::when(
            pods.len() == 1 && pods[0] != first,
            pods.clone(),
            pods,
        ))
    })
    .await?;
    site.routed(&id, Some(&second[0])).await?;
    assert_eq!(
        edge.get(&id, "/info").await?.json()?["pod"],
        second[0].as_str()
    );
    assert_eq!(cluster.pods(&id).await?[0].labels()[keys::GENERATION], "2");
    status(&alice, &id, "running").await?;
    // An upgrade works on from there.
    cluster.apply(&Template::new("phoenix", "2.0")).await?;
    let answer = begin(&alice, &id).await?;
    assert_eq!(
        ended(&alice, &text(&answer["operationId"])).await?["state"],
        "succeeded"
    );
    cluster
        .only_pod(&id, &text(&answer["podName"]), LONG)
        .await?;
    Ok(())
}

pub(super) async fn what_cannot_be_spawned_is_refused(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let template = Template::new("strict", "1.0").annotation(
        keys::PARAMETERS,
        &json!({"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "maximum": 9}}}).to_string(),
    );
    site.spawn(&alice, &template, json!({"inputs": {"size": 3}}))
        .await?;
    for (body, status, code, word) in [
        (
            json!({"template": "strict", "id": "Not-An-Id"}),
            400,
            "invalid_argument",
            "Not-An-Id",
        ),
        (
            json!({"template": "strict", "id": "a--b"}),
            400,
            "invalid_argument",
            "a--b",
        ),
        (
            json!({"template": "none-such"}),
            404,
            "template_not_found",
            "none-such",
        ),
        (
            json!({"template": "strict", "inputs": {"size": 10}}),
            400,
            "invalid_argument",
            "size",
        ),
        (
            json!({"template": "strict", "inputs": {"size": "3"}}),
            400,
            "invalid_argument",
            "size",
        ),
        (
            json!({"template": "strict", "inputs": {"colour": "red"}}),
            400,
            "invalid_argument",
            "colour",
        ),
        (
            json!({"template": "strict", "unheardOf": 1}),
            422,
            "invalid_argument",
            "unheardOf",
        ),
        (
            json!({"template": "strict", "userSub": "bob"}),
            403,
            "access_denied",
            "Access Denied",
        ),
    ] {
        let refused = alice.post("/api/v1/workspaces", &body).await?;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{body}: {:?}",
            refused.body
        );
        assert!(
            text(&refused.body["message"]).contains(word),
            "{body}: {:?}",
            refused.body
        );
    }
    let names = |list: Value| {
        list["workspaces"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|w| text(&w["id"]))
            .collect::<Vec<_>>()
    };
    let mine = names(alice.get("/api/v1/workspaces").await?.expect(200)?);
    assert_eq!(mine.iter().filter(|id| id.as_str() == "strict").count(), 1);
    assert!(cluster.record("a--b").await?.is_none());
    Ok(())
}
