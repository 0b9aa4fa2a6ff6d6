//! Upgrades that cannot succeed, for a reason that can be known while the old pod still serves: it is
//! not touched, and its owner knows within seconds, however long the template gives a new pod.

use super::eyes::{Eyes, Seen};
use super::files::{read_file, write_file};
use super::stage::{back_on_old, begin, ended, offer, text, tidy, workspace};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Target, Template};
use serde_json::json;
use std::sync::Arc;

/// What the template gives a new pod. No case waits for so long.
const PATIENCE: &str = "600";

/// An upgrade to `spoiled` that fails without harm.
struct Doomed<'a> {
    target: &'a Target,
    owner: &'a str,
    template: &'a Template,
    spoiled: Template,
}

/// What became of it.
struct Failed {
    error: String,
    seen: Seen,
}

impl Doomed<'_> {
    /// Side by side, or a recreate where the template has a claim.
    async fn fails(self, mode: &str) -> anyhow::Result<Failed> {
        let Self {
            target,
            owner,
            template,
            spoiled,
        } = self;
        let id = template.name();
        let old = workspace(target, owner, template).await?;
        let before = pod(target, &old).await?;
        let has_files = mode == "recreate";
        let content = match has_files {
            true => Some(write_file(target, owner, id, "notes.bin").await?),
            false => None,
        };
        offer(
            target,
            &spoiled.annotation(keys::UPGRADE_DEADLINE, PATIENCE),
        )
        .await?;
        let eyes = Eyes::on(target, owner, id).await?;
        let answer = begin(target, owner, id).await?;
        assert_eq!(answer["mode"], mode, "{answer}");
        let operation = ended(target, owner, &text(&answer["operationId"])).await?;
        let (error, by) = back_on_old(target, owner, id, &operation).await?;
        let seen = eyes.close().await?;
        seen.untouched(&old);
        let after = pod(target, &by).await?;
        assert_eq!(
            (after.uid(), restarts(&after)),
            (before.uid(), restarts(&before))
        );
        if let Some(content) = content {
            assert_eq!(read_file(target, owner, id, "notes.bin").await?, content);
            one_writer(target, owner, id).await?;
        }
        tidy(target, &[id], &[template]).await?;
        Ok(Failed { error, seen })
    }
}

async fn pod(target: &Target, name: &str) -> anyhow::Result<Pod> {
    let pod = target.cluster().pods_api().get(name).await;
    pod.with_context(|| name.to_owned())
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|one| &one.container_statuses);
    statuses.flatten().map(|one| one.restart_count).sum()
}

/// Asserts that no pod ever found the workspace's claim in another's hands: pods of these cases take
/// a lock in it, and tell of it there.
pub(super) async fn one_writer(target: &Target, owner: &str, id: &str) -> anyhow::Result<()> {
    let listed = target.edge(owner).await?.get(id, "/files").await?.json()?;
    let files = listed["files"].as_array().context("no list of files")?;
    let told: Vec<String> = files
        .iter()
        .map(|file| text(&file["name"]))
        .filter(|name| name.starts_with("two-writers-"))
        .collect();
    assert!(told.is_empty(), "{id}: {told:?}");
    Ok(())
}

/// A template with a claim, in which every pod takes a lock.
pub(super) fn claimed(target: &Target, name: &str) -> Template {
    target
        .template_with_claim(name, "1.0")
        .env("LOCK_DATA", "1")
}

/// Both kinds of upgrade to what `spoil` makes of a template; `holds` judges each error.
async fn both_ways(
    target: &Target,
    name: &str,
    spoil: impl Fn(Template) -> Template,
    holds: impl Fn(&str),
) -> anyhow::Result<()> {
    let plain = target.template(name, "1.0");
    let files = claimed(target, &format!("{name}-claim"));
    let doomed = |owner, template| Doomed {
        target,
        owner,
        template,
        spoiled: spoil(template.clone().version("2.0")),
    };
    let (beside, recreate) = futures::try_join!(
        Box::pin(doomed("alice", &plain).fails("side-by-side")),
        Box::pin(doomed("bob", &files).fails("recreate")),
    )?;
    for failed in [beside, recreate] {
        holds(&failed.error);
        assert_eq!(failed.seen.versions(), ["1.0"]);
    }
    Ok(())
}

pub(super) async fn a_spec_that_is_invalid(target: Arc<Target>) -> anyhow::Result<()> {
    let port = json!([{"name": "http", "containerPort": 70_000}]);
    both_ways(
        &target,
        "invalid",
        |template| template.container("ports", port.clone()),
        |error| {
            assert!(error.contains("containerPort"), "{error}");
            assert!(error.contains("must be between 1 and 65535"), "{error}");
        },
    )
    .await
}

pub(super) async fn a_spec_that_admission_refuses(target: Arc<Target>) -> anyhow::Result<()> {
    both_ways(
        &target,
        "unadmitted",
        |template| template.pod("priorityClassName", json!("nobody-made-it")),
        |error| {
            let why = "no PriorityClass with name nobody-made-it was found";
            assert!(error.contains(why), "{error}");
        },
    )
    .await
}

pub(super) async fn an_image_that_is_missing(target: Arc<Target>) -> anyhow::Result<()> {
    // Where no registry can be reached, none can say that it does not have the image: there the
    // template forbids to ask one.
    let missing = |template: Template| {
        let template = template.image("localhost/nogoo9-none:1");
        match target.is_real() {
            true => template.container("imagePullPolicy", json!("Never")),
            false => template,
        }
    };
    let reason = match target.is_real() {
        true => "ErrImageNeverPull: ",
        false => "ImagePullBackOff: ",
    };
    both_ways(&target, "imageless", missing, |error| {
        let told = error.starts_with(reason);
        assert!(told && error.contains("localhost/nogoo9-none:1"), "{error}");
    })
    .await
}

pub(super) async fn an_image_name_that_is_none(target: Arc<Target>) -> anyhow::Result<()> {
    both_ways(
        &target,
        "misnamed",
        |template| template.image("Localhost/NOT an image"),
        |error| assert!(error.starts_with("InvalidImageName: "), "{error}"),
    )
    .await
}

pub(super) async fn a_secret_of_the_environment_that_is_missing(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let source = json!({"secretKeyRef": {"name": "nobody-made-it", "key": "password"}});
    both_ways(
        &target,
        "secretless",
        |template| template.env_from("PASSWORD", &source),
        |error| {
            let told = error.starts_with("CreateContainerConfigError: ");
            assert!(told && error.contains("nobody-made-it"), "{error}");
        },
    )
    .await
}

pub(super) async fn a_secret_to_mount_that_is_missing(target: Arc<Target>) -> anyhow::Result<()> {
    let volume = json!({"name": "keys", "secret": {"secretName": "nobody-made-it"}});
    both_ways(
        &target,
        "keyless",
        |template| template.volume(volume.clone(), "/keys"),
        |error| {
            let told = error.starts_with("FailedMount: ");
            assert!(told && error.contains("nobody-made-it"), "{error}");
        },
    )
    .await
}
