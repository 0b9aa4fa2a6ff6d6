//! Runs scenarios on one shared site, and asserts that the site leaves nothing behind.
//!
//! libtest has no place for what a whole file shares and no hook for its end, so a suite is a
//! program of its own. It prints and filters as libtest does: `cargo test --test access -- cookies`.

use crate::{Options, Results, Site};
use anyhow::anyhow;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest scenario, unless a suite says otherwise.
const LIMIT: Duration = Duration::from_secs(600);

/// What scenarios run on: a [`Site`], or whatever else a suite needs.
pub trait Ground: Send + Sync + Sized + 'static {
    /// What is known of its state, for failure messages.
    fn dump(&self) -> impl Future<Output = String> + Send;

    /// Ends it, and asserts that nothing is left.
    fn stop(self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl Ground for Site {
    fn dump(&self) -> impl Future<Output = String> + Send {
        Site::dump(self)
    }

    fn stop(self) -> impl Future<Output = anyhow::Result<()>> + Send {
        Site::stop(self)
    }
}

type Run<G> = Box<dyn FnOnce(Arc<G>) -> BoxFuture<'static, anyhow::Result<()>> + Send>;

/// One scenario. Scenarios of a suite run side by side on the same site, so each uses workspaces and
/// templates of its own.
struct Scenario<G> {
    name: &'static str,
    /// Not beside others: it takes away what they stand on.
    alone: bool,
    run: Run<G>,
}

/// A suite under construction.
pub struct Suite<G = Site> {
    ground: BoxFuture<'static, anyhow::Result<G>>,
    parallel: usize,
    limit: Duration,
    scenarios: Vec<Scenario<G>>,
    results: Option<Results>,
}

impl<G> std::fmt::Debug for Suite<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.scenarios.iter().map(|scenario| scenario.name);
        f.debug_list().entries(names).finish()
    }
}

impl Suite {
    /// On a site with these options, two scenarios at a time.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self::on(Site::up(options))
    }
}

impl<G: Ground> Suite<G> {
    /// On whatever this makes, two scenarios at a time.
    #[must_use]
    pub fn on(ground: impl Future<Output = anyhow::Result<G>> + Send + 'static) -> Self {
        Self {
            ground: Box::pin(ground),
            parallel: 2,
            limit: LIMIT,
            scenarios: Vec::new(),
            results: None,
        }
    }

    /// With results that are kept, and shown beside those of other runs.
    #[must_use]
    pub fn results(self, results: Results) -> Self {
        Self {
            results: Some(results),
            ..self
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
        self,
        name: &'static str,
        run: impl FnOnce(Arc<G>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.add(name, false, run)
    }

    /// With one more scenario, which runs after all others, and beside none.
    #[must_use]
    pub fn alone<F>(
        self,
        name: &'static str,
        run: impl FnOnce(Arc<G>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.add(name, true, run)
    }

    fn add<F>(
        mut self,
        name: &'static str,
        alone: bool,
        run: impl FnOnce(Arc<G>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.scenarios.push(Scenario {
            name,
            alone,
            run: Box::new(|ground| Box::pin(run(ground))),
        });
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
            // A part of the suite says nothing about the whole.
            self.results = None;
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
        let order: Vec<&str> = self
            .scenarios
            .iter()
            .map(|scenario| scenario.name)
            .collect();
        let ground = match self.ground.await {
            Ok(ground) => Arc::new(ground),
            Err(error) => {
                say(&format!("FAILED: the site does not start: {error:#}"));
                return ExitCode::FAILURE;
            }
        };
        let (alone, beside): (Vec<_>, Vec<_>) = self
            .scenarios
            .into_iter()
            .partition(|scenario| scenario.alone);
        let mut outcomes = Vec::new();
        for (scenarios, parallel) in [(beside, self.parallel), (alone, 1)] {
            let mut ended = stream::iter(scenarios)
                .map(|scenario| run_one(scenario, Arc::clone(&ground), self.limit))
                .buffer_unordered(parallel);
            while let Some(outcome) = ended.next().await {
                outcomes.push(outcome);
            }
        }
        let mut failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
        let stopped = match Arc::try_unwrap(ground) {
            Ok(ground) => ground.stop().await,
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
            outcomes.len() + 1 - failed
        ));
        if let Some(results) = self.results {
            outcomes.sort_by_key(|outcome| order.iter().position(|name| *name == outcome.name));
            match results.keep(&outcomes) {
                Ok(table) => say(&table),
                Err(error) => {
                    say(&format!("FAILED: results are not kept: {error:#}"));
                    failed += 1;
                }
            }
        }
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

/// What became of a scenario.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Whether it passed.
    pub passed: bool,
    /// How long it took.
    pub took: Duration,
}

async fn run_one<G: Ground>(scenario: Scenario<G>, ground: Arc<G>, limit: Duration) -> Outcome {
    let begin = Instant::now();
    // A task of its own: a failed assertion ends the scenario, not the suite.
    let task = tokio::spawn(tokio::time::timeout(
        limit,
        (scenario.run)(Arc::clone(&ground)),
    ));
    let result = match task.await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(anyhow!("not done within {limit:?}")),
        Err(panic) => Err(anyhow!("{panic}")),
    };
    let state = if result.is_err() {
        ground.dump().await
    } else {
        String::new()
    };
    Outcome {
        name: scenario.name,
        passed: report(scenario.name, &result, &state),
        took: begin.elapsed(),
    }
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
