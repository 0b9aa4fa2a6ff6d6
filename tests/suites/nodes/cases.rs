//! What becomes of workspaces when nodes go.

use super::LONG;
use super::stage::{offer, spawn, text, tidy};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nogoo9_tests::faults::Fault;
use nogoo9_tests::{Edge, Observation, Target, Template, patiently, proxies};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const OWNER: &str = "alice";
const FILE: &str = "/files/notes.txt";
const CONTENT: &str = "as it was before the node went";

/// The node that a pod was put on.
fn node(pod: &Pod) -> anyhow::Result<String> {
    let spec = pod.spec.as_ref().context("spec")?;
    spec.node_name.clone().context("not on any node yet")
}

/// Workspaces of these templates, all on the node where control is not; returns that node's name.
pub(super) async fn beside(target: &Target, templates: &[&Template]) -> anyhow::Result<String> {
    let spawned = async {
        let mut on = String::new();
        for template in templates {
            offer(target, template).await?;
            spawn(target, OWNER, template, template.name()).await?;
            on = node(&only(target, template.name()).await?)?;
        }
        Ok(on)
    };
    // These cases are about workspaces, and control is not to go with them.
    let control = proxies::control(target).await?;
    Fault::Cordon.during(&control.node, spawned).await
}

/// The pod of a workspace that has one.
pub(super) async fn only(target: &Target, id: &str) -> anyhow::Result<Pod> {
    let [pod] = <[Pod; 1]>::try_from(target.cluster().pods(id).await?)
        .map_err(|pods| anyhow::anyhow!("{} pods of {id}", pods.len()))?;
    Ok(pod)
}

pub(super) async fn write(target: &Target, id: &str) -> anyhow::Result<()> {
    let edge = target.edge(OWNER).await?;
    let request = edge
        .request(Method::PUT, &edge.host(id), FILE)?
        .body(CONTENT);
    let answer = Edge::send(request).await?;
    ensure!(answer.status.is_success(), "{}", answer.text());
    Ok(())
}

pub(super) async fn unchanged(target: &Target, id: &str) -> anyhow::Result<()> {
    let answer = target.edge(OWNER).await?.get(id, FILE).await?;
    ensure!(
        answer.body == Bytes::from_static(CONTENT.as_bytes()),
        "{} {}",
        answer.status,
        answer.text()
    );
    Ok(())
}

/// Waits until the workspace runs in another pod than that, and that pod is on another node.
async fn moved(target: &Target, id: &str, from: &str) -> anyhow::Result<String> {
    let api = target.api(OWNER).await?;
    let pod = patiently(&format!("{id} to run elsewhere"), LONG, || async {
        let seen = api.workspace(id).await?;
        let pods = target.cluster().pods(id).await?;
        let serving = text(&seen["podName"]);
        let elsewhere = pods.iter().any(|pod| {
            pod.name_any() == serving && node(pod).is_ok_and(|node| node.as_str() != from)
        });
        let moved = elsewhere && seen["status"] == "running";
        Ok(Observation::when(moved, serving, seen))
    })
    .await?;
    target.routed(id, Some(&pod)).await?;
    let info = target.edge(OWNER).await?.get(id, "/info").await?.json()?;
    ensure!(info["pod"] == json!(pod), "{info} is not {pod}");
    Ok(pod)
}

/// Waits until the workspace runs again; what was broken may still be on its way back.
async fn runs(target: &Target, id: &str) -> anyhow::Result<Value> {
    let api = target.api(OWNER).await?;
    patiently(&format!("{id} to run"), LONG, || async {
        let seen = api.workspace(id).await?;
        let running = seen["status"] == "running";
        Ok(Observation::when(running, seen.clone(), seen))
    })
    .await
}

/// Waits until the workspace says this of itself.
pub(super) async fn says(target: &Target, id: &str, words: &str) -> anyhow::Result<()> {
    let api = target.api(OWNER).await?;
    patiently(&format!("{id} to say {words:?}"), LONG, || async {
        let seen = api.workspace(id).await?;
        let said = text(&seen["message"]).contains(words);
        Ok(Observation::when(said, (), seen))
    })
    .await
}

/// With claims only on the node where they are, and off it at once when it is missed: the default is
/// five minutes.
fn impatient(template: Template) -> Template {
    let leave = |taint: &str| {
        json!({
            "key": format!("node.kubernetes.io/{taint}"), "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 1,
        })
    };
    template.pod(
        "tolerations",
        json!([leave("unreachable"), leave("not-ready")]),
    )
}

pub(super) async fn a_node_cut_off_and_back_keeps_its_pod(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let template = target.template("cut-off", "1.0");
    let id = template.name();
    let place = beside(&target, &[&template]).await?;
    let before = only(&target, id).await?;
    let missed = async {
        // Whoever runs there cannot be told to stop, so nobody takes its place in haste.
        says(&target, id, "waiting for the pod").await
    };
    Fault::CutApi.during(&place, missed).await?;
    runs(&target, id).await?;
    target.routed(id, Some(&before.name_any())).await?;
    let after = only(&target, id).await?;
    assert_eq!(after.uid(), before.uid());
    let restarts =
        |pod: &Pod| Some(pod.status.as_ref()?.container_statuses.as_ref()?[0].restart_count);
    assert_eq!(restarts(&after), restarts(&before));
    tidy(&target, &[id], &[&template]).await
}

pub(super) async fn a_drained_node(target: Arc<Target>) -> anyhow::Result<()> {
    let free = target.template("drained-free", "1.0");
    let bound = target.template_with_claim("drained-bound", "1.0");
    let place = beside(&target, &[&free, &bound]).await?;
    write(&target, bound.name()).await?;
    let meanwhile = async {
        let pod = moved(&target, free.name(), &place).await?;
        // Its files are on that node. It waits, and says for what.
        says(&target, bound.name(), "Unschedulable").await?;
        Ok(pod)
    };
    let pod = Fault::Drain.during(&place, meanwhile).await?;
    // The node is back, and nobody moves again for that.
    target.cluster().only_pod(free.name(), &pod, LONG).await?;
    runs(&target, bound.name()).await?;
    target.routed(bound.name(), None).await?;
    unchanged(&target, bound.name()).await?;
    tidy(&target, &[free.name(), bound.name()], &[&free, &bound]).await
}

pub(super) async fn a_node_without_power(target: Arc<Target>) -> anyhow::Result<()> {
    let free = impatient(target.template("power-free", "1.0"));
    let bound = impatient(target.template_with_claim("power-bound", "1.0"));
    let place = beside(&target, &[&free, &bound]).await?;
    write(&target, bound.name()).await?;
    let before = only(&target, bound.name()).await?;
    let meanwhile = async {
        let pod = moved(&target, free.name(), &place).await?;
        // Nobody knows whether the old pod still writes, so its claim goes to nobody else.
        says(&target, bound.name(), "does not answer").await?;
        let now = only(&target, bound.name()).await?;
        ensure!(now.uid() == before.uid(), "{} beside it", now.name_any());
        Ok(pod)
    };
    let pod = Fault::PowerCut.during(&place, meanwhile).await?;
    // The node is back and says that the old pods are gone.
    target.cluster().only_pod(free.name(), &pod, LONG).await?;
    let seen = runs(&target, bound.name()).await?;
    let successor = text(&seen["podName"]);
    target.routed(bound.name(), Some(&successor)).await?;
    unchanged(&target, bound.name()).await?;
    let after = target
        .cluster()
        .only_pod(bound.name(), &successor, LONG)
        .await?;
    assert_ne!(after.uid(), before.uid());
    assert_eq!(node(&after)?, place);
    tidy(&target, &[free.name(), bound.name()], &[&free, &bound]).await
}
