//! Taking control away and back: a process of a site, a pod of a Deployment.

use super::{Place, Target};
use crate::{Observation, proxies, until};
use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest wait for a control to end, and for another to serve.
const CHANGE: Duration = Duration::from_secs(120);
/// Longest wait for a connection to one that may be gone.
const CONNECT: Duration = Duration::from_secs(2);

impl Target {
    /// Kills control as nothing can prevent, and waits until another serves. On a real cluster its pod
    /// is gone at once; its process, which nobody may find any more, ends a moment later.
    ///
    /// # Errors
    /// No successor comes.
    pub async fn restart_control(&self) -> anyhow::Result<()> {
        match &self.place {
            Place::Embedded(site) => site.kill("control").await?,
            Place::Real(real) => {
                let before = self.control_pods(real.control()).await?;
                let pods = self.cluster.beside_control::<Pod>();
                for pod in &before {
                    let now = DeleteParams::default().grace_period(0);
                    pods.delete(&pod.name_any(), &now).await?;
                }
                let gone: Vec<_> = before.iter().map(ResourceExt::uid).collect();
                self.control_serves(real.control(), |pod| !gone.contains(&pod.uid()))
                    .await?;
                // Connections that proxies have kept lead to the old one until it ends, and whatever
                // it is asked then ends with it.
                for address in before.iter().filter_map(address) {
                    no_longer_listens(address).await?;
                }
            }
        }
        self.control_answers().await
    }

    /// Does something while no control runs.
    ///
    /// # Errors
    /// Control does not end or does not come back, or what was done failed.
    pub async fn without_control<T>(
        &self,
        act: impl AsyncFnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        match &self.place {
            Place::Embedded(site) => {
                let down = site.take_down("control").await?;
                let done = act().await?;
                down.back().await?;
                self.control_answers().await?;
                Ok(done)
            }
            Place::Real(real) => {
                let name = real.control();
                let replicas = self.scale(name, 0).await?;
                until("control's pods to be gone", CHANGE, || async {
                    let pods = self.control_pods(name).await?;
                    Ok(Observation::when(pods.is_empty(), (), pods.len()))
                })
                .await?;
                let done = act().await;
                self.scale(name, replicas).await?;
                self.control_serves(name, |_| true).await?;
                self.control_answers().await?;
                done
            }
        }
    }

    /// Scales control; returns how many it was.
    async fn scale(&self, name: &str, replicas: i32) -> anyhow::Result<i32> {
        let deployments = self.cluster.beside_control::<Deployment>();
        let before = deployments.get(name).await.context("control")?;
        let patch = json!({"spec": {"replicas": replicas}});
        deployments
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .context("scale control")?;
        Ok(before.spec.and_then(|spec| spec.replicas).unwrap_or(1))
    }

    async fn control_pods(&self, name: &str) -> anyhow::Result<Vec<Pod>> {
        let deployments = self.cluster.beside_control::<Deployment>();
        let deployment = deployments.get(name).await.context("control")?;
        let labels = deployment.spec.and_then(|spec| spec.selector.match_labels);
        let labels: Vec<String> = labels
            .unwrap_or_default()
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let params = ListParams::default().labels(&labels.join(","));
        let pods = self.cluster.beside_control::<Pod>().list(&params).await;
        Ok(pods.context("control's pods")?.items)
    }

    async fn control_serves(&self, name: &str, new: impl Fn(&Pod) -> bool) -> anyhow::Result<()> {
        until("another control", CHANGE, || async {
            let pods = self.control_pods(name).await?;
            let serves = pods.iter().any(|pod| new(pod) && is_ready(pod));
            let seen: Vec<String> = pods.iter().map(ResourceExt::name_any).collect();
            Ok(Observation::when(serves, (), seen))
        })
        .await
    }

    /// Waits until requests for control reach one through the edge, whichever proxy they come to: each
    /// node learns by itself where control is now.
    async fn control_answers(&self) -> anyhow::Result<()> {
        let edge = self.edge("admin").await?;
        let mut ways = vec![edge.clone()];
        if self.is_real() {
            let proxies = proxies::running(self, "proxy").await?;
            for proxy in proxies.iter().filter(|proxy| proxy.ready) {
                ways.push(edge.through(proxy.address()?));
            }
        }
        for way in ways {
            until("control to answer", CHANGE, || async {
                Ok(match way.get_console("/api/v1/workspaces").await {
                    Ok(answer) => Observation::when(answer.status == 200, (), answer.status),
                    Err(error) => Observation::NotYet(format!("{error:#}")),
                })
            })
            .await?;
        }
        Ok(())
    }
}

/// Where a pod of control takes requests.
fn address(pod: &Pod) -> Option<SocketAddr> {
    let ip: IpAddr = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    let container = pod.spec.as_ref()?.containers.first()?;
    let mut ports = container.ports.iter().flatten();
    let port = ports.find(|port| port.name.as_deref() == Some("control"))?;
    Some(SocketAddr::new(
        ip,
        u16::try_from(port.container_port).ok()?,
    ))
}

async fn no_longer_listens(address: SocketAddr) -> anyhow::Result<()> {
    until("the old control to end", CHANGE, || async {
        let dialled = timeout(CONNECT, TcpStream::connect(address)).await;
        let gone = !matches!(dialled, Ok(Ok(_)));
        Ok(Observation::when(gone, (), address))
    })
    .await
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
