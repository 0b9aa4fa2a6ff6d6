//! Pods of nogoo9 itself on a real cluster, one by one: proxies as a load balancer knows them, and
//! control.

use crate::{Observation, Target, until};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use std::net::SocketAddr;
use std::time::Duration;

/// Longest wait: what a node takes to be missed (20 s) and to start, a container's back-off, and the
/// machine being busy.
const LONG: Duration = Duration::from_secs(300);

/// A pod of ours and where it runs.
#[derive(Debug, Clone)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its container, as the runtime names it.
    pub container: String,
    /// How often its container was started again.
    pub restarts: i32,
    /// Whether a load balancer would send requests to it.
    pub ready: bool,
    ip: String,
    port: Option<i32>,
}

impl Running {
    fn of(pod: &Pod) -> Option<Self> {
        let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
        let container: &ContainerStatus = status.container_statuses.as_ref()?.first()?;
        let mut ports = spec.containers.first()?.ports.iter().flatten();
        let mut conditions = status.conditions.iter().flatten();
        Some(Self {
            name: pod.name_any(),
            node: spec.node_name.clone()?,
            container: container.container_id.clone()?,
            restarts: container.restart_count,
            ready: pod.metadata.deletion_timestamp.is_none()
                && conditions.any(|one| one.type_ == "Ready" && one.status == "True"),
            ip: status.pod_ip.clone()?,
            port: ports
                .find(|port| port.name.as_deref() == Some("http"))
                .map(|port| port.container_port),
        })
    }

    /// Where it takes requests, if it is a proxy.
    ///
    /// # Errors
    /// It is none.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        let port = self.port.context("no port http")?;
        Ok(SocketAddr::new(self.ip.parse()?, u16::try_from(port)?))
    }
}

/// Running pods of `proxy` or `control`.
///
/// # Errors
/// The API server does not answer.
pub async fn running(target: &Target, component: &str) -> anyhow::Result<Vec<Running>> {
    let params = ListParams::default().labels(&format!("app.kubernetes.io/component={component}"));
    let pods = target.cluster().beside_control::<Pod>();
    let found = pods.list(&params).await?;
    Ok(found.items.iter().filter_map(Running::of).collect())
}

/// The one control, once it is ready: on a machine that is busy it may be late to say so.
///
/// # Errors
/// There is none in time.
pub async fn control(target: &Target) -> anyhow::Result<Running> {
    until("a ready control", LONG, || async {
        let found = running(target, "control").await?;
        let seen = format!("{found:?}");
        let ready = found.into_iter().find(|pod| pod.ready);
        Ok(ready.map_or(Observation::NotYet(seen), Observation::Holds))
    })
    .await
}

/// A proxy on each node, whatever went before.
///
/// # Errors
/// It does not come to that in time.
pub async fn one_on_each_node(target: &Target) -> anyhow::Result<[Running; 2]> {
    until("a ready proxy on each node", LONG, || async {
        let found = running(target, "proxy").await?;
        let seen = format!("{found:?}");
        let Ok([one, two]) = <[Running; 2]>::try_from(found) else {
            return Ok(Observation::NotYet(seen));
        };
        if !one.ready || !two.ready {
            return Ok(Observation::NotYet(seen));
        }
        if one.node == two.node {
            // Drained nodes leave them so. Another one is put on the other node.
            let pods = target.cluster().beside_control::<Pod>();
            pods.delete(&two.name, &DeleteParams::default()).await?;
            return Ok(Observation::NotYet(seen));
        }
        Ok(Observation::Holds([one, two]))
    })
    .await
}

/// Waits until that pod's container is another one, and ready.
///
/// # Errors
/// It does not come to that in time.
pub async fn back(target: &Target, component: &str, gone: &Running) -> anyhow::Result<()> {
    until(&format!("{} to be back", gone.name), LONG, || async {
        let found = running(target, component).await?;
        let back = found
            .iter()
            .any(|pod| pod.name == gone.name && pod.restarts > gone.restarts && pod.ready);
        Ok(Observation::when(back, (), found))
    })
    .await
}

/// Waits until the cluster has noticed that the pod is not there.
///
/// # Errors
/// It does not come to that in time.
pub async fn missed(target: &Target, component: &str, gone: &Running) -> anyhow::Result<()> {
    until(&format!("{} to be missed", gone.name), LONG, || async {
        let found = running(target, component).await?;
        let there = found.iter().any(|pod| pod.name == gone.name && pod.ready);
        Ok(Observation::when(!there, (), found))
    })
    .await
}
