use super::*;
use nogoo9_model::pod::{Phase, Ready, Serving, TemplateRef, UpgradeState};
use nogoo9_model::select;
use proptest::prelude::*;
use std::time::{Duration, Instant};

const REMEMBER: Duration = Duration::from_secs(30);

fn pod(uid: &str, workspace: &str, generation: u32, ready: bool) -> PodView {
    PodView {
        uid: uid.to_owned(),
        name: format!("pod-{uid}"),
        namespace: "ns".to_owned(),
        resource_version: "1".to_owned(),
        workspace: workspace.to_owned(),
        owner: "alice".to_owned(),
        generation,
        generation_unreadable: false,
        created: 100,
        since: 100,
        phase: Phase::Running,
        ready: Ready {
            is: ready,
            since: 100,
        },
        unseen: false,
        deleting: false,
        gone_by: None,
        node: None,
        gated: false,
        state: UpgradeState::Committed,
        ip: Some(ip(uid)),
        host_network: false,
        serving: Serving {
            port: 3000,
            visibility: Visibility::Private,
            allow_origins: Default::default(),
            ports: Default::default(),
            strip_prefix: true,
            identity_headers: true,
            affinity: false,
            http2: false,
        },
        template: TemplateRef::default(),
        upgrade_of: None,
        last_upgrade_error: None,
        last_upgrade: None,
        restarts: 0,
        trouble: None,
    }
}

/// Each pod's own.
fn ip(uid: &str) -> std::net::IpAddr {
    let number = pool_key(uid) as u32 & 0x00ff_ffff;
    std::net::IpAddr::from((0x0a00_0000 | number).to_be_bytes())
}

struct Harness {
    table: Table,
    writer: Writer,
    now: Instant,
}

impl Harness {
    fn new() -> Self {
        let table = Table::new();
        Self {
            writer: Writer::new(table.clone(), REMEMBER),
            table,
            now: Instant::now(),
        }
    }

    fn apply(&mut self, pod: PodView) -> Vec<Noted> {
        self.writer.applied(Arc::new(pod), self.now)
    }

    fn active(&self, id: &str) -> Option<String> {
        let workspace = self.table.get(id)?;
        Some(
            workspace
                .route()
                .active()
                .map_or("held".to_owned(), |pod| pod.uid.to_string()),
        )
    }
}

#[test]
fn a_switch_and_its_way_back() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    assert_eq!(h.active("dev").as_deref(), Some("a"));
    h.apply(pod("b", "dev", 2, false));
    assert_eq!(h.active("dev").as_deref(), Some("a"));
    let noted = h.apply(pod("b", "dev", 2, true));
    assert_eq!(
        noted[0].switched,
        Some((Arc::from("dev"), Some("pod-b".to_owned())))
    );
    let route = h.table.get("dev").unwrap().route();
    let order: Vec<&str> = route.backends.iter().map(|pod| &*pod.uid).collect();
    assert_eq!(order, ["b", "a"], "the old one stays as a way out");
    h.writer.deleted("a", h.now);
    assert_eq!(h.table.get("dev").unwrap().route().backends.len(), 1);
}

#[test]
fn extra_ports_are_those_of_the_pod_that_serves() {
    use nogoo9_model::ports::ExtraPorts;
    let said = |port: &str| {
        let key = |what: &str| format!("nogoo9/api.web.{what}");
        let pairs = [
            (key("port"), port.to_owned()),
            (key("path"), "/w".to_owned()),
        ];
        ExtraPorts::parse(&pairs.into())
    };
    let mut h = Harness::new();
    let with = |uid, generation, ready, ports: &ExtraPorts| {
        let mut pod = pod(uid, "dev", generation, ready);
        pod.serving.ports = ports.clone();
        pod
    };
    h.apply(with("a", 1, true, &said("8080")));
    h.apply(with("b", 2, false, &said("9090")));
    let listens = |h: &Harness| -> Vec<Option<u16>> {
        let route = h.table.get("dev").unwrap().route();
        let pods = route.backends.iter();
        pods.map(|pod| pod.listens_at(Some("web")).map(|at| at.port()))
            .collect()
    };
    assert_eq!(listens(&h), [Some(8080)]);
    h.apply(with("b", 2, true, &said("9090")));
    assert_eq!(listens(&h), [Some(9090), Some(8080)], "each its own");
    let route = h.table.get("dev").unwrap().route();
    assert_eq!(route.ports, said("9090"));
    let active = route.active().unwrap();
    assert_eq!(active.listens_at(None), Some(active.address));
    assert_eq!(active.listens_at(Some("other")), None);
    // The next one has none; what is left of the one before does not speak for it.
    h.apply(with("c", 3, true, &ExtraPorts::NONE));
    assert!(h.table.get("dev").unwrap().route().ports.is_empty());
    assert_eq!(listens(&h), [None, Some(9090), Some(8080)]);
    for uid in ["a", "b", "c"] {
        h.writer.deleted(uid, h.now);
    }
    h.apply(with("d", 4, true, &said("7070")));
    h.writer.deleted("d", h.now);
    let route = h.table.get("dev").unwrap().route();
    assert_eq!(route.ports, said("7070"), "the last one's word stands");
}

#[test]
fn a_workspace_without_pods_is_remembered_and_then_forgotten() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    h.writer.deleted("a", h.now);
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    let route = h.table.get("dev").unwrap().route();
    assert_eq!(
        (route.owner.as_str(), &route.status),
        ("alice", &Status::Away)
    );
    h.writer.sweep(h.now + REMEMBER - Duration::from_secs(1));
    assert!(h.table.get("dev").is_some());
    h.writer.sweep(h.now + REMEMBER);
    assert!(h.table.get("dev").is_none() && h.table.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_is_waited_for_is_not_forgotten() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    h.writer.deleted("a", h.now);
    let workspace = h.table.get("dev").unwrap();
    let held = Held::take(&workspace);
    let seen = workspace.route();
    h.now += REMEMBER;
    h.writer.sweep(h.now);
    h.apply(pod("b", "dev", 2, true));
    // Whoever waited is woken by the pod that came.
    let woken = tokio::time::timeout(REMEMBER, workspace.changed_from(&seen)).await;
    assert!(woken.is_ok());
    assert_eq!(workspace.route().active().unwrap().name, "pod-b");
    h.writer.deleted("b", h.now);
    drop(held);
    h.now += REMEMBER;
    h.writer.sweep(h.now);
    assert!(h.table.get("dev").is_none() && h.table.is_empty());
}

#[test]
fn one_that_comes_back_in_time_is_not_forgotten() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    h.writer.deleted("a", h.now);
    h.apply(pod("b", "dev", 2, true));
    h.writer.sweep(h.now + REMEMBER * 2);
    assert_eq!(h.active("dev").as_deref(), Some("b"));
}

/// What a route says of a workspace without a routable pod.
fn said(h: &Harness) -> (bool, &'static str) {
    let route = h.table.get("dev").unwrap().route();
    (route.recreating, route.status.word())
}

fn successor(uid: &str, ready: bool) -> PodView {
    PodView {
        upgrade_of: Some(nogoo9_model::pod::UpgradeOf {
            operation: "op".to_owned(),
            source_uid: "a".to_owned(),
        }),
        ..pod(uid, "dev", 2, ready)
    }
}

#[test]
fn a_recreate_lasts_from_quiesced_to_routable() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    h.apply(PodView {
        gated: true,
        ..successor("b", false)
    });
    assert_eq!(said(&h), (false, "serving"), "the old one still serves");
    let mut old = pod("a", "dev", 1, true);
    old.state = UpgradeState::Quiesced;
    h.apply(old.clone());
    assert_eq!(said(&h), (true, "switching"));
    old.deleting = true;
    h.apply(old);
    assert_eq!(said(&h), (true, "switching"));
    h.writer.deleted("a", h.now);
    assert_eq!(said(&h), (true, "switching"), "its successor comes");
    h.apply(successor("b", true));
    assert_eq!(said(&h), (false, "serving"));
    // It has done what it was made for: that it fails later is no recreate.
    h.apply(successor("b", false));
    assert_eq!(said(&h), (false, "starting"));
    h.writer.deleted("b", h.now);
    assert_eq!(said(&h), (false, "away"));
}

#[test]
fn what_a_container_complains_of_is_for_the_owner() {
    let mut h = Harness::new();
    let trouble = nogoo9_model::container::Trouble::new("ImagePullBackOff", "no such image");
    h.apply(PodView {
        trouble: Some(trouble),
        ..successor("b", false)
    });
    let status = h.table.get("dev").unwrap().route().status.clone();
    assert!(status.message(true).contains("it says: ImagePullBackOff."));
    assert!(!status.message(false).contains("ImagePullBackOff"));
}

#[tokio::test]
async fn an_arrival_wakes_whoever_waits_for_it() {
    let mut h = Harness::new();
    let waiting = tokio::spawn({
        let table = h.table.clone();
        async move { table.arrival("dev").await.id.to_string() }
    });
    h.apply(pod("x", "other", 1, true));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    h.apply(pod("a", "dev", 1, false));
    assert_eq!(waiting.await.unwrap(), "dev");
    // What is there already is no wait.
    assert_eq!(&*h.table.arrival("other").await.id, "other");
}

#[test]
fn a_pod_that_changes_its_label_moves() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    h.apply(pod("a", "other", 1, true));
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.active("other").as_deref(), Some("a"));
}

#[test]
fn two_equal_claims_are_nobodys() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    let mut other = pod("b", "dev", 2, true);
    other.owner = "bob".to_owned();
    let noted = h.apply(other);
    assert_eq!(noted[0].ignored.len(), 2);
    let route = h.table.get("dev").unwrap().route();
    assert_eq!((route.owner.as_str(), route.backends.len()), ("", 0));
}

#[tokio::test]
async fn waiters_are_woken_by_their_own_workspace() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, false));
    let workspace = h.table.get("dev").unwrap();
    let seen = workspace.route();
    let waiting = tokio::spawn({
        let (workspace, seen) = (workspace.clone(), seen.clone());
        async move { workspace.changed_from(&seen).await }
    });
    h.apply(pod("x", "other", 1, true));
    assert!(workspace.is_current(&seen));
    h.apply(pod("a", "dev", 1, true));
    waiting.await.unwrap();
    assert!(!workspace.is_current(&seen));
}

/// A pod of bob's workspace `his`, at the address of the pod of that uid.
fn at_the_address_of(uid: &str, other: &str, created: i64, ready: bool) -> PodView {
    PodView {
        owner: "bob".to_owned(),
        ip: Some(ip(other)),
        created,
        ..pod(uid, "his", 1, ready)
    }
}

#[test]
fn an_address_that_has_got_another_pod_is_not_routed_to() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    // His pod has the address already, and is not ready yet: hers does not say that it is gone.
    let noted = h.apply(at_the_address_of("b", "a", 200, false));
    assert_eq!(noted[0].contested, ["pod-a"]);
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    // Nobody can tell whose it is.
    h.apply(at_the_address_of("b", "a", 200, true));
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.active("his").as_deref(), Some("held"));
    assert_eq!(h.table.contested(), 2);
    // Hers is being deleted: then it is his.
    let mut hers = pod("a", "dev", 1, true);
    hers.deleting = true;
    h.apply(hers);
    assert_eq!(h.active("his").as_deref(), Some("b"));
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.table.contested(), 0);
    h.writer.deleted("b", h.now);
    h.writer.deleted("a", h.now);
    h.apply(pod("a", "dev", 1, true));
    assert_eq!(
        h.active("dev").as_deref(),
        Some("a"),
        "nothing is left behind"
    );
}

#[test]
fn an_older_pod_that_is_not_ready_takes_no_address_away() {
    let mut h = Harness::new();
    h.apply(at_the_address_of("dead", "a", 50, true));
    h.apply(at_the_address_of("dead", "a", 50, false));
    h.apply(pod("a", "dev", 1, true));
    assert_eq!(h.active("dev").as_deref(), Some("a"));
}

#[test]
fn a_pods_address_is_its_own_whatever_ports_it_names() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    // His pod may listen at the port that hers names, too.
    let mut beside = at_the_address_of("beside", "a", 300, true);
    beside.serving.port = 4000;
    h.apply(beside.clone());
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.active("his").as_deref(), Some("held"));
    assert_eq!(h.table.contested(), 2);
    // Also where he is in the network of a node that has got her address.
    beside.host_network = true;
    h.apply(beside);
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.active("his").as_deref(), Some("held"));
    h.writer.deleted("beside", h.now);
    assert_eq!(h.active("dev").as_deref(), Some("a"));
    assert_eq!(h.table.contested(), 0);
}

#[test]
fn pods_in_their_nodes_network_share_its_address() {
    let on_node = |pod: PodView| PodView {
        host_network: true,
        ..pod
    };
    let mut h = Harness::new();
    h.apply(on_node(pod("a", "dev", 1, true)));
    let mut beside = on_node(at_the_address_of("beside", "a", 300, true));
    beside.serving.port = 4000;
    h.apply(beside.clone());
    assert_eq!(h.active("dev").as_deref(), Some("a"));
    assert_eq!(h.active("his").as_deref(), Some("beside"));
    // One that comes to nothing, since the port is taken, takes the other off not.
    beside.serving.port = 3000;
    beside.ready.is = false;
    h.apply(beside.clone());
    assert_eq!(h.active("dev").as_deref(), Some("a"));
    assert_eq!(h.table.contested(), 0);
    // Two that are ready at one port: one of them is gone.
    beside.ready.is = true;
    h.apply(beside);
    assert_eq!(h.active("dev").as_deref(), Some("held"));
    assert_eq!(h.active("his").as_deref(), Some("held"));
    assert_eq!(h.table.contested(), 2);
}

/// An address that is used again at the moment at which its pod's end is told.
#[test]
fn an_address_changes_hands() {
    let mut h = Harness::new();
    let mut last = pod("0", "dev", 1, true);
    h.apply(last.clone());
    for n in 1..1000 {
        let (old, new) = ((n - 1).to_string(), n.to_string());
        let mut gone = last;
        gone.deleting = true;
        h.apply(gone);
        let mut next = pod(&new, if n % 2 == 0 { "dev" } else { "his" }, 1, true);
        next.ip = Some(ip("0"));
        next.created = 100 + n;
        h.apply(next.clone());
        last = next;
        let serving: Vec<_> = ["dev", "his"]
            .map(|id| h.active(id))
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(serving.iter().filter(|uid| **uid == new).count(), 1);
        assert_eq!(
            serving.iter().filter(|uid| *uid == "held").count(),
            serving.len() - 1
        );
        h.writer.deleted(&old, h.now);
    }
    assert_eq!(h.writer.sizes()[1..3], [1, 2], "one pod, at one address");
}

/// What an event costs is what its workspace has, however many others there are, and also where many
/// go at once.
#[test]
fn an_event_looks_at_its_own_workspace_alone() {
    for size in [10, 1_000, 5_000] {
        let mut h = Harness::new();
        for n in 0..size {
            h.apply(pod(&format!("{n}-old"), &n.to_string(), 1, true));
            h.apply(pod(&format!("{n}-new"), &n.to_string(), 2, false));
        }
        let before = h.writer.looked_at();
        h.apply(pod("5-new", "5", 2, true));
        assert_eq!(h.writer.looked_at() - before, 2, "of {size}");
        h.writer.deleted("5-old", h.now);
        assert_eq!(h.writer.looked_at() - before, 3, "of {size}");
        // All go: each is forgotten once, by one look at each.
        for n in 0..size {
            h.writer.deleted(&format!("{n}-old"), h.now);
            h.writer.deleted(&format!("{n}-new"), h.now);
        }
        assert_eq!(h.writer.sizes(), [size, 0, 0, size, size]);
        h.writer.sweep(h.now + REMEMBER);
        assert!(h.table.is_empty());
        assert_eq!(h.writer.sizes(), [0; 5]);
    }
}

/// One that comes and goes leaves no more entries behind than times.
#[test]
fn a_workspace_that_comes_and_goes_is_forgotten_after_its_last_time() {
    let mut h = Harness::new();
    for n in 0..3u64 {
        h.apply(pod("a", "dev", 1, true));
        h.writer.deleted("a", h.now + Duration::from_secs(n));
    }
    h.writer.sweep(h.now + REMEMBER + Duration::from_secs(1));
    assert!(h.table.get("dev").is_some(), "its last time is later");
    h.writer.sweep(h.now + REMEMBER + Duration::from_secs(2));
    assert!(h.table.is_empty());
    assert_eq!(h.writer.sizes(), [0; 5]);
}

#[test]
fn pools_belong_to_uids() {
    assert_ne!(pool_key("a"), pool_key("b"));
    assert_eq!(pool_key("a"), pool_key("a"));
}

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
