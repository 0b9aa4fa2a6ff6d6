//! What is open, with 0, 1,000 and 100,000 sockets elsewhere: entering a request, a pod's event and
//! control's question must cost what that one workspace costs.

use criterion::{BenchmarkId, Criterion};
use nogoo9_proxy::sessions::{End, Entered, Kind, Sessions};
use nogoo9_proxy::tunnel::frames::Frames;
use std::hint::black_box;
use std::sync::Arc;

/// How many sockets are open in other workspaces, ten in each.
const ELSEWHERE: [usize; 3] = [0, 1_000, 100_000];
/// How many are open in the workspace that is looked at.
const HERE: usize = 10;

/// Sockets of other workspaces.
fn crowd(sessions: &Sessions, size: usize) -> Vec<Entered> {
    let enter = |number: usize| {
        let id: Arc<str> = Arc::from(format!("ws-{:05}", number / 10));
        let pod: Arc<str> = Arc::from(format!("7d8e2a34-90ab-4c1d-8e5f-{:012}", number / 10));
        sessions.enter(&id, &pod, Kind::Socket)
    };
    (0..size).map(enter).collect()
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sessions");
    let (here, pod): (Arc<str>, Arc<str>) = (Arc::from("here"), Arc::from("the-pod-s-uid"));
    for size in ELSEWHERE {
        let sessions = Sessions::new();
        let elsewhere = crowd(&sessions, size);
        group.bench_with_input(
            BenchmarkId::new("enter-and-leave", size),
            &size,
            |bencher, _| {
                bencher.iter(|| sessions.enter(black_box(&here), &pod, Kind::Request));
            },
        );
        let own: Vec<Entered> = (0..HERE)
            .map(|_| sessions.enter(&here, &pod, Kind::Socket))
            .collect();
        group.bench_with_input(BenchmarkId::new("counts", size), &size, |bencher, _| {
            bencher.iter(|| black_box(sessions.to_wire("here")));
        });
        group.bench_with_input(BenchmarkId::new("pod-event", size), &size, |bencher, _| {
            // After the first time there is none left to end: what is measured is the search.
            bencher.iter(|| black_box(sessions.end_pod("here", &pod, End::Restart)));
        });
        assert_eq!(sessions.count(Kind::Socket), size + HERE);
        drop((own, elsewhere));
        assert_eq!(sessions.count(Kind::Socket), 0);
    }
    // What following the frames of a socket costs for each read.
    let mut read = Vec::new();
    while read.len() < 64 * 1024 {
        read.extend_from_slice(&[0x82, 126, 4, 0]);
        read.extend_from_slice(&[7; 1024]);
    }
    let mut frames = Frames::new();
    group.bench_function("frames-of-64-KiB", |bencher| {
        bencher.iter(|| frames.feed(black_box(&read)));
    });
    group.finish();
}
