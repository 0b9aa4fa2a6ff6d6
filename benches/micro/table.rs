//! The routing table with 100, 10,000 and 100,000 workspaces: a lookup must not depend on their number,
//! and one pod's event must cost what its own workspace costs.

use crate::fixture::{pod, view};
use criterion::{BatchSize, BenchmarkId, Criterion};
use nogoo9_model::pod::PodView;
use nogoo9_proxy::table::{Table, Writer};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many workspaces the table knows.
const SIZES: [usize; 3] = [100, 10_000, 100_000];
/// The longest hold, for which a workspace without pods is remembered.
const REMEMBER: Duration = Duration::from_secs(30);

fn id(number: usize) -> String {
    format!("ws-{number:06}")
}

/// A table with one ready pod in each of `size` workspaces.
fn filled(size: usize, now: Instant) -> (Table, Writer) {
    let table = Table::new();
    let mut writer = Writer::new(table.clone(), REMEMBER);
    for number in 0..size {
        let pod = view(&id(number), &number.to_string(), 1, true);
        writer.applied(Arc::new(pod), now);
    }
    table.complete();
    (table, writer)
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let now = Instant::now();
    let mut group = criterion.benchmark_group("table");
    for size in SIZES {
        let (table, mut writer) = filled(size, now);
        let middle = id(size / 2);
        assert_eq!(table.len(), size);
        assert!(
            table
                .get(&middle)
                .is_some_and(|w| w.route().active().is_some())
        );
        group.bench_with_input(BenchmarkId::new("lookup", size), &size, |bencher, _| {
            bencher.iter(|| {
                let workspace = table.get(black_box(&middle));
                let address = workspace.map(|w| w.route().active().map(|pod| pod.address));
                black_box(address)
            });
        });
        group.bench_with_input(BenchmarkId::new("miss", size), &size, |bencher, _| {
            bencher.iter(|| black_box(table.get(black_box("nobody-s-workspace")).is_none()));
        });
        // The event that a switch consists of: the newer of two pods becomes, or stops being, Ready.
        let successor = |ready| -> Arc<PodView> { Arc::new(view(&middle, "successor", 2, ready)) };
        let (ready, unready) = (successor(true), successor(false));
        let switched = writer.applied(ready.clone(), now);
        assert!(
            switched.iter().any(|noted| noted.switched.is_some()),
            "the newer pod takes over: {switched:?}"
        );
        let mut flip = true;
        group.bench_with_input(BenchmarkId::new("update", size), &size, |bencher, _| {
            bencher.iter(|| {
                flip = !flip;
                let pod = if flip { &ready } else { &unready };
                black_box(writer.applied(black_box(pod.clone()), now))
            });
        });
        // A pod comes and goes: what a spawn and a delete cost.
        let passing = Arc::new(view(&middle, "passing", 3, true));
        group.bench_with_input(
            BenchmarkId::new("create-and-delete", size),
            &size,
            |bencher, _| {
                bencher.iter(|| {
                    writer.applied(passing.clone(), now);
                    black_box(writer.deleted(&passing.uid, now))
                });
            },
        );
    }
    // What a watch event costs before the table sees it.
    let object = pod("ws-00500", "event", 2, true);
    group.bench_function("read-pod", |bencher| {
        bencher.iter_batched_ref(
            || object.clone(),
            |pod| black_box(PodView::from_pod(pod)),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}
