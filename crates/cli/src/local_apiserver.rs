//! `nogoo9 local-apiserver` (hidden): the embedded Kubernetes API server as a process.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context as _;
use nogoo9_local::apiserver::{ApiServerConfig, DEFAULT_NODE_GRACE, Tokens, bind};
use nogoo9_runtime::{
    shutdown::Shutdown,
    telemetry::{LogFormat, Telemetry},
};

/// Flags of `nogoo9 local-apiserver`.
#[derive(clap::Args)]
pub(crate) struct LocalApiserverArgs {
    /// Folder of its state.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Address to listen on.
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    /// JSON file with the bearer tokens `admin`, `control` and `proxy`.
    #[arg(long, value_name = "FILE")]
    tokens_file: PathBuf,
    /// How many seconds a kubelet may say nothing before its node counts as lost.
    #[arg(
        long,
        env = "NOGOO9_NODE_GRACE_SECONDS",
        value_name = "SECONDS",
        default_value_t = DEFAULT_NODE_GRACE.as_secs()
    )]
    node_grace_seconds: u64,
    /// What to log.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
}

#[derive(serde::Deserialize)]
struct TokensFile {
    admin: String,
    control: String,
    proxy: String,
}

pub(crate) fn run(args: &LocalApiserverArgs) -> anyhow::Result<()> {
    Telemetry {
        filter: args.log.clone(),
        format: LogFormat::Text,
    }
    .install()?;
    let file = args.tokens_file.display();
    let bytes = std::fs::read(&args.tokens_file)
        .with_context(|| format!("--tokens-file {file}: cannot be read"))?;
    // Without the parser's message, which quotes values.
    let tokens: TokensFile = serde_json::from_slice(&bytes).map_err(|_| {
        anyhow::anyhow!("--tokens-file {file}: holds no admin, control and proxy token")
    })?;
    let config = ApiServerConfig {
        data_dir: args.data_dir.clone(),
        listen: args.listen,
        tokens: Tokens {
            admin: tokens.admin,
            control: tokens.control,
            proxy: tokens.proxy,
        },
    };
    let node_grace = Duration::from_secs(args.node_grace_seconds);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let shutdown = Shutdown::listen().context("cannot listen for signals")?;
        let force = shutdown.force.clone();
        let server = bind(config).await?.with_node_grace(node_grace);
        tokio::select! {
            () = Box::pin(server.serve(shutdown.graceful)) => {}
            () = force.cancelled_owned() => {}
        }
        Ok(())
    })
}
