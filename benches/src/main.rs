//! `nogoo9-bench`: runs the transition harness and writes `benches/REPORT.md` from what it and the
//! micro-benchmarks measured.
//!
//! The harness is `nogoo9 demo`: an open loop over a whole local mode, so what is measured is what
//! users run. This program gives it the benches' numbers, keeps its JSON, draws it, and states on
//! which machine and commit that was.

mod chart;
mod machine;
mod markdown;
mod micro;
mod transitions;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::Parser;

use machine::Machine;
use transitions::Transitions;

/// Runs the transition harness and writes the report of all benches.
#[derive(Debug, Parser)]
#[command(name = "nogoo9-bench")]
struct Args {
    /// Where the report, and beside it the folder `results`, are written.
    #[arg(long, value_name = "DIR", default_value = "benches")]
    out: PathBuf,
    /// Where criterion left its results (its CRITERION_HOME); without it the report has none.
    #[arg(long, value_name = "DIR")]
    micro: Option<PathBuf>,
    /// What the suite `smooth` kept of a workspace beside a hostile one; without it the report has
    /// nothing about it.
    #[arg(long, value_name = "FILE")]
    neighbour: Option<PathBuf>,
    /// Draws the JSON of an earlier `nogoo9 demo --json FILE` instead of running one.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// A tenth of the numbers: to see that everything works, not to publish.
    #[arg(long, conflicts_with = "from")]
    quick: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    // Before the load, which would show in it.
    let machine = Machine::observe();
    let results = args.out.join("results");
    std::fs::create_dir_all(&results)
        .with_context(|| format!("--out {}: cannot be made", results.display()))?;
    let measured = results.join("transitions.json");
    match &args.from {
        Some(file) => {
            std::fs::copy(file, &measured)
                .with_context(|| format!("--from {}: cannot be copied", file.display()))?;
        }
        None => demo(args.quick, &measured)?,
    }
    let transitions = Transitions::read(&measured)?;
    transitions::compact(&measured)?;
    let micro = match &args.micro {
        Some(folder) => micro::read(folder)?,
        None => Vec::new(),
    };
    let neighbour = match &args.neighbour {
        Some(file) => std::fs::read_to_string(file).with_context(|| {
            let file = file.display();
            format!("--neighbour {file}: cannot be read; `make bench` makes it")
        })?,
        None => String::new(),
    };
    let estimates = serde_json::to_string_pretty(&micro).context("the estimates are not JSON")?;
    write(&results.join("micro.json"), &estimates)?;
    write(&results.join("transitions.svg"), &chart::draw(&transitions))?;
    let report = args.out.join("REPORT.md");
    write(
        &report,
        &markdown::report(
            &machine,
            args.from.is_some(),
            &transitions,
            &neighbour,
            &micro,
        ),
    )?;
    say(&format!("written: {}", report.display()));
    if transitions.problems.is_empty() {
        return Ok(());
    }
    bail!("somebody noticed:\n  {}", transitions.problems.join("\n  "))
}

/// Plays all acts on an instance of their own. Problems that users would have had are in the JSON;
/// without JSON there is nothing to report.
fn demo(quick: bool, json: &Path) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("this program's own path is unknown")?;
    let nogoo9 = own.with_file_name("nogoo9");
    // Whatever an earlier run left.
    if json.exists() {
        std::fs::remove_file(json)
            .with_context(|| format!("{} cannot be replaced", json.display()))?;
    }
    let mut command = Command::new(&nogoo9);
    command.args([
        "demo",
        "--mode",
        "edge,side-by-side,recreate,bulk",
        "--requests",
        "0",
    ]);
    command.args(if quick {
        [
            "--upgrades=1",
            "--recreates=1",
            "--workspaces=2",
            "--rate=200",
            "--connections=16",
        ]
    } else {
        [
            "--upgrades=8",
            "--recreates=5",
            "--workspaces=10",
            "--rate=800",
            "--connections=64",
        ]
    });
    let status = command.arg("--json").arg(json).status().with_context(|| {
        format!(
            "{} cannot be started; `make build` makes it",
            nogoo9.display()
        )
    })?;
    if !status.success() && !json.exists() {
        bail!("the transition harness ended with {status} and measured nothing");
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}

#[allow(clippy::print_stderr, reason = "progress of a command")]
fn say(line: &str) {
    eprintln!("{line}");
}

#[allow(clippy::print_stderr, reason = "the end of a command")]
fn complain(line: &str) {
    eprintln!("error: {line}");
}
