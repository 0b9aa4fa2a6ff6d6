//! The workspaces that are upgraded: on each node some that are replaced side by side, and some with a
//! claim, whose pods hold a lock in it.

use super::LONG;
use super::bulk::asked;
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use nogoo9_model::keys;
use nogoo9_tests::files::{read_file, write_file};
use nogoo9_tests::stage::{offer, served, spawn, text, tidy};
use nogoo9_tests::{Observation, Target, Template, patiently};
use serde_json::Value;
use std::collections::BTreeMap;

/// Who owns them all.
pub(super) const OWNER: &str = "alice";
/// Nodes of tests/cluster.
const NODES: [&str; 2] = ["node1", "node2"];
/// Workspaces of each kind on each node.
const EACH: [&str; 2] = ["a", "b"];
/// The file that those with a claim keep.
const FILE: &str = "notes.bin";

/// One workspace.
#[derive(Debug, Clone)]
pub(super) struct Workspace {
    pub(super) id: String,
    pub(super) node: &'static str,
    pub(super) holds: bool,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Fleet {
    templates: Vec<Template>,
    pub(super) workspaces: Vec<Workspace>,
    files: BTreeMap<String, Bytes>,
    version: String,
}

impl Fleet {
    /// Spawns them, at version 1.
    pub(super) async fn up(target: &Target) -> anyhow::Result<Self> {
        let mut templates = Vec::new();
        let mut workspaces = Vec::new();
        for node in NODES {
            for holds in [false, true] {
                let template = template(target, node, holds);
                offer(target, &template).await?;
                let named = EACH.map(|each| format!("{}-{each}", template.name()));
                let spawned = named.iter().map(|id| spawn(target, OWNER, &template, id));
                try_join_all(spawned).await?;
                workspaces.extend(named.map(|id| Workspace { id, node, holds }));
                templates.push(template);
            }
        }
        let mut files = BTreeMap::new();
        for one in workspaces.iter().filter(|one| one.holds) {
            let content = write_file(target, OWNER, &one.id, FILE).await?;
            files.insert(one.id.clone(), content);
        }
        Ok(Self {
            templates,
            workspaces,
            files,
            version: "1".to_owned(),
        })
    }

    /// Offers a version that none of them has; returns the one that they have.
    pub(super) async fn offer_next(&mut self, target: &Target) -> anyhow::Result<String> {
        let old = self.version.clone();
        self.version = (old.parse::<u32>()? + 1).to_string();
        let next = self.templates.iter();
        let next: Vec<_> = next.map(|one| one.clone().version(&self.version)).collect();
        try_join_all(next.iter().map(|template| offer(target, template))).await?;
        Ok(old)
    }

    /// Waits until each workspace is as the result of its upgrade says: served by its only pod, on the
    /// new version or, with the error on it, on the old one. Its file is what it was, and nobody but
    /// one pod at a time has ever had the claim. Returns how many are on the new version.
    pub(super) async fn converges(
        &self,
        target: &Target,
        old: &str,
        bulk: &Value,
    ) -> anyhow::Result<usize> {
        let each = self.workspaces.iter().map(|one| async move {
            let results = bulk["targets"].as_array().into_iter().flatten();
            let mine: Vec<&Value> = results.filter(|result| result["id"] == *one.id).collect();
            ensure!(mine.len() == 1, "results of {}: {mine:?}", one.id);
            let result = mine.first().context("result")?;
            let is_new = result["state"] == "succeeded";
            let (state, reason) = (text(&result["state"]), text(&result["error"]["reason"]));
            ensure!(
                is_new || (state == "failed" && !reason.is_empty()),
                "neither upgraded nor with a reason: {result}"
            );
            let version = if is_new { self.version.as_str() } else { old };
            self.is_at_rest(target, one, version, is_new).await?;
            Ok(usize::from(is_new))
        });
        let renewed: Vec<usize> = try_join_all(each).await?;
        no_probes(target).await?;
        Ok(renewed.into_iter().sum())
    }

    async fn is_at_rest(
        &self,
        target: &Target,
        one: &Workspace,
        version: &str,
        is_new: bool,
    ) -> anyhow::Result<()> {
        let id = one.id.as_str();
        let path = format!("/api/v1/workspaces/{id}");
        let what = format!("{id} to be at rest on version {version}");
        let pod = patiently(&what, LONG, || async {
            let seen = asked(target, &path).await?;
            let pods = target.cluster().pod_names(id).await?;
            let pod = text(&seen["podName"]);
            let rests = seen["status"] == "running"
                && seen["outdated"] == !is_new
                && seen["lastUpgradeError"].is_string() != is_new
                && pods == [pod.as_str()];
            Ok(Observation::when(rests, pod, (seen, pods)))
        })
        .await?;
        target.routed(id, Some(&pod)).await?;
        let answered = served(target, OWNER, id).await?;
        assert_eq!(answered, (version.to_owned(), pod));
        if one.holds {
            let content = read_file(target, OWNER, id, FILE).await?;
            assert!(self.files.get(id) == Some(&content), "{id}: another file");
            let names = target.edge(OWNER).await?.get(id, "/files").await?.json()?;
            assert!(names.to_string().contains(FILE), "{names}");
            assert!(!names.to_string().contains("two-writers-"), "{id}: {names}");
        }
        Ok(())
    }

    /// Removes them all.
    pub(super) async fn down(self, target: &Target) -> anyhow::Result<()> {
        let ids: Vec<&str> = self.workspaces.iter().map(|one| one.id.as_str()).collect();
        let templates: Vec<&Template> = self.templates.iter().collect();
        tidy(target, &ids, &templates).await
    }
}

fn template(target: &Target, node: &str, holds: bool) -> Template {
    let template = if holds {
        let template = target.template_with_claim(&format!("chaos-held-{node}"), "1");
        template.env("LOCK_DATA", "1")
    } else {
        target.template(&format!("chaos-free-{node}"), "1")
    };
    template.pod(
        "nodeSelector",
        serde_json::json!({"kubernetes.io/hostname": node}),
    )
}

/// Nothing is left of what tried images out.
async fn no_probes(target: &Target) -> anyhow::Result<()> {
    let probes = ListParams::default().labels(&format!("{}=probe", keys::TYPE));
    patiently("no probe pod to be left", LONG, || async {
        let left = target
            .cluster()
            .beside_workspaces::<Pod>()
            .list(&probes)
            .await?;
        Ok(Observation::when(
            left.items.is_empty(),
            (),
            left.items.len(),
        ))
    })
    .await
}
