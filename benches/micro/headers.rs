//! Header hygiene: what is taken out of a browser's request and put in for the pod, and what an
//! answer may keep.

use crate::gate::{Edge, HOST};
use criterion::{BatchSize, Criterion};
use nogoo9_proxy::headers::{Mapping, Origin, from_pod, towards_control, towards_pod};
use pingora::http::ResponseHeader;
use std::hint::black_box;

/// An answer of a pod that signs somebody in and sends them on.
fn answer() -> pingora::Result<ResponseHeader> {
    let mut answer = ResponseHeader::build(302, None)?;
    answer.append_header("Location", "/dashboard?tab=files")?;
    answer.append_header("Set-Cookie", "sid=8f3a; Path=/; HttpOnly; SameSite=Lax")?;
    answer.append_header("Set-Cookie", "theme=dark; Domain=ws.example.org; Path=/ui")?;
    answer.append_header("Content-Type", "text/html; charset=utf-8")?;
    answer.append_header("Cache-Control", "no-store")?;
    Ok(answer)
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let edge = Edge::new(1);
    let (request, caller, auth) = (edge.request(), edge.caller(), edge.auth());
    let origin = Origin {
        host: HOST,
        scheme: "https",
        client: "203.0.113.9".parse().ok(),
    };
    let mut group = criterion.benchmark_group("headers");
    group.bench_function("towards-pod", |bencher| {
        let target = request.raw_path();
        bencher.iter(|| {
            let request = black_box(&request);
            towards_pod(request, request, target, auth, origin, Some(&caller), None)
        });
    });
    group.bench_function("towards-control", |bencher| {
        bencher.iter_batched_ref(
            || request.clone(),
            |request| black_box(towards_control(request, origin)).is_ok(),
            BatchSize::SmallInput,
        );
    });
    let Ok(answer) = answer() else { return };
    let mapping = Mapping {
        prefix: "/route/dev",
        stripped: true,
        shared: true,
        host: "console.example.org",
        pod: "10.42.3.17:3000",
    };
    for (name, mapping) in [("from-pod-host", None), ("from-pod-path", Some(mapping))] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched_ref(
                || answer.clone(),
                |answer| black_box(from_pod(answer, mapping)).is_ok(),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}
