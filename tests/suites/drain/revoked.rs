//! Switches that are revoked while sockets are open on both pods.

use super::{LONG, NO_BOUND, begin, ended, template, text, upgrade};
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Cluster, Edge, Observation, Site, Socket, Template, until};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// A workspace in the middle of an upgrade to a version that is ready while a file is there.
struct Switch {
    site: Arc<Site>,
    alice: Api,
    edge: Edge,
    cluster: Cluster,
    id: String,
    file: PathBuf,
    old: String,
    new: String,
    operation: String,
    /// One on each pod.
    sockets: [Socket; 2],
}

impl Switch {
    /// Traffic has moved to the new pod; one socket stayed on the old one, one is open on the new.
    async fn to_a_pod_that_may_fail(site: Arc<Site>, template: Template) -> anyhow::Result<Self> {
        let (alice, edge, cluster) = (
            site.api("alice").await?,
            site.edge("alice").await?,
            site.cluster().await?,
        );
        let template = template.annotation(keys::DRAIN_TIMEOUT, NO_BOUND);
        let id = site.spawn(&alice, &template, json!({})).await?;
        let old = cluster.pod_names(&id).await?.remove(0);
        let stays = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;

        let file = site.data_dir().join(format!("{id}-is-ready"));
        std::fs::write(&file, "")?;
        let probe = json!({
            "exec": {"command": ["test", "-e", file]},
            "periodSeconds": 1,
            "failureThreshold": 1,
            // On a machine that has much to do it is still that file which decides.
            "timeoutSeconds": 60,
        });
        let next = template.version("2.0").container("readinessProbe", probe);
        cluster.apply(&next).await?;
        let (new, operation) = begin(&alice, &id).await?;
        site.routed(&id, Some(&new)).await?;
        let moved = Socket::open(&edge, &edge.host(&id), "/echo", &[]).await?;
        let this = Self {
            site,
            alice,
            edge,
            cluster,
            id,
            file,
            old,
            new,
            operation,
            sockets: [stays, moved],
        };
        this.is_open_on_both().await?;
        Ok(this)
    }

    /// Waits until the proxy says that one socket, and nothing else, is open on each pod.
    async fn is_open_on_both(&self) -> anyhow::Result<()> {
        let pods = self.cluster.pods(&self.id).await?;
        let uids: Vec<String> = pods
            .iter()
            .filter_map(|pod| pod.metadata.uid.clone())
            .collect();
        let path = format!("/sessions?workspace={}", self.id);
        until("one socket to be open on each pod", LONG, || async {
            let said = self.site.proxy_admin(&path).await?;
            let open: Vec<&Value> = uids.iter().map(|uid| &said["sessions"][uid]).collect();
            Ok(Observation::when(open == [&json!(1), &json!(1)], (), said))
        })
        .await
    }

    /// The new pod becomes ready, or ceases to be, and requests go where they must.
    async fn set_ready(&self, ready: bool) -> anyhow::Result<()> {
        if ready {
            std::fs::write(&self.file, "")?;
        } else {
            std::fs::remove_file(&self.file)?;
        }
        let pod = if ready { &self.new } else { &self.old };
        self.site.routed(&self.id, Some(pod)).await?;
        self.served_by(pod).await
    }

    async fn served_by(&self, pod: &str) -> anyhow::Result<()> {
        let info = self.edge.get(&self.id, "/info").await?.json()?;
        assert_eq!(info["pod"], pod);
        Ok(())
    }

    /// Both sockets carry what they are given.
    async fn sockets_live(&mut self) -> anyhow::Result<()> {
        for (n, socket) in self.sockets.iter_mut().enumerate() {
            let message = Message::text(format!("through socket {n}"));
            socket.send(message.clone()).await?;
            assert_eq!(socket.next().await?, message);
        }
        Ok(())
    }

    /// Waits until this holds of the new pod's readiness and state.
    async fn new_pod_is(
        &self,
        what: &str,
        holds: impl Fn(bool, Option<&str>) -> bool,
    ) -> anyhow::Result<()> {
        until(&format!("the new pod to be {what}"), LONG, || async {
            let pod = self.cluster.pods_api().get(&self.new).await?;
            let status = pod.status.iter();
            let mut conditions = status.flat_map(|status| status.conditions.iter().flatten());
            let ready = conditions
                .any(|condition| condition.type_ == "Ready" && condition.status == "True");
            let state = pod.labels().get(keys::UPGRADE_STATE);
            let holds = holds(ready, state.map(String::as_str));
            Ok(Observation::when(holds, (), (ready, state)))
        })
        .await
    }

    /// The switch is revoked: nobody is cut off, new requests go to the old pod whatever becomes of
    /// the new one, and that one goes with its last socket.
    async fn ends_revoked(mut self, reason: &str) -> anyhow::Result<()> {
        upgrade(
            &self.cluster,
            &self.id,
            "the switch to be revoked",
            |upgrade| upgrade["phase"]["is"] == "aborting",
        )
        .await?;
        self.sockets_live().await?;
        // It comes round, too late.
        self.new_pod_is("given up", |_, state| state == Some("aborted"))
            .await?;
        std::fs::write(&self.file, "")?;
        self.new_pod_is("ready again", |ready, _| ready).await?;
        self.site.routed(&self.id, Some(&self.old)).await?;
        for _ in 0..20 {
            self.served_by(&self.old).await?;
        }
        self.sockets_live().await?;
        self.is_open_on_both().await?;
        let seen = self.alice.operation(&self.operation).await?;
        assert_eq!(
            (&seen["state"], &seen["targets"][0]["phase"]),
            (&json!("running"), &json!("aborting")),
            "{seen}"
        );
        let [mut stays, moved] = self.sockets;
        moved.close().await;
        let operation = ended(&self.alice, &self.operation).await?;
        assert_eq!(operation["state"], "failed", "{operation}");
        let error = text(&operation["targets"][0]["error"]["reason"]);
        assert_eq!(error, reason, "{operation}");
        let only = self.cluster.only_pod(&self.id, &self.old, LONG).await?;
        let noted = only.annotations().get(keys::LAST_UPGRADE_ERROR);
        assert!(
            noted.is_some_and(|noted| noted.starts_with(reason)),
            "{noted:?}"
        );
        // Who never left the old pod has not noticed a thing.
        let last = Message::text("still here");
        stays.send(last.clone()).await?;
        assert_eq!(stays.next().await?, last);
        stays.close().await;
        Ok(())
    }
}

pub(super) async fn before_commit(site: Arc<Site>) -> anyhow::Result<()> {
    // It never settles: every loss comes before commit.
    let offered = template("unsettled").annotation(keys::SETTLE, NO_BOUND);
    let offered = offered.annotation(keys::UPGRADE_DEADLINE, NO_BOUND);
    let mut switch = Switch::to_a_pod_that_may_fail(site, offered).await?;
    for losses in 1..=3 {
        let (cluster, id) = (&switch.cluster, &switch.id);
        upgrade(cluster, id, "its readiness to be noted", |upgrade| {
            upgrade["readySeen"] == true
        })
        .await?;
        switch.set_ready(false).await?;
        switch.sockets_live().await?;
        if losses < 3 {
            let (cluster, id) = (&switch.cluster, &switch.id);
            upgrade(cluster, id, "a loss to be noted", |upgrade| {
                upgrade["readyLosses"] == losses
            })
            .await?;
            switch.set_ready(true).await?;
            switch.sockets_live().await?;
        }
    }
    switch.ends_revoked("ReadinessLost").await
}

pub(super) async fn after_commit(site: Arc<Site>) -> anyhow::Result<()> {
    let offered = template("settled").annotation(keys::SETTLE, "0");
    let mut switch = Switch::to_a_pod_that_may_fail(site, offered).await?;
    let committed = |upgrade: &Value| upgrade["phase"]["is"] == "committed";
    let what = "the switch to be committed";
    upgrade(&switch.cluster, &switch.id, what, committed).await?;
    // The old pod serves at once, long before the switch is revoked.
    switch.set_ready(false).await?;
    switch.sockets_live().await?;
    let seen = switch.alice.operation(&switch.operation).await?;
    assert_eq!(seen["state"], "running", "{seen}");
    switch.ends_revoked("ReadinessLost").await
}
