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

/// Live pods by address. Costs of each call: the pods at one address, of which there is one.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    at: HashMap<SocketAddr, Vec<Claim>>,
    of: HashMap<Arc<str>, SocketAddr>,
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
fn address(pod: &PodView) -> Option<SocketAddr> {
    let has = pod.is_live() && !pod.deleting;
    let ip = pod.ip.filter(|_| has)?;
    Some(SocketAddr::new(ip, pod.serving.port))
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
        let Some(address) = address(pod) else {
            return Vec::new();
        };
        self.of.insert(uid.clone(), address);
        let claims = self.at.entry(address).or_default();
        let others = claims.iter().map(|claim| claim.workspace.clone()).collect();
        claims.push(Claim {
            uid: uid.clone(),
            workspace: workspace.clone(),
            created: pod.created,
            routable: is_routable(pod),
        });
        others
    }

    /// Forgets where a pod listens, and returns the workspaces of others at that address.
    pub(super) fn leave(&mut self, uid: &str) -> Vec<Arc<str>> {
        let Some(address) = self.of.remove(uid) else {
            return Vec::new();
        };
        let Some(claims) = self.at.get_mut(&address) else {
            return Vec::new();
        };
        claims.retain(|claim| &*claim.uid != uid);
        let others = claims.iter().map(|claim| claim.workspace.clone()).collect();
        if claims.is_empty() {
            self.at.remove(&address);
        }
        others
    }

    /// Whether another pod may be meant by this one's address: one that is ready there, or one that is
    /// newer and on its way to be.
    pub(super) fn is_contested(&self, pod: &PodView) -> bool {
        let claims = address(pod).and_then(|address| self.at.get(&address));
        claims.into_iter().flatten().any(|claim| {
            let newer = (claim.created, &*claim.uid) > (pod.created, pod.uid.as_str());
            *claim.uid != *pod.uid && (claim.routable || newer)
        })
    }
}
