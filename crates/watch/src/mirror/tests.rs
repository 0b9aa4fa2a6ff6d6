use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An object in short: name, uid, version.
type Object = (&'static str, u8, u8);

fn key(name: &str) -> Key {
    Key {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
    }
}

fn seen((name, uid, version): Object) -> Seen<String> {
    Seen {
        key: key(name),
        uid: uid.to_string(),
        version: version.to_string(),
        value: Some(format!("{name}/{uid}/{version}")),
    }
}

fn unwanted(object: Object) -> Seen<String> {
    Seen {
        value: None,
        ..seen(object)
    }
}

fn text(changes: &[Change<String>]) -> Vec<String> {
    let mut out: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Applied(value) => format!("+{value}"),
            Change::Deleted(value) => format!("-{value}"),
            Change::Synced => "=".to_owned(),
        })
        .collect();
    // Within one relist the order of equals is that of a hash map.
    out.sort_by_key(|line| match line.as_bytes().first() {
        Some(b'+') => (0, line.clone()),
        Some(b'-') => (1, line.clone()),
        _ => (2, line.clone()),
    });
    out
}

struct Harness {
    mirror: Mirror<String>,
    known: Known<String>,
}

impl Harness {
    fn new() -> Self {
        Self {
            mirror: Mirror::default(),
            known: HashMap::new(),
        }
    }

    fn step(&mut self, event: Event<String>) -> Vec<String> {
        text(&self.mirror.step(&mut self.known, event))
    }

    fn begin(&mut self, objects: &[Object]) {
        self.mirror.begin();
        for object in objects {
            self.mirror.list(seen(*object));
        }
    }

    fn list(&mut self, objects: &[Object]) -> Vec<String> {
        self.begin(objects);
        self.step(Event::Listed)
    }
}

#[test]
fn a_relist_delivers_differences_only() {
    let mut h = Harness::new();
    assert_eq!(
        h.list(&[("a", 1, 1), ("b", 2, 1)]),
        ["+a/1/1", "+b/2/1", "="]
    );
    assert_eq!(h.list(&[("a", 1, 1), ("b", 2, 1)]), ["="]);
    assert_eq!(
        h.list(&[("a", 1, 5), ("c", 3, 1)]),
        ["+a/1/5", "+c/3/1", "-b/2/1", "="]
    );
    assert_eq!(h.list(&[]), ["-a/1/5", "-c/3/1", "="]);
}

#[test]
fn arrivals_come_before_departures() {
    let mut h = Harness::new();
    h.list(&[("old", 1, 1)]);
    h.begin(&[("new", 2, 1)]);
    let raw = h.mirror.step(&mut h.known, Event::Listed);
    assert!(matches!(
        raw.as_slice(),
        [Change::Applied(_), Change::Deleted(_), Change::Synced]
    ));
}

#[test]
fn a_list_that_breaks_off_changes_nothing() {
    let mut h = Harness::new();
    h.list(&[("a", 1, 1)]);
    h.begin(&[("b", 2, 1)]);
    // The server went away; the watcher begins again.
    assert_eq!(h.known.len(), 1);
    assert_eq!(h.list(&[("a", 1, 1)]), ["="]);
}

/// The database was put back: `b` was deleted since then, `c` was made since then, `d` has changed.
#[test]
fn a_list_of_the_past_brings_nothing_back() {
    let mut h = Harness::new();
    h.list(&[("a", 1, 1), ("c", 3, 8), ("d", 4, 9)]);
    h.begin(&[("a", 1, 1), ("b", 2, 2), ("d", 4, 3)]);
    assert_eq!(
        h.step(Event::Restored { distrust: true }),
        ["-c/3/8", "="],
        "what is not there is gone, and nothing else happens"
    );
    // What changes from then on is of the present, although its number is smaller.
    assert_eq!(h.step(Event::Apply(seen(("b", 2, 4)))), ["+b/2/4"]);
    assert_eq!(
        h.list(&[("a", 1, 1), ("b", 2, 4), ("d", 4, 3)]),
        ["+a/1/1", "+d/4/3", "="],
        "the next list has the last word, on all that was not heard of since"
    );
}

/// Versions are given out anew after a restore: the same number is another change.
#[test]
fn a_version_given_out_twice_hides_no_change() {
    let other = || Seen {
        value: Some("a/1/x".to_owned()),
        ..seen(("a", 1, 9))
    };
    let restored = |distrust| {
        let mut h = Harness::new();
        h.list(&[("a", 1, 9)]);
        h.mirror.begin();
        h.mirror.list(other());
        let changes = h.step(Event::Restored { distrust });
        (h, changes)
    };
    assert_eq!(restored(false).1, ["+a/1/x", "="]);
    // Not believed at first, but what comes next is.
    let (mut h, changes) = restored(true);
    assert_eq!(changes, ["="]);
    assert_eq!(h.step(Event::Apply(other())), ["+a/1/x"]);
    let (mut h, _) = restored(true);
    h.mirror.begin();
    h.mirror.list(other());
    assert_eq!(h.step(Event::Listed), ["+a/1/x", "="]);
    h.mirror.begin();
    h.mirror.list(other());
    assert_eq!(h.step(Event::Listed), ["="], "its version is known again");
}

#[test]
fn single_events() {
    let mut h = Harness::new();
    h.list(&[("a", 1, 1)]);
    assert_eq!(
        h.step(Event::Apply(seen(("a", 1, 1)))),
        [""; 0],
        "the same version again"
    );
    assert_eq!(h.step(Event::Apply(seen(("a", 1, 2)))), ["+a/1/2"]);
    assert_eq!(
        h.step(Event::Delete(key("a"), "9".to_owned())),
        [""; 0],
        "another uid"
    );
    assert_eq!(
        h.step(Event::Apply(seen(("a", 2, 3)))),
        ["+a/2/3", "-a/1/2"],
        "name used again"
    );
    assert_eq!(
        h.step(Event::Apply(unwanted(("a", 2, 4)))),
        ["-a/2/3"],
        "not ours any more"
    );
    assert_eq!(h.step(Event::Apply(unwanted(("a", 2, 5)))), [""; 0]);
    assert_eq!(h.step(Event::Delete(key("a"), "2".to_owned())), [""; 0]);
}

#[test]
fn a_name_used_again_is_deleted_before_it_is_applied() {
    let mut h = Harness::new();
    h.list(&[("a", 1, 1)]);
    let raw = h.mirror.step(&mut h.known, Event::Apply(seen(("a", 2, 2))));
    assert!(matches!(
        raw.as_slice(),
        [Change::Deleted(_), Change::Applied(_)]
    ));
}

#[derive(Debug, Clone)]
enum Op {
    List(Vec<Object>),
    Apply(Object),
    Unwanted(Object),
    Delete(&'static str, u8),
    BrokenList(Vec<Object>),
    Restored(Vec<Object>, bool),
}

fn object() -> impl Strategy<Value = Object> {
    (
        prop::sample::select(vec!["a", "b", "c", "d"]),
        0u8..3,
        0u8..4,
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        prop::collection::vec(object(), 0..5).prop_map(Op::List),
        prop::collection::vec(object(), 0..5).prop_map(Op::BrokenList),
        (prop::collection::vec(object(), 0..5), any::<bool>())
            .prop_map(|(objects, distrust)| Op::Restored(objects, distrust)),
        object().prop_map(Op::Apply),
        object().prop_map(Op::Unwanted),
        (prop::sample::select(vec!["a", "b", "c", "d"]), 0u8..3)
            .prop_map(|(n, u)| Op::Delete(n, u)),
    ]
}

proptest! {
    /// Whoever replays the changes ends with exactly what is known, whatever came in.
    #[test]
    fn replaying_the_changes_gives_what_is_known(ops in prop::collection::vec(op(), 0..40)) {
        let mut h = Harness::new();
        let mut replica: BTreeMap<String, u32> = BTreeMap::new();
        for op in ops {
            let event = match op {
                Op::List(objects) => {
                    h.begin(&objects);
                    Some(Event::Listed)
                }
                Op::Restored(objects, distrust) => {
                    h.begin(&objects);
                    Some(Event::Restored { distrust })
                }
                Op::BrokenList(objects) => {
                    h.begin(&objects);
                    None
                }
                Op::Apply(o) => Some(Event::Apply(seen(o))),
                Op::Unwanted(o) => Some(Event::Apply(unwanted(o))),
                Op::Delete(name, uid) => Some(Event::Delete(key(name), uid.to_string())),
            };
            if let Some(event) = event {
                for change in h.mirror.step(&mut h.known, event) {
                    match change {
                        Change::Applied(v) => {
                            let object = v.rsplit_once('/').unwrap().0.to_owned();
                            let version = v.rsplit_once('/').unwrap().1.parse().unwrap();
                            replica.insert(object, version);
                        }
                        Change::Deleted(v) => {
                            let object = v.rsplit_once('/').unwrap().0;
                            prop_assert!(replica.remove(object).is_some(), "deleted {object}, never applied");
                        }
                        Change::Synced => {}
                    }
                }
            }
        }
        let known: BTreeMap<String, u32> = h.known.iter()
            .map(|(key, entry)| {
                let version = entry.value.rsplit_once('/').unwrap().1;
                (format!("{}/{}", key.name, entry.uid), version.parse().unwrap())
            })
            .collect();
        prop_assert_eq!(replica, known);
    }
}
