//! Whether anybody still uses a pod, by what the proxies say. A proxy that does not answer counts
//! as "not yet", up to the drain bound.

use crate::wire::Sessions;

/// What one proxy says of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyReport {
    /// Which proxy, for people.
    pub proxy: String,
    /// Its answer; `None`: it gave none.
    pub answer: Option<Sessions>,
}

/// What keeps a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct InUse {
    /// Open sessions in all.
    pub sessions: u32,
    /// Of those, requests being answered.
    pub requests: u32,
    /// Proxies that still route to the pod, or would if the active one could not be reached.
    pub routing: u32,
    /// Proxies that gave no answer.
    pub silent: u32,
}

impl InUse {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

pub(super) fn in_use(uid: &str, reports: &[ProxyReport]) -> InUse {
    let mut sum = InUse::default();
    for report in reports {
        let Some(answer) = &report.answer else {
            sum.silent = sum.silent.saturating_add(1);
            continue;
        };
        sum.sessions = sum
            .sessions
            .saturating_add(answer.sessions.get(uid).copied().unwrap_or(0));
        sum.requests = sum
            .requests
            .saturating_add(answer.requests.get(uid).copied().unwrap_or(0));
        let mut routed = answer.active.iter().chain(&answer.spare);
        sum.routing = sum
            .routing
            .saturating_add(u32::from(routed.any(|pod| pod == uid)));
    }
    sum
}
