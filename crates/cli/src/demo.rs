//! `nogoo9 demo`: upgrades a workspace again and again while people use it, and prints
//! what they saw.
//!
//! Nothing here is special to the demo: it signs in as a development user, speaks the
//! JSON API, edits a template the way `kubectl` would, and sends its load through the
//! same proxy as any browser. It fails if anybody noticed anything.

mod api;
mod instance;
mod report;
mod script;
mod template;
mod users;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nogoo9_local::idp;
use nogoo9_runtime::kube::{self, Retry};
use nogoo9_runtime::shutdown::Shutdown;
use tokio_util::sync::CancellationToken;

use api::Api;
use instance::Instance;
use report::DemoReport;
use script::Script;
use template::DemoTemplate;

/// The user whose workspace it is.
const USER: &str = "alice";
/// Life of the user's token, which must outlast the demo.
const TOKEN_LIFE: Duration = Duration::from_secs(3600);

/// Flags of `nogoo9 demo`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// How many upgrades, one after the other.
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    upgrades: u32,
    /// How many keep-alive connections the HTTP load uses.
    #[arg(long, default_value_t = 64, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// The least number of requests: after the upgrades the load goes on until then.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    requests: u64,
    /// Requests a second over all connections; 0: as fast as the answers come.
    #[arg(long, default_value_t = 1000, value_name = "N",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    rate: u32,
    /// How many sockets are held open at a time, half of them shells.
    #[arg(long, default_value_t = 6, value_name = "N",
          value_parser = clap::value_parser!(u16).range(0..=256))]
    sockets: u16,
    /// Uses the instance that wrote this file (`nogoo9 up --ready-file FILE`) instead of
    /// starting one.
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir")]
    ready_file: Option<PathBuf>,
    /// Where the instance that the demo starts keeps its data; without it, in a temporary
    /// folder that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Also writes everything that was measured to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  nogoo9 demo                              20 upgrades under load, on an instance of its own
  nogoo9 demo --upgrades 3 --requests 5000
  nogoo9 demo --ready-file ready.json      on one that runs: nogoo9 up --ready-file ready.json
  nogoo9 demo --rate 0                     as many requests as the machine can take";

/// Runs the demo; an error if it could not run, or if any user would have noticed.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("cannot start the async runtime")?;
    // On the heap: it holds every part's state.
    runtime.block_on(Box::pin(demo(args)))
}

async fn demo(args: &DemoArgs) -> anyhow::Result<()> {
    let shutdown = Shutdown::listen().context("cannot listen for signals")?;
    let interrupted = &shutdown.graceful;
    let instance = match &args.ready_file {
        Some(file) => Instance::attach(file)?,
        None => unless(interrupted, Instance::start(args.data_dir.as_deref())).await?,
    };
    let work = Box::pin(async {
        let played = play(args, &instance, interrupted).await;
        let stopped = instance.stop().await;
        let report = played?;
        stopped.map(|()| report)
    });
    // A second signal leaves everything as it is; the demo's own instance ends with it.
    let report = unless(&shutdown.force, work).await?;
    if let Some(file) = &args.json {
        let json = serde_json::to_vec_pretty(&report).context("the report is not JSON")?;
        std::fs::write(file, json)
            .with_context(|| format!("--json {}: cannot be written", file.display()))?;
    }
    // A closed pipe is no reason to fail.
    let _ = write!(std::io::stdout().lock(), "\n{report}");
    if report.problems.is_empty() {
        return Ok(());
    }
    bail!("somebody noticed:\n  {}", report.problems.join("\n  "))
}

/// What `work` yields, unless it is interrupted before.
async fn unless<T>(
    interrupted: &CancellationToken,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    tokio::select! {
        result = work => result,
        () = interrupted.cancelled() => Err(anyhow::anyhow!("interrupted")),
    }
}

async fn play(
    args: &DemoArgs,
    instance: &Instance,
    interrupted: &CancellationToken,
) -> anyhow::Result<DemoReport> {
    let ready = &instance.ready;
    let token = idp::mint(
        &ready.data_dir,
        &ready.issuer,
        USER,
        &ready.mcp_url,
        TOKEN_LIFE,
    )?;
    let api = Api::new(&ready.url, &token)?;
    let cluster = kube::connect(Some(&ready.kubeconfig), Retry::On)
        .await?
        .client;
    say(&format!("signed in as {USER} at {}", ready.url));

    let template = DemoTemplate::create(&cluster, &api).await?;
    let id = template.name().to_owned();
    let played = async {
        template.seen().await?;
        let workspace = api.spawn(&id, template.name()).await?;
        say(&format!(
            "workspace {id} is open at {}",
            workspace.address()?
        ));
        let script = Script {
            args,
            api: &api,
            cluster: &cluster,
            token: &token,
            workspace,
        };
        script.play(&template).await
    };
    let played = unless(interrupted, played).await;
    // Also after a failure: somebody else's instance is left as it was.
    let cleared = async {
        api.delete(&id).await?;
        template.delete().await
    }
    .await;
    let report = played?;
    cleared.context("the demo's own workspace and template could not be removed")?;
    Ok(report)
}

/// A line of progress.
fn say(line: &str) {
    // A closed terminal is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
