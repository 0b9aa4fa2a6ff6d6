//! Host and path to a place.

use crate::fixture::router;
use criterion::Criterion;
use std::hint::black_box;

pub(crate) fn bench(criterion: &mut Criterion) {
    let router = router();
    let mut group = criterion.benchmark_group("route");
    let cases = [
        ("host", "ws-00500.ws.example.org", "/files/src/main.rs"),
        ("host-upper-case", "WS-00500.WS.Example.org:443", "/"),
        (
            "path",
            "console.example.org",
            "/route/ws-00500/files/src/main.rs",
        ),
        ("ours", "ws-00500.ws.example.org", "/.nogoo9/status"),
        ("control", "console.example.org", "/api/v1/workspaces"),
        ("foreign-host", "elsewhere.example.com", "/"),
    ];
    for (name, host, path) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let target = router.target(black_box(host), black_box(path));
                black_box(&target);
            });
        });
    }
    group.finish();
}
