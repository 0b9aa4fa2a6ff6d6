mod addresses;
mod histories;

use super::*;
use nogoo9_model::pod::{Phase, Ready, Serving, TemplateRef, UpgradeState};
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

/// For a moment it is not there, while it is found to be waited for.
#[tokio::test(start_paused = true)]
async fn one_that_is_put_back_is_told_of_to_whoever_has_missed_it() {
    let mut h = Harness::new();
    h.apply(pod("a", "dev", 1, true));
    let workspace = h.table.get("dev").unwrap();
    h.table.0.workspaces.pin().remove("dev");
    let mut arrival = std::pin::pin!(h.table.arrival("dev"));
    let missed = tokio::time::timeout(REMEMBER, arrival.as_mut()).await;
    assert!(missed.is_err());
    h.table.put(workspace);
    let came = tokio::time::timeout(REMEMBER, arrival).await;
    assert!(came.is_ok());
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

/// Nobody is woken, and whatever goes by the route goes on to.
#[test]
fn what_leaves_a_route_as_it_is_changes_nothing() {
    let trouble = |reason| Some(nogoo9_model::container::Trouble::new(reason, "said"));
    let mut h = Harness::new();
    for ready in [true, false] {
        let known = PodView {
            trouble: trouble("CrashLoopBackOff"),
            ..pod("a", "dev", 1, ready)
        };
        h.apply(known.clone());
        let workspace = h.table.get("dev").unwrap();
        let seen = workspace.route();
        let mut changed = std::pin::pin!(workspace.changed.notified());
        changed.as_mut().enable();
        h.apply(known.clone());
        h.apply(PodView {
            resource_version: "2".to_owned(),
            since: 200,
            restarts: 1,
            last_upgrade: Some("{}".to_owned()),
            ..known.clone()
        });
        // Older than the one that serves, or that is told of.
        h.apply(pod("z", "dev", 0, false));
        h.writer.deleted("z", h.now);
        assert!(workspace.is_current(&seen), "ready: {ready}");
        assert!(!changed.as_mut().enable(), "ready: {ready}");
        h.apply(PodView {
            trouble: trouble("ImagePullBackOff"),
            ..known
        });
        // While it serves, nobody is told what its container complains of.
        assert_eq!(workspace.is_current(&seen), ready);
        assert_eq!(changed.as_mut().enable(), !ready);
    }
}

#[test]
fn whatever_differs_in_a_route_is_another_one() {
    type Change = fn(&mut PodView);
    let changes: [(&str, Change); 9] = [
        ("address", |pod| pod.ip = Some(ip("another"))),
        ("port", |pod| pod.serving.port = 3001),
        ("visibility", |pod| {
            pod.serving.visibility = Visibility::Authenticated;
        }),
        ("prefix", |pod| pod.serving.strip_prefix = false),
        ("identity", |pod| pod.serving.identity_headers = false),
        ("affinity", |pod| pod.serving.affinity = true),
        ("HTTP/2", |pod| pod.serving.http2 = true),
        ("candidate", |pod| pod.state = UpgradeState::Candidate),
        ("readiness", |pod| pod.ready.is = false),
    ];
    for (what, change) in changes {
        let mut h = Harness::new();
        h.apply(pod("a", "dev", 1, true));
        let workspace = h.table.get("dev").unwrap();
        for there in [true, false] {
            let seen = workspace.route();
            let mut changed = std::pin::pin!(workspace.changed.notified());
            changed.as_mut().enable();
            let mut next = pod("a", "dev", 1, true);
            if there {
                change(&mut next);
            }
            h.apply(next);
            assert!(!workspace.is_current(&seen), "{what}");
            assert!(changed.as_mut().enable(), "{what}");
        }
    }
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
