//! The sample workspace as a program.

use std::process::ExitCode;

use nogoo9_local::sample::{self, Config};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_ansi(false).init();
    match start() {
        Ok(code) => code,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> anyhow::Result<ExitCode> {
    let config = Config::from_lookup(|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    Ok(runtime.block_on(sample::run(config))?)
}
