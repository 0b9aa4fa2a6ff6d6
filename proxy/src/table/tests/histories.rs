//! Any history of pods against `model::select`.

use super::*;
use nogoo9_model::select;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Apply {
        uid: u8,
        workspace: u8,
        generation: u32,
        ready: bool,
        deleting: bool,
        bob: bool,
        since: i64,
        address: u8,
        ended: bool,
        host_network: bool,
    },
    Delete(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..6, 0u8..2, 0u32..4, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), 0i64..3, 0u8..5, prop::bool::weighted(0.1), any::<bool>()).prop_map(
            |(uid, workspace, generation, ready, deleting, bob, since, address, ended, host_network)| Op::Apply {
                uid, workspace, generation, ready, deleting, bob, since, address, ended, host_network
            }
        ),
        1 => (0u8..6).prop_map(Op::Delete),
    ]
}

proptest! {
    /// After any history, each route is what `model::select` says of the pods that there are and that
    /// have their address for themselves.
    #[test]
    fn the_table_is_the_model(ops in prop::collection::vec(op(), 0..60)) {
        let mut h = Harness::new();
        let mut pods: BTreeMap<String, PodView> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Apply { uid, workspace, generation, ready, deleting, bob, since, address, ended, host_network } => {
                    let mut view = pod(&uid.to_string(), &format!("w{workspace}"), generation, ready);
                    view.deleting = deleting;
                    view.since = since;
                    view.ip = Some(ip(&address.to_string()));
                    view.host_network = host_network;
                    if ended {
                        view.phase = Phase::Failed;
                    }
                    if bob {
                        view.owner = "bob".to_owned();
                    }
                    pods.insert(view.uid.clone(), view.clone());
                    h.apply(view);
                }
                Op::Delete(uid) => {
                    pods.remove(&uid.to_string());
                    h.writer.deleted(&uid.to_string(), h.now);
                }
            }
            let alone = |pod: &PodView| {
                !pods.values().any(|other| {
                    let has = other.is_live() && !other.deleting && other.ip == pod.ip;
                    let newer = (other.created, &other.uid) > (pod.created, &pod.uid);
                    let newer = newer && !(other.host_network && pod.host_network);
                    has && other.uid != pod.uid && (select::is_routable(other) || newer)
                })
            };
            let mut reached = std::collections::BTreeSet::new();
            for id in ["w0", "w1"] {
                let claims = select::claimants(pods.values().filter(|pod| pod.workspace == id));
                let expected = select::active(claims.holder.iter().copied().filter(|pod| alone(pod))).map(|pod| pod.uid.clone());
                let route = h.table.get(id).map(|workspace| workspace.route());
                let active = route.as_ref().and_then(|route| route.active()).map(|pod| pod.uid.to_string());
                prop_assert_eq!(&active, &expected);
                for backend in route.iter().flat_map(|route| route.backends.iter()) {
                    prop_assert!(reached.insert(backend.address), "two routes to one address");
                    let pod = pods.get(&*backend.uid);
                    prop_assert!(pod.is_some_and(|pod| !pod.deleting && pod.ip == Some(backend.address.ip())));
                }
                if let (Some(route), Some(holder)) = (route, claims.holder.first()) {
                    prop_assert_eq!(&route.owner, &holder.owner);
                }
            }
        }
    }
}
