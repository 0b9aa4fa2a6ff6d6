//! Which pods say that they listen where.
//!
//! An address belongs to one pod at a time. Two that both have it are a pod that is gone and does not
//! say so yet (its kubelet reports each pod by itself, in no order), and the one that got its address:
//! whoever is asked for the first would reach the second, which may be somebody else's. So a pod is
//! routed to only while nobody else can be meant by its address.

use nogoo9_model::pod::PodView;
use nogoo9_model::select::is_routable;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Live pods by address. Costs of each call: a pod's ports, and the pods at one address, of which there
/// is one.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    at: HashMap<SocketAddr, Vec<Claim>>,
    of: HashMap<Arc<str>, Vec<SocketAddr>>,
}

#[derive(Debug)]
struct Claim {
    uid: Arc<str>,
    workspace: Arc<str>,
    created: i64,
    routable: bool,
}

/// Where a pod listens, if it may still have its address: one that is being deleted may have lost it,
/// one that has ended has.
fn addresses(pod: &PodView) -> impl Iterator<Item = SocketAddr> {
    let ip = pod.ip.filter(|_| pod.is_live());
    let more = pod.serving.ports.iter().map(|port| port.port);
    let ports = std::iter::once(pod.serving.port).chain(more);
    ip.map(|ip| ports.map(move |port| SocketAddr::new(ip, port)))
        .into_iter()
        .flatten()
}

impl Addresses {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.at.len() + self.of.len()
    }

    /// Notes where a pod listens, and returns the workspaces of others at that address.
    pub(super) fn enter(
        &mut self,
        uid: &Arc<str>,
        workspace: &Arc<str>,
        pod: &PodView,
    ) -> Vec<Arc<str>> {
        let mut own: Vec<SocketAddr> = addresses(pod).collect();
        own.sort_unstable();
        own.dedup();
        let mut others = Vec::new();
        for address in &own {
            let claims = self.at.entry(*address).or_default();
            others.extend(claims.iter().map(|claim| claim.workspace.clone()));
            claims.push(Claim {
                uid: uid.clone(),
                workspace: workspace.clone(),
                created: pod.created,
                routable: is_routable(pod),
            });
        }
        if !own.is_empty() {
            self.of.insert(uid.clone(), own);
        }
        once_each(others)
    }

    /// Forgets where a pod listens, and returns the workspaces of others at that address.
    pub(super) fn leave(&mut self, uid: &str) -> Vec<Arc<str>> {
        let mut others = Vec::new();
        for address in self.of.remove(uid).unwrap_or_default() {
            let Some(claims) = self.at.get_mut(&address) else {
                continue;
            };
            claims.retain(|claim| &*claim.uid != uid);
            others.extend(claims.iter().map(|claim| claim.workspace.clone()));
            if claims.is_empty() {
                self.at.remove(&address);
            }
        }
        once_each(others)
    }

    /// Whether another pod may be meant by this one's address: one that is ready there, or one that is
    /// newer and on its way to be.
    pub(super) fn is_contested(&self, pod: &PodView) -> bool {
        let claims = addresses(pod).filter_map(|address| self.at.get(&address));
        claims.flatten().any(|claim| {
            let newer = (claim.created, &*claim.uid) > (pod.created, pod.uid.as_str());
            *claim.uid != *pod.uid && (claim.routable || newer)
        })
    }
}

fn once_each(mut workspaces: Vec<Arc<str>>) -> Vec<Arc<str>> {
    workspaces.sort_unstable();
    workspaces.dedup();
    workspaces
}
