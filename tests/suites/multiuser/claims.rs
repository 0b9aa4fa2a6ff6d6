//! Workspaces with a claim: one pod at a time, files that survive, and what becomes of a recreate
//! that fails.

use super::LONG;
use super::files::{read_file, write_file};
use super::stage::{back_on_old, begin, claims, ended, offer, served, text, tidy, workspace};
use super::watch::{Pods, Visits, from_then_to};
use anyhow::Context as _;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::Target;
use serde_json::json;
use std::sync::Arc;

/// What the template gives a new pod: more than a busy node takes to say what is wrong with it, and
/// much less than requests are held.
const PATIENCE: &str = "40";

/// The uid of the workspace's only claim.
async fn claim(target: &Target, id: &str) -> anyhow::Result<String> {
    let claims = claims(target, id).await?;
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.first().and_then(|claim| claim.uid()).context("uid")
}

pub(super) async fn a_claim_means_recreate_and_files_survive(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template_with_claim("keeps", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "alice", &template).await?;
    let content = write_file(&target, "alice", &id, "notes.bin").await?;
    let volume = claim(&target, &id).await?;

    offer(&target, &template.clone().version("2.0")).await?;
    let pods = Pods::of(&target, &id).await?;
    let visits = Visits::by(&target, "alice", &id).await?;
    // Under way when the old pod is told to take no more; it gets its answer.
    let edge = target.edge("alice").await?;
    let slow = tokio::spawn({
        let id = id.clone();
        async move { edge.get(&id, "/slow?ms=2000").await }
    });
    let answer = begin(&target, "admin", &id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    target.routed(&id, Some(&text(&answer["podName"]))).await?;

    // Nobody was turned away: what came in between was held, and answered by the new pod.
    from_then_to(&visits.end().await?, "1.0", "2.0");
    assert_eq!(slow.await??.status, 200);
    let only = target
        .cluster()
        .only_pod(&id, &text(&answer["podName"]), LONG)
        .await?;
    let history = pods.end().await?;
    history.never_two_with_the_claim();
    assert!(history.gated_beside(&old), "{:?}", history.names());
    assert_eq!(
        read_file(&target, "alice", &id, "notes.bin").await?,
        content
    );
    assert_eq!(claim(&target, &id).await?, volume, "another volume");
    assert_eq!(
        (
            only.annotations()[keys::USER_SUB].as_str(),
            &operation["actor"]
        ),
        ("alice", &json!("admin"))
    );
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn a_recreate_to_an_image_that_is_not_there(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template_with_claim("unpulled", "1.0");
    let id = template.name().to_owned();
    workspace(&target, "bob", &template).await?;
    let content = write_file(&target, "bob", &id, "notes.bin").await?;
    let volume = claim(&target, &id).await?;

    let spoiled = template
        .clone()
        .image("localhost/nogoo9-none:1")
        .annotation(keys::UPGRADE_DEADLINE, PATIENCE);
    offer(&target, &spoiled).await?;
    let (pods, visits) = (
        Pods::of(&target, &id).await?,
        Visits::by(&target, "bob", &id).await?,
    );
    let answer = begin(&target, "bob", &id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    let (error, _) = back_on_old(&target, "bob", &id, &operation).await?;
    assert!(
        error.starts_with("ErrImagePull: ") || error.starts_with("ImagePullBackOff: "),
        "{error}"
    );
    assert!(error.contains("localhost/nogoo9-none:1"), "{error}");
    let answers = visits.end().await?;
    assert!(
        answers.iter().all(|(version, _)| version == "1.0"),
        "{answers:?}"
    );
    pods.end().await?.never_two_with_the_claim();
    assert_eq!(read_file(&target, "bob", &id, "notes.bin").await?, content);
    assert_eq!(claim(&target, &id).await?, volume, "another volume");
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn a_failed_recreate_restores_the_old_version(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template_with_claim("restored", "1.0");
    let id = template.name().to_owned();
    let old = workspace(&target, "alice", &template).await?;
    let content = write_file(&target, "alice", &id, "notes.bin").await?;
    let volume = claim(&target, &id).await?;

    let spoiled = template
        .clone()
        .env("CRASH", "1")
        .annotation(keys::UPGRADE_DEADLINE, PATIENCE);
    offer(&target, &spoiled).await?;
    let pods = Pods::of(&target, &id).await?;
    let visits = Visits::by(&target, "alice", &id).await?;
    let answer = begin(&target, "alice", &id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    let (error, by) = back_on_old(&target, "alice", &id, &operation).await?;
    assert!(
        error.starts_with("CrashLoopBackOff") || error.starts_with("Error"),
        "{error}"
    );
    // The old pod had gone; another of its version has taken its place.
    assert_ne!(by, old);
    let answers = visits.end().await?;
    assert!(
        answers.iter().all(|(version, _)| version == "1.0"),
        "{answers:?}"
    );
    pods.end().await?.never_two_with_the_claim();
    assert_eq!(
        read_file(&target, "alice", &id, "notes.bin").await?,
        content
    );
    assert_eq!(claim(&target, &id).await?, volume, "another volume");

    // Once the template is mended the next upgrade succeeds, and the error is forgotten.
    offer(&target, &template.clone().version("3.0")).await?;
    let answer = begin(&target, "alice", &id).await?;
    let operation = ended(&target, "alice", &text(&answer["operationId"])).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    let pod = target
        .cluster()
        .only_pod(&id, &text(&answer["podName"]), LONG)
        .await?;
    assert_eq!(pod.annotations().get(keys::LAST_UPGRADE_ERROR), None);
    assert_eq!(served(&target, "alice", &id).await?.0, "3.0");
    assert_eq!(
        read_file(&target, "alice", &id, "notes.bin").await?,
        content
    );
    tidy(&target, &[&id], &[&template]).await
}

pub(super) async fn a_claim_that_stays_pending(target: Arc<Target>) -> anyhow::Result<()> {
    let template = target.template("pending", "1.0");
    let id = template.name().to_owned();
    workspace(&target, "bob", &template).await?;
    let volume = json!({"name": "more", "persistentVolumeClaim": {"claimName": "more"}});
    let spoiled = template
        .clone()
        .claim("more", Some("missing"))
        .pod("volumes", json!([volume]))
        .container(
            "volumeMounts",
            json!([{"name": "more", "mountPath": "/more"}]),
        )
        .annotation(keys::UPGRADE_DEADLINE, PATIENCE);
    offer(&target, &spoiled).await?;
    let visits = Visits::by(&target, "bob", &id).await?;
    let answer = begin(&target, "bob", &id).await?;
    assert_eq!(answer["mode"], "recreate", "{answer}");
    let operation = ended(&target, "bob", &text(&answer["operationId"])).await?;
    let (error, _) = back_on_old(&target, "bob", &id, &operation).await?;
    assert!(
        error.to_lowercase().contains("persistentvolumeclaim"),
        "{error}"
    );
    let answers = visits.end().await?;
    assert!(
        answers.iter().all(|(version, _)| version == "1.0"),
        "{answers:?}"
    );
    tidy(&target, &[&id], &[&template]).await
}
