//! Which pod a session's requests follow while an upgrade drains the old one (template annotation
//! `nogoo9/affinity: session`). Pure.
//!
//! Some applications keep state behind a socket or a stream, and expect the requests beside it to meet
//! that state. So while a session has one open on a pod, its requests go there: all of them, new sockets
//! among them, since what they are for nobody knows. Which proxy it is open at does not matter
//! ([`crate::peers`]). It ends with the last socket or stream, at the latest when the pod is drained or
//! deleted; while the pod is not ready, requests go where all go.

use crate::table::{Backend, Route};
use data_encoding::HEXLOWER;
use nogoo9_identity::Verified;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// What a session is known by, here and to other proxies, which are told nothing that it could be used
/// by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// As other proxies are told.
    #[must_use]
    pub fn to_hex(self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// From what another proxy tells; `None`: it is none.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        bytes.try_into().ok().map(Self)
    }
}

/// The session of a caller: a browser's session, else whoever calls.
#[must_use]
pub fn session_of(caller: &Verified) -> SessionKey {
    let known_by = match &caller.sid {
        Some(sid) => format!("s{sid}"),
        None => format!("u{}", caller.caller.sub),
    };
    SessionKey(Sha256::digest(known_by).into())
}

/// The pods that may be followed beside the active one, oldest last.
pub fn others(route: &Route) -> impl DoubleEndedIterator<Item = &Arc<Backend>> {
    let others = route.backends.get(1..).unwrap_or_default();
    others.iter().filter(|pod| pod.affinity)
}

/// The pod, other than the active one, that a session's requests follow which has something open on
/// `holding`: the oldest of them that is still routed to. `None`: they go where all go.
#[must_use]
pub fn followed<'a>(route: &'a Route, holding: &[Arc<str>]) -> Option<&'a Arc<Backend>> {
    others(route).rfind(|pod| holding.contains(&pod.uid))
}

/// Whether any pod of a route beside the active one may be followed at all.
#[must_use]
pub fn matters(route: &Route) -> bool {
    others(route).next().is_some()
}

/// Whether new requests of sessions without anything open may go to none of these pods.
#[must_use]
pub fn is_past(route: &Route, pods: &[String]) -> bool {
    let among = |pod: &Arc<Backend>| pods.iter().any(|uid| *uid == *pod.uid);
    route.active().is_some_and(|active| !among(active)) && !route.spare().any(among)
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

    #[test]
    fn a_pod_is_past_once_nobody_new_comes_to_it() {
        for (candidate, pods, wanted) in [
            (false, &["new", "old"][..], true),
            // While the new one is a candidate, the old one stands in for it.
            (true, &["new", "old"], false),
            (false, &["old"], false),
            (false, &["old", "older"], false),
            (false, &["new"], true),
            // Nobody knows what comes.
            (false, &[], false),
        ] {
            let pods: Vec<_> = pods.iter().map(|uid| (*uid, true)).collect();
            let mut route = route(&pods);
            if let Some(active) = route.backends.first_mut() {
                Arc::get_mut(active).unwrap().candidate = candidate;
            }
            assert_eq!(is_past(&route, &["old".to_owned()]), wanted, "{pods:?}");
        }
    }

    #[test]
    fn a_session_is_told_of_by_its_hash() {
        let session = SessionKey(Sha256::digest("sabc").into());
        let hex = session.to_hex();
        assert_eq!(hex.len(), 64);
        assert_eq!(SessionKey::from_hex(&hex), Some(session));
        for none in [
            "",
            "sabc",
            &hex[1..],
            &format!("{hex}00"),
            &hex.to_uppercase(),
        ] {
            assert_eq!(SessionKey::from_hex(none), None, "{none}");
        }
    }
}
