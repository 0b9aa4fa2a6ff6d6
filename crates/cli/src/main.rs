//! `nogoo9`: the command line. Local mode, tokens, status, and the small hidden commands
//! that local mode starts itself by.

mod demo;
mod idp;
mod local_apiserver;
mod status;
mod token;
mod up;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use nogoo9_local::{shim, supervisor::default_data_dir};
use nogoo9_runtime::{
    config::{ConfigError, Problems},
    main_exit,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The edge in front of cloud workspaces, and everything around it on your own machine.
#[derive(Parser)]
#[command(name = "nogoo9", version, propagate_version = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  nogoo9 up                       run it all; then open http://localhost:9009
  nogoo9 up --ephemeral           the same, and forget everything at the end
  nogoo9 token alice              a bearer token for curl or an MCP client
  nogoo9 demo                     upgrades under load, and a table of what users saw
  nogoo9 status                   what runs, and which workspaces there are

  curl -H \"Authorization: Bearer $(nogoo9 token alice)\" \\
       http://localhost:9009/api/v1/workspaces";

#[derive(Subcommand)]
enum Command {
    /// Run everything on this machine: a mini-cluster, an identity provider, control, proxy.
    Up(up::UpArgs),
    /// Print a bearer token of the development identity provider.
    Token(token::TokenArgs),
    /// Upgrade workspaces under load, one by one and many at once, and print what users saw.
    Demo(demo::DemoArgs),
    /// Show what runs and which workspaces there are.
    Status(status::StatusArgs),
    /// Run a program that ends with its parent.
    #[command(hide = true, disable_help_flag = true)]
    Guard(Rest),
    /// Be the parent of one container of a pod.
    #[command(hide = true, disable_help_flag = true)]
    PodShim(Rest),
    /// Run the embedded Kubernetes API server.
    #[command(hide = true)]
    LocalApiserver(local_apiserver::LocalApiserverArgs),
    /// Run the development identity provider alone, over https, for a test cluster.
    #[command(hide = true)]
    Idp(idp::IdpArgs),
}

/// Everything that follows, untouched: it belongs to another program.
#[derive(clap::Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// The data folder, as all commands name it.
#[derive(clap::Args, Clone, Debug)]
struct DataDirArg {
    /// Folder of the local instance: its state, keys, kubeconfig and logs.
    /// [default: $XDG_DATA_HOME/nogoo9, else ~/.local/share/nogoo9]
    #[arg(long, env = "NOGOO9_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDirArg {
    fn resolve(&self) -> anyhow::Result<PathBuf> {
        let found = self.data_dir.clone().or_else(default_data_dir);
        found.ok_or_else(|| {
            let mut problems = Problems::default();
            problems.add(
                "data-dir",
                "is missing, and without HOME there is no default; set it, as in: \
                 --data-dir /var/tmp/nogoo9",
            );
            wrong(problems).into()
        })
    }
}

/// The error that reports these mistakes.
fn wrong(problems: Problems) -> ConfigError {
    match problems.finish(None::<()>) {
        Err(error) => error,
        Ok(()) => ConfigError::Silent,
    }
}

fn main() -> ExitCode {
    // These two become other programs, which must see their arguments byte by byte; so
    // they are told apart before clap reads anything.
    let mut args = std::env::args_os();
    let rest = args.by_ref().skip(1);
    match std::env::args_os()
        .nth(1)
        .as_deref()
        .and_then(|a| a.to_str())
    {
        Some("guard") => return shim::guard(rest.skip(1)),
        Some("pod-shim") => return shim::main(rest.skip(1)),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return main_exit(Err(ConfigError::Usage(error).into())),
    };
    // Installed once for all TLS of this process; only a second call could fail.
    let _already = rustls::crypto::ring::default_provider().install_default();
    match cli.command {
        Command::Up(args) => main_exit(up::run(&args)),
        Command::Token(args) => main_exit(token::run(&args)),
        Command::Demo(args) => main_exit(demo::run(&args)),
        Command::Status(args) => main_exit(status::run(&args)),
        Command::LocalApiserver(args) => main_exit(local_apiserver::run(&args)),
        Command::Idp(args) => main_exit(idp::run(&args)),
        Command::Guard(rest) => shim::guard(rest.args),
        Command::PodShim(rest) => shim::main(rest.args),
    }
}
