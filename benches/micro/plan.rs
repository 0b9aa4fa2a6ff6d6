//! What an upgrade does next, which control asks after every event and every write.

#![allow(
    clippy::expect_used,
    reason = "a bench whose input cannot be made must not go on"
)]

use crate::fixture::{OWNER, view};
use criterion::Criterion;
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::{PodView, UpgradeOf};
use nogoo9_model::record::Record;
use nogoo9_model::upgrade::{Observed, Plan, ProxyReport, Write, plan};
use nogoo9_model::wire::Sessions;
use serde_json::{Value, json};
use std::hint::black_box;

/// A moment within the upgrade below.
const NOW: i64 = 1_796_000_030;

fn manifest(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"nogoo9/type": "workspace"}},
        "spec": {"containers": [{"name": "workspace", "image": image, "env": [
            {"name": "MESSAGE", "value": "Hello"}, {"name": "WORKSPACE_ID", "value": "dev"},
        ]}]},
    })
}

/// A record in its stored form, which is what control reads.
fn record(upgrade: Option<Value>) -> Record {
    let old = view("dev", "1", 1, true);
    let mut stored = json!({
        "version": 1,
        "id": "dev",
        "namespace": "nogoo9-workspaces",
        "owner": OWNER,
        "name": "Dev",
        "since": 1_790_000_000,
        "desired": "running",
        "template": {"name": "sample", "version": "v1"},
        "inputs": {},
        "generation": 2,
        "manifest": manifest("nogoo9-sample:1.0"),
        "pod": {"name": old.name, "generation": 1, "uid": old.uid},
    });
    if let (Some(upgrade), Some(stored)) = (upgrade, stored.as_object_mut()) {
        stored.insert("upgrade".to_owned(), upgrade);
    }
    serde_json::from_value(stored).expect("a stored record")
}

fn upgrade(mode: &str, phase: &Value) -> Value {
    let (old, new) = (view("dev", "1", 1, true), view("dev", "2", 2, true));
    json!({
        "operation": "op-1",
        "actor": "admin",
        "mode": mode,
        "startedAt": NOW - 30,
        "deadline": NOW + 570,
        "timing": {"deadline": 600, "settle": 5, "drainTimeout": 1800},
        "source": {"name": old.name, "generation": 1, "uid": old.uid},
        "successor": {"name": new.name, "generation": 2, "uid": new.uid},
        "template": {"name": "sample", "version": "v2"},
        "manifest": manifest("nogoo9-sample:1.1"),
        "phase": phase,
        "readySeen": true,
        "readyLosses": 0,
    })
}

/// The operation that the planner wants stored first, as it stands then: what is measured is the
/// decision behind it.
fn shown(first: &Plan) -> Option<Operation> {
    match first {
        Plan::Write(write) => match &**write {
            Write::PutOperation(operation) => Some((*operation).clone()),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    let (old, mut new) = (view("dev", "1", 1, true), view("dev", "2", 2, true));
    new.upgrade_of = Some(UpgradeOf {
        operation: "op-1".to_owned(),
        source_uid: old.uid.clone(),
    });
    let sessions = Sessions {
        version: 1,
        active: Some(new.uid.clone()),
        sessions: [(old.uid.clone(), 3)].into(),
        ..Sessions::default()
    };
    let proxies = [ProxyReport {
        proxy: "edge-0".to_owned(),
        answer: Some(sessions),
    }];
    let starting = record(Some(upgrade("side-by-side", &json!({"is": "starting"}))));
    let draining = record(Some(upgrade(
        "side-by-side",
        &json!({"is": "committed", "at": NOW - 20}),
    )));
    let quiescing = json!({"is": "quiescing", "at": NOW - 2});
    let quiescing = record(Some(upgrade("recreate", &quiescing)));
    let at_rest = record(None);
    let both = [old, new];
    let alone = both.get(..1).unwrap_or_default();
    let done: fn(&Plan) -> bool = |plan| *plan == Plan::Done;
    let waits: fn(&Plan) -> bool = |plan| matches!(plan, Plan::Wait { .. });
    let writes: fn(&Plan) -> bool = |plan| matches!(plan, Plan::Write(_));
    let cases: [(&str, &Record, &[PodView], _); 4] = [
        ("at-rest", &at_rest, alone, done),
        ("commit", &starting, &both, writes),
        ("drain", &draining, &both, waits),
        ("replace", &quiescing, &both, writes),
    ];
    for (name, record, pods, expected) in cases {
        let unshown = Observed {
            record,
            pods,
            probes: &[],
            proxies: &proxies,
            operation: None,
            refused: None,
        };
        let shown = shown(&plan(&unshown, NOW));
        let observed = Observed {
            operation: shown.as_ref(),
            ..unshown
        };
        let planned = plan(&observed, NOW);
        assert!(
            expected(&planned),
            "{name} measures something else: {planned:?}"
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(plan(black_box(&observed), NOW)));
        });
    }
    group.finish();
}
