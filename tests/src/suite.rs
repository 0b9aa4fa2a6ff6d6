//! Runs scenarios on one shared site, and asserts that the site leaves nothing behind.
//!
//! libtest has no place for what a whole file shares and no hook for its end, so a suite is a
//! program of its own. It prints and filters as libtest does: `cargo test --test access -- cookies`.

use crate::{Options, Site};
use anyhow::anyhow;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest scenario, unless a suite says otherwise.
const LIMIT: Duration = Duration::from_secs(240);

type Run = Box<dyn FnOnce(Arc<Site>) -> BoxFuture<'static, anyhow::Result<()>> + Send>;

/// One scenario. Scenarios of a suite run side by side on the same site, so each uses workspaces and
/// templates of its own.
pub struct Scenario {
    name: &'static str,
    run: Run,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Scenario {
    /// A scenario with the name that it is reported by.
    pub fn new<F>(name: &'static str, run: impl FnOnce(Arc<Site>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        Self {
            name,
            run: Box::new(|site| Box::pin(run(site))),
        }
    }
}

/// A suite under construction.
#[derive(Debug)]
pub struct Suite {
    options: Options,
    parallel: usize,
    limit: Duration,
    scenarios: Vec<Scenario>,
}

impl Suite {
    /// On a site with these options, two scenarios at a time.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            parallel: 2,
            limit: LIMIT,
            scenarios: Vec::new(),
        }
    }

    /// With that many scenarios at a time.
    #[must_use]
    pub fn parallel(self, parallel: usize) -> Self {
        Self { parallel, ..self }
    }

    /// With that much time for each scenario.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// With one more scenario.
    #[must_use]
    pub fn scenario<F>(
        mut self,
        name: &'static str,
        run: impl FnOnce(Arc<Site>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.scenarios.push(Scenario::new(name, run));
        self
    }

    /// Runs what the command line asks for.
    #[must_use]
    pub fn main(mut self) -> ExitCode {
        let args: Vec<String> = std::env::args().skip(1).collect();
        if args.iter().any(|arg| arg == "--list") {
            for scenario in &self.scenarios {
                say(&format!("{}: test", scenario.name));
            }
            return ExitCode::SUCCESS;
        }
        let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
        if !filters.is_empty() {
            self.scenarios
                .retain(|scenario| filters.iter().any(|filter| scenario.name.contains(*filter)));
        }
        if self.scenarios.is_empty() {
            return ExitCode::SUCCESS;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.run()),
            Err(error) => {
                say(&format!("no runtime: {error}"));
                ExitCode::FAILURE
            }
        }
    }

    async fn run(self) -> ExitCode {
        say(&format!("\nrunning {} scenarios", self.scenarios.len()));
        let begin = Instant::now();
        let site = match Site::up(self.options).await {
            Ok(site) => Arc::new(site),
            Err(error) => {
                say(&format!("FAILED: the site does not start: {error:#}"));
                return ExitCode::FAILURE;
            }
        };
        let results: Vec<bool> = stream::iter(self.scenarios)
            .map(|scenario| run_one(scenario, Arc::clone(&site), self.limit))
            .buffer_unordered(self.parallel)
            .collect()
            .await;
        let mut failed = results.iter().filter(|passed| !**passed).count();
        let stopped = match Arc::try_unwrap(site) {
            Ok(site) => site.stop().await,
            Err(_) => Err(anyhow!("a scenario still holds the site")),
        };
        failed += usize::from(!report(
            "ends in order and leaves no process behind",
            &stopped,
            "",
        ));
        let word = if failed == 0 { "ok" } else { "FAILED" };
        let took = begin.elapsed().as_secs_f64();
        say(&format!(
            "\nresult: {word}. {} passed; {failed} failed; {took:.1} s\n",
            results.len() + 1 - failed
        ));
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

async fn run_one(scenario: Scenario, site: Arc<Site>, limit: Duration) -> bool {
    // A task of its own: a failed assertion ends the scenario, not the suite.
    let task = tokio::spawn(tokio::time::timeout(
        limit,
        (scenario.run)(Arc::clone(&site)),
    ));
    let result = match task.await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(anyhow!("not done within {limit:?}")),
        Err(panic) => Err(anyhow!("{panic}")),
    };
    let state = if result.is_err() {
        site.dump().await
    } else {
        String::new()
    };
    report(scenario.name, &result, &state)
}

fn report(name: &str, result: &anyhow::Result<()>, state: &str) -> bool {
    match result {
        Ok(()) => say(&format!("test {name} ... ok")),
        Err(error) => say(&format!("test {name} ... FAILED\n{error:?}\n{state}")),
    }
    result.is_ok()
}

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn say(line: &str) {
    println!("{line}");
}
