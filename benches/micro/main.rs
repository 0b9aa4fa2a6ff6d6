//! What every request and every pod event costs, in nanoseconds, through the public surfaces of the
//! proxy and of the model: the same functions that the binaries call, with the binaries' allocator.
//!
//! `make bench-micro` runs them all; `cargo bench -p nogoo9-benches -- table` those of one name.

mod fixture;
mod gate;
mod headers;
mod plan;
mod route;
mod select;
mod sessions;
mod table;

use criterion::Criterion;
use std::time::Duration;

/// The proxy's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Short: there are some thirty of them, and what is told apart here are factors, not percents.
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1200))
        .sample_size(30)
        .configure_from_args();
    route::bench(&mut criterion);
    table::bench(&mut criterion);
    gate::bench(&mut criterion);
    headers::bench(&mut criterion);
    select::bench(&mut criterion);
    plan::bench(&mut criterion);
    sessions::bench(&mut criterion);
    criterion.final_summary();
}
