//! `nogoo9 up`.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context as _;
use nogoo9_local::supervisor::{
    DEFAULT_LISTEN, DataDir, Part, Programs, UpOptions, check_listen, up,
};
use nogoo9_runtime::{
    config::Problems,
    shutdown::Shutdown,
    telemetry::{LogFormat, Telemetry},
};

use crate::{DataDirArg, wrong};

/// What of this process's own log reaches the terminal, and what its file.
/// kube logs each refused connection as an error, also those of a server that is just starting.
const TERMINAL_FILTER: &str = "warn,kube_client=off";
const FILE_FILTER: &str = "info";

/// Flags of `nogoo9 up`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
    /// Use a new temporary data folder, and remove it at the end.
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
    /// Address of the one public listener; loopback only. Port 0: a free one, the same
    /// again at the next start. [default: 127.0.0.1:9009]
    #[arg(long, env = "NOGOO9_LISTEN", value_name = "IP:PORT")]
    listen: Option<String>,
    /// Write URLs, files and process ids to FILE (JSON) once everything is ready. It is
    /// removed when stopping begins.
    #[arg(long, env = "NOGOO9_READY_FILE", value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Run on this cluster instead of the embedded mini-cluster. Its pods must be
    /// reachable from here.
    #[arg(long, env = "NOGOO9_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What control and proxy log, as in `info,nogoo9_proxy=debug`; to the files in
    /// DIR/logs, warnings to the terminal too. [default: info]
    #[arg(long, env = "NOGOO9_LOG", value_name = "FILTER")]
    log: Option<String>,
    /// A further flag for control, as in `--control-flag=--admin-sub=alice`; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    control_flag: Vec<String>,
    /// A further flag for the proxy, as in `--proxy-flag=--hold-timeout=60`; may be repeated.
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    proxy_flag: Vec<String>,
    /// PEM file with authorities that may vouch, beside the public ones, for hosts of client id
    /// metadata documents: the https addresses that MCP clients give as their client_id.
    #[arg(long, env = "NOGOO9_CLIENT_CA_FILE", value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// Do not start this part, but print how to: for running it in a debugger, or with other
    /// flags; may be repeated.
    #[arg(long, value_name = "PART", value_enum)]
    without: Vec<WithoutPart>,
}

/// What `--without` takes.
#[derive(Clone, Copy, clap::ValueEnum)]
enum WithoutPart {
    /// nogoo9-control
    Control,
    /// nogoo9-proxy
    Proxy,
}

const EXAMPLES: &str = "\
Starts, on loopback only: an embedded Kubernetes API server, a kubelet that runs pods as
processes, a development identity provider (no passwords), control and proxy. Everything
ends with this process, even when it is killed; a new start resumes where it was.

Examples:
  nogoo9 up
  nogoo9 up --listen 127.0.0.1:8080 --data-dir ./state
  nogoo9 up --ephemeral --listen 127.0.0.1:0 --ready-file ready.json";

pub(crate) fn run(args: &UpArgs) -> anyhow::Result<()> {
    if !cfg!(target_os = "linux") {
        anyhow::bail!(
            "local mode runs pods as Linux processes; on this system, run it in a Linux \
             machine, or install nogoo9 on a cluster"
        );
    }
    let mut problems = Problems::default();
    let listen: Option<SocketAddr> =
        problems.addr("listen", args.listen.as_deref(), DEFAULT_LISTEN);
    let log = args.log.as_deref().unwrap_or(FILE_FILTER);
    if let Err(reason) = Telemetry::check_filter(log) {
        problems.add("log", format!("`{log}` is no log filter: {reason}"));
    }
    if let Some(path) = &args.kubeconfig
        && let Err(error) = std::fs::File::open(path)
    {
        let message = format!(
            "{} cannot be read: {error}; name an existing file",
            path.display()
        );
        problems.add("kubeconfig", message);
    }
    let client_ca = args.client_ca_file.as_ref().and_then(|path| {
        let read = std::fs::read(path).map_err(|error| {
            let message = format!(
                "{} cannot be read: {error}; name an existing PEM file",
                path.display()
            );
            problems.add("client-ca-file", message);
        });
        read.ok()
    });
    let listen = match listen {
        Some(listen) if problems.list().is_empty() => listen,
        _ => return Err(wrong(problems).into()),
    };
    check_listen(listen)?;

    let me = std::env::current_exe().context("cannot find out where nogoo9 itself is")?;
    let options = UpOptions {
        listen,
        // The working folder of later readers may be another.
        ready_file: args
            .ready_file
            .as_ref()
            .map(std::path::absolute)
            .transpose()?,
        kubeconfig: args.kubeconfig.clone(),
        log: log.to_owned(),
        control_flags: args.control_flag.clone(),
        proxy_flags: args.proxy_flag.clone(),
        client_ca,
        without: args
            .without
            .iter()
            .map(|part| match part {
                WithoutPart::Control => Part::Control,
                WithoutPart::Proxy => Part::Proxy,
            })
            .collect(),
        programs: Programs::beside(&me)?,
    };
    let dir = if args.ephemeral {
        DataDir::ephemeral()?
    } else {
        DataDir::open(&args.data_dir.resolve()?)?
    };
    let terminal = Telemetry {
        filter: TERMINAL_FILTER.to_owned(),
        format: LogFormat::Text,
    };
    terminal.install_with_file(dir.log("up")?, FILE_FILTER)?;

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let shutdown = Shutdown::listen().context("cannot listen for signals")?;
        // On the heap: it holds every part's state.
        Box::pin(up(options, dir, shutdown)).await?;
        Ok(())
    })
}
