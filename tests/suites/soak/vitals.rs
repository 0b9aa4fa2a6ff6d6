//! How much long-lived processes hold: open files, memory, threads and tasks, over time; and whether
//! that is level.

use anyhow::{Context as _, bail};
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// A moment of one process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Seconds from the beginning.
    pub(super) at: f64,
    /// Values, in the order of [`MEASURES`]; what a process does not tell is absent.
    pub(super) values: [Option<f64>; 4],
}

/// What is measured, and by how much of it a process may grow over the time that is looked at and
/// still be level: a part of its mean, or an amount, whichever is more. Less than one of each for
/// every upgrade of 20 minutes, and more than what comes with becoming the leader, or with another
/// watch.
pub(super) const MEASURES: [(&str, f64, f64); 4] = [
    ("open files", 0.25, 48.0),
    ("memory, MiB", 0.20, 16.0),
    ("threads", 0.10, 4.0),
    ("tasks", 0.25, 64.0),
];

/// Place of memory among them.
const MEMORY: usize = 1;

/// A process that lives through all of it.
#[derive(Debug)]
pub(super) struct Patient {
    pub(super) name: &'static str,
    pid: i32,
    /// By how many MiB more it may grow, since it was told to keep something.
    keeps: f64,
    admin: Option<Url>,
    http: reqwest::Client,
    pub(super) samples: Vec<Sample>,
}

impl Patient {
    /// A process with its admin listener, if it has one.
    pub(super) fn new(name: &'static str, pid: i32, admin: Option<&Url>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            // Its own connections are not what is looked at.
            .pool_max_idle_per_host(0)
            .timeout(Duration::from_secs(30))
            .build()?;
        Ok(Self {
            name,
            pid,
            keeps: 0.0,
            admin: admin.cloned(),
            http,
            samples: Vec::new(),
        })
    }

    /// It may grow by so many MiB more.
    pub(super) fn keeps(self, keeps: f64) -> Self {
        Self { keeps, ..self }
    }

    /// What it holds now.
    pub(super) async fn look(&self) -> anyhow::Result<[Option<f64>; 4]> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid));
        let status = status.with_context(|| format!("{} is gone", self.name))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid))?.count();
        Ok([
            Some(f64::from(u32::try_from(files)?)),
            field("VmRSS:").map(|kib| kib / 1024.0),
            field("Threads:"),
            self.tasks().await?,
        ])
    }

    async fn tasks(&self) -> anyhow::Result<Option<f64>> {
        let Some(admin) = &self.admin else {
            return Ok(None);
        };
        let answer = self.http.get(admin.join("/metrics")?).send().await?;
        let text = answer.text().await?;
        let tasks = text
            .lines()
            .find_map(|line| line.strip_prefix("nogoo9_tasks "));
        let tasks = tasks.with_context(|| format!("{} tells no tasks", self.name))?;
        Ok(Some(tasks.parse()?))
    }

    /// Notes what it holds.
    pub(super) async fn note(&mut self, since: Instant) -> anyhow::Result<()> {
        let values = self.look().await?;
        self.samples.push(Sample {
            at: since.elapsed().as_secs_f64(),
            values,
        });
        Ok(())
    }

    /// How each measure went, after the first part of the time, in which everything warms up.
    pub(super) fn verdicts(&self, warm: f64) -> Vec<Verdict> {
        let late: Vec<&Sample> = self.samples.iter().filter(|it| it.at >= warm).collect();
        let verdicts = MEASURES.iter().enumerate();
        verdicts
            .filter_map(|(index, (measure, part, amount))| {
                let points = late
                    .iter()
                    .filter_map(|it| Some((it.at, it.values[index]?)));
                let points: Vec<(f64, f64)> = points.collect();
                let (mean, growth) = fit(&points)?;
                Some(Verdict {
                    measure,
                    mean,
                    growth,
                    bound: (mean * part).max(*amount)
                        + if index == MEMORY { self.keeps } else { 0.0 },
                    points: points.len(),
                })
            })
            .collect()
    }
}

/// Whether something stayed level.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) measure: &'static str,
    pub(super) mean: f64,
    /// By how much it grew over the time, on the line that fits best.
    pub(super) growth: f64,
    /// By how much it may.
    pub(super) bound: f64,
    pub(super) points: usize,
}

impl Verdict {
    pub(super) fn is_level(&self) -> bool {
        self.growth <= self.bound
    }
}

/// Mean, and the rise over the whole time of the line of least squares; nothing of fewer than 3 points.
fn fit(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = f64::from(u32::try_from(points.len()).ok()?);
    if points.len() < 3 {
        return None;
    }
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let along = points
        .iter()
        .map(|(x, y)| (x - mean_x) * (y - mean_y))
        .sum::<f64>();
    let across = points
        .iter()
        .map(|(x, _)| (x - mean_x).powi(2))
        .sum::<f64>();
    let span = points.last()?.0 - points.first()?.0;
    (across > 0.0).then(|| (mean_y, along / across * span))
}

/// Fails if a fit does not tell growth from noise.
pub(super) fn check() -> anyhow::Result<()> {
    let line = |rise: f64| -> Vec<(f64, f64)> {
        let noise = [3.0, -4.0, 1.0, 0.0, -2.0, 4.0, -1.0, -1.0];
        let at = (0..240_u32).map(f64::from);
        at.zip(noise.iter().cycle())
            .map(|(x, noise)| (x, 100.0 + rise * x / 239.0 + noise))
            .collect()
    };
    for rise in [-50.0, 0.0, 30.0] {
        let fitted = fit(&line(rise)).map(|(_, growth)| growth);
        if !fitted.is_some_and(|growth| (growth - rise).abs() < 1.0) {
            bail!("a rise of {rise} was taken for {fitted:?}");
        }
    }
    Ok(())
}
