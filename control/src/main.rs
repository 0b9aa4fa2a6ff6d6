//! `nogoo9-control`: see the library of this package.

use nogoo9_control::config::{Args, Settings};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    nogoo9_runtime::start::<Args>(|settings: Settings| {
        settings.common.telemetry.install()?;
        // An error means that one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?
            .block_on(nogoo9_control::run::run(settings))
    })
}
