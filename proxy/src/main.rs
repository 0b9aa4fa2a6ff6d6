//! `nogoo9-proxy`: see the library for what it does.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    nogoo9_runtime::start::<nogoo9_proxy::args::Args>(nogoo9_proxy::server::run)
}
