//! Which pods say that they listen where.
//!
//! An address belongs to one pod at a time. Two that both have it are a pod that is gone and does not
//! say so yet (its kubelet reports each pod by itself, in no order), and the one that got its address:
//! whoever is asked for the first would reach the second, which may be somebody else's. So a pod is
//! routed to only while nobody else can be meant by its address.

use nogoo9_model::pod::PodView;
use nogoo9_model::select::is_routable;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Live pods by IP address. Costs of each call: the pods at one, of which there is one, or as many as
/// are in the network of one node.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    at: HashMap<IpAddr, Vec<Claim>>,
    of: HashMap<Arc<str>, IpAddr>,
}

#[derive(Debug)]
struct Claim {
    uid: Arc<str>,
    workspace: Arc<str>,
    created: i64,
    routable: bool,
    ports: Ports,
}

/// What of an address is a pod's.
#[derive(Debug)]
enum Ports {
    /// All of it. Which ports it names says nothing of where it listens.
    All,
    /// In its node's network: the ports that it names.
    Named(Vec<u16>),
}

impl Ports {
    fn of(pod: &PodView) -> Self {
        if !pod.host_network {
            return Self::All;
        }
        let more = pod.serving.ports.iter().map(|port| port.port);
        Self::Named(std::iter::once(pod.serving.port).chain(more).collect())
    }

    fn meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(own), Self::Named(others)) => own.iter().any(|port| others.contains(port)),
            _ => true,
        }
    }
}

/// The address of a pod, if it may still have it: one that is being deleted may have lost it, one that
/// has ended has.
fn address(pod: &PodView) -> Option<IpAddr> {
    pod.ip.filter(|_| pod.is_live())
}

impl Addresses {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.at.len() + self.of.len()
    }

    /// Notes where a pod listens, and returns the workspaces of others that it meets there.
    pub(super) fn enter(
        &mut self,
        uid: &Arc<str>,
        workspace: &Arc<str>,
        pod: &PodView,
    ) -> Vec<Arc<str>> {
        let Some(address) = address(pod) else {
            return Vec::new();
        };
        let own = Claim {
            uid: uid.clone(),
            workspace: workspace.clone(),
            created: pod.created,
            routable: is_routable(pod),
            ports: Ports::of(pod),
        };
        self.of.insert(uid.clone(), address);
        let claims = self.at.entry(address).or_default();
        let met = workspaces(claims, &own.ports);
        claims.push(own);
        met
    }

    /// Forgets where a pod listens, and returns the workspaces of others that it met there.
    pub(super) fn leave(&mut self, uid: &str) -> Vec<Arc<str>> {
        let Some(address) = self.of.remove(uid) else {
            return Vec::new();
        };
        let Some(claims) = self.at.get_mut(&address) else {
            return Vec::new();
        };
        let at = claims.iter().position(|claim| &*claim.uid == uid);
        let own = at.map(|at| claims.swap_remove(at));
        let met = own.map(|own| workspaces(claims, &own.ports));
        if claims.is_empty() {
            self.at.remove(&address);
        }
        met.unwrap_or_default()
    }

    /// Whether another pod may be meant by this one's address: one that is ready there, or one that is
    /// newer and on its way to be. In its node's network the newer one may be on its way to nothing,
    /// since a port is taken only once.
    pub(super) fn is_contested(&self, pod: &PodView) -> bool {
        let claims = address(pod).and_then(|address| self.at.get(&address));
        let own = Ports::of(pod);
        claims.into_iter().flatten().any(|claim| {
            let newer = (claim.created, &*claim.uid) > (pod.created, pod.uid.as_str());
            let share = matches!((&own, &claim.ports), (Ports::Named(_), Ports::Named(_)));
            *claim.uid != *pod.uid
                && (claim.routable || (newer && !share))
                && own.meet(&claim.ports)
        })
    }
}

fn workspaces(claims: &[Claim], ports: &Ports) -> Vec<Arc<str>> {
    let met = claims.iter().filter(|claim| claim.ports.meet(ports));
    once_each(met.map(|claim| claim.workspace.clone()).collect())
}

fn once_each(mut workspaces: Vec<Arc<str>>) -> Vec<Arc<str>> {
    workspaces.sort_unstable();
    workspaces.dedup();
    workspaces
}
