//! An address is one pod's at a time.

use super::*;

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
