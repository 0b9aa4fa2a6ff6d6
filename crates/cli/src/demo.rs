//! `nogoo9 demo`: upgrades workspaces again and again while people use them, and prints what they
//! saw: side by side, by recreation where a volume cannot be shared, and many at once.
//!
//! Nothing here is special to the demo: it signs in as development users, speaks the JSON API,
//! edits a template the way `kubectl` would, and sends its load through the same proxy as any
//! browser. It fails if anybody noticed what they should not.

mod act;
mod api;
mod at_once;
mod edge;
mod instance;
mod one_by_one;
mod report;
mod stage;
mod table;
mod template;
mod users;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use nogoo9_runtime::shutdown::Shutdown;
use tokio_util::sync::CancellationToken;

use act::Act;
use instance::Instance;
use report::{DemoReport, Mode};
use stage::Stage;

/// Flags of `nogoo9 demo`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// What is shown, one after the other.
    #[arg(long, value_enum, value_name = "MODE", value_delimiter = ',',
          default_values_t = [Mode::SideBySide, Mode::Recreate, Mode::Bulk])]
    mode: Vec<Mode>,
    /// How many upgrades side by side, one after the other.
    #[arg(long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    upgrades: u32,
    /// How many upgrades by recreation, one after the other.
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    recreates: u32,
    /// How many workspaces are upgraded at once.
    #[arg(long, default_value_t = 8, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=200))]
    workspaces: u16,
    /// How many of them may be under way at a time.
    #[arg(long, default_value_t = 5, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=50))]
    max_parallel: u16,
    /// How many keep-alive connections the HTTP load uses.
    #[arg(long, default_value_t = 64, value_name = "N",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// The least number of requests in all: after the last upgrade the load goes on until then.
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
  nogoo9 demo                              all three kinds of upgrade, on an instance of its own
  nogoo9 demo --mode recreate              only workspaces with a volume of their own
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
    let _ = write!(std::io::stdout().lock(), "{report}");
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

/// Plays the acts; one that goes wrong is the last.
async fn play(
    args: &DemoArgs,
    instance: &Instance,
    interrupted: &CancellationToken,
) -> anyhow::Result<DemoReport> {
    let stage = Stage::set_up(args, &instance.ready).await?;
    let mut report = DemoReport::default();
    for (number, mode) in args.mode.iter().copied().enumerate() {
        let act = Act::prepare(&stage, mode);
        let last = number + 1 == args.mode.len();
        let missing = args.requests.saturating_sub(report.requests());
        let until = if last { missing } else { 0 };
        let played = unless(interrupted, Box::pin(act.play(until))).await;
        // Also after a failure: somebody else's instance is left as it was.
        let cleared = act.clear_up().await;
        report.add(played.with_context(|| format!("{mode}"))?);
        cleared.context("the demo's own workspaces and template could not be removed")?;
        if !report.problems.is_empty() {
            break;
        }
    }
    Ok(report)
}

/// A line of progress.
fn say(line: &str) {
    // A closed terminal is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
