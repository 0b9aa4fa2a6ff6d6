//! Which pod is active, which the proxy asks at each event and control before each delete.

use crate::fixture::view;
use criterion::{BenchmarkId, Criterion};
use nogoo9_model::pod::PodView;
use nogoo9_model::select::{active, claimants};
use std::hint::black_box;

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("select");
    // As many pods as: a workspace at rest, one that is upgraded, and a mess to be cleared up.
    for count in [1_u32, 2, 16] {
        let pods: Vec<PodView> = (1..=count)
            .map(|number| view("dev", &number.to_string(), number, number != count))
            .collect();
        group.bench_with_input(BenchmarkId::new("active", count), &pods, |bencher, pods| {
            bencher.iter(|| black_box(active(black_box(pods))));
        });
        group.bench_with_input(
            BenchmarkId::new("claimants", count),
            &pods,
            |bencher, pods| {
                bencher.iter(|| black_box(claimants(black_box(pods))));
            },
        );
    }
    group.finish();
}
