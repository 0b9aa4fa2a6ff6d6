//! Which pod a session's requests follow while an upgrade drains the old one (template annotation
//! `nogoo9/affinity: session`). Pure.
//!
//! Some applications keep state behind a socket or a stream, and expect the requests beside it to meet
//! that state. So while a session has one open on a pod, its requests go there: all of them, new sockets
//! among them, since what they are for nobody knows. It ends with the last socket or stream, at the
//! latest when the pod is drained, deleted, or ready no more.

use crate::table::{Backend, Route};
use nogoo9_identity::Verified;
use std::sync::Arc;

/// What a session is known by: a browser's session, else whoever calls.
#[must_use]
pub fn session_of(caller: &Verified) -> Arc<str> {
    match &caller.sid {
        Some(sid) => Arc::from(format!("s{sid}")),
        None => Arc::from(format!("u{}", caller.caller.sub)),
    }
}

/// The pod, other than the active one, that a session's requests follow which has something open on
/// `holding`: the oldest of them that is still routed to. `None`: they go where all go.
#[must_use]
pub fn followed<'a>(route: &'a Route, holding: &[Arc<str>]) -> Option<&'a Arc<Backend>> {
    let others = route.backends.get(1..).unwrap_or_default();
    others
        .iter()
        .rfind(|pod| pod.affinity && holding.contains(&pod.uid))
}

/// Whether any pod of a route beside the active one may be followed at all.
#[must_use]
pub fn matters(route: &Route) -> bool {
    let others = route.backends.get(1..).unwrap_or_default();
    others.iter().any(|pod| pod.affinity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Status;
    use nogoo9_model::access::Visibility;

    fn route(pods: &[(&str, bool)]) -> Route {
        let backend = |(uid, affinity): &(&str, bool)| {
            Arc::new(Backend {
                uid: Arc::from(*uid),
                name: (*uid).to_owned(),
                address: "127.0.0.1:1".parse().unwrap(),
                pool: 0,
                strip_prefix: true,
                identity_headers: true,
                http2: false,
                affinity: *affinity,
                candidate: false,
                ports: Default::default(),
            })
        };
        Route {
            owner: "alice".to_owned(),
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            backends: pods.iter().map(backend).collect(),
            status: Status::Serving,
            recreating: false,
            progress: Default::default(),
            ports: Default::default(),
        }
    }

    #[test]
    fn the_oldest_that_is_held_and_routed_to_is_followed() {
        let (yes, no) = (true, false);
        for (pods, holding, wanted) in [
            (&[("new", yes), ("old", yes)][..], &["old"][..], Some("old")),
            (&[("new", yes), ("old", yes)], &[], None),
            (&[("new", yes), ("old", yes)], &["new"], None),
            (&[("new", yes), ("old", yes)], &["new", "old"], Some("old")),
            // The old pod's own word counts: it is the one that keeps state.
            (&[("new", yes), ("old", no)], &["old"], None),
            (&[("new", no), ("old", yes)], &["old"], Some("old")),
            // It is gone, quiesced or not ready.
            (&[("new", yes)], &["old"], None),
            (&[], &["old"], None),
            (
                &[("c", yes), ("b", yes), ("a", yes)],
                &["b", "a"],
                Some("a"),
            ),
            (&[("c", yes), ("b", yes), ("a", no)], &["b", "a"], Some("b")),
        ] {
            let route = route(pods);
            let holding: Vec<Arc<str>> = holding.iter().map(|uid| Arc::from(*uid)).collect();
            let found = followed(&route, &holding).map(|pod| &*pod.uid);
            assert_eq!(found, wanted, "{pods:?} {holding:?}");
            assert!(found.is_none() || matters(&route));
        }
    }
}
