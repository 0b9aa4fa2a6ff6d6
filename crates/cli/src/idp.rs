//! `nogoo9 idp` (hidden): the development identity provider as a process of its own, over
//! https, for a cluster whose pods cannot reach this machine's loopback.

use std::{io::Write as _, net::SocketAddr, path::PathBuf};

use anyhow::Context as _;
use nogoo9_local::{
    idp::{Client, Idp, IdpConfig, Pki},
    supervisor::CLIENT_ID,
};
use nogoo9_runtime::{
    listen::bind,
    shutdown::Shutdown,
    telemetry::{LogFormat, Telemetry},
};

/// Flags of `nogoo9 idp`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IdpArgs {
    /// Address to listen on: loopback, or within 198.18.0.0/15, which is never routed.
    /// Its URL is the issuer. Port 0: a free one.
    #[arg(long, value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Folder of its keys and state; `nogoo9 idp` at the same folder signs as before.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Folder of its certificate and authority, made if they are not there; clients trust
    /// `ca.crt` in it. [default: DIR/tls]
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Where people may be sent back to after signing in; may be repeated.
    #[arg(long, value_name = "URL", required = true)]
    redirect_url: Vec<String>,
    /// Audience of access tokens: the MCP endpoint.
    #[arg(long, value_name = "URL")]
    audience: String,
    /// Id of the one application.
    #[arg(long, value_name = "ID", default_value = CLIENT_ID)]
    client_id: String,
    /// What to log.
    #[arg(long, value_name = "FILTER", default_value = "info")]
    log: String,
}

const EXAMPLES: &str = "\
Prints one line of JSON once it serves: issuer, and the file of its authority.

Example:
  nogoo9 idp --listen 198.18.0.1:0 --data-dir idp --audience http://localhost:9009/mcp \\
      --redirect-url http://localhost:9009/auth/callback";

pub(crate) fn run(args: &IdpArgs) -> anyhow::Result<()> {
    Telemetry {
        filter: args.log.clone(),
        format: LogFormat::Text,
    }
    .install()?;
    let tls_dir = match &args.tls_dir {
        Some(dir) => dir.clone(),
        None => args.data_dir.join("tls"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let shutdown = Shutdown::listen().context("cannot listen for signals")?;
        let listener = bind("listen", args.listen).await?;
        let addr = listener.local_addr().context("own address")?;
        let issuer = format!("https://{addr}");
        let idp = Idp::open(IdpConfig {
            data_dir: args.data_dir.clone(),
            issuer: issuer.clone(),
            clients: vec![Client {
                id: args.client_id.clone(),
                redirect_uris: args.redirect_url.clone(),
            }],
            audience: args.audience.clone(),
        })?;
        let pki = Pki::ensure_for(&tls_dir, "nogoo9 identity provider", &[addr.ip()])
            .with_context(|| format!("--tls-dir {}", tls_dir.display()))?;
        let ready = serde_json::json!({
            "issuer": issuer,
            "ca": std::path::absolute(tls_dir.join("ca.crt"))?,
        });
        writeln!(std::io::stdout().lock(), "{ready}")?;
        let force = shutdown.force.clone();
        tokio::select! {
            ended = idp.serve_tls(listener, &pki, shutdown.graceful) => ended.map_err(Into::into),
            () = force.cancelled_owned() => Ok(()),
        }
    })
}
