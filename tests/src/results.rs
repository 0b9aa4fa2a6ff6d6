//! What became of a suite on each of its grounds: kept in files, shown as one table.

use crate::suite::Outcome;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where the results of one run go. Those of the same suite on other grounds lie beside them, so
/// that each run can show them all.
#[derive(Debug, Clone)]
pub struct Results {
    folder: PathBuf,
    ground: String,
    elsewhere: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cell {
    passed: bool,
    seconds: f64,
}

type Column = BTreeMap<String, Cell>;

impl Results {
    /// Results of `suite` on `ground`, in `target/results/{suite}`.
    ///
    /// # Errors
    /// The test does not lie where cargo builds it.
    pub fn new(suite: &str, ground: &str) -> anyhow::Result<Self> {
        let exe = std::env::current_exe().context("path of the test itself")?;
        // target/{profile}/deps/{suite}-{hash}
        let Some(target) = exe.ancestors().nth(3) else {
            bail!("the test does not lie in target/{{profile}}/deps");
        };
        Ok(Self {
            folder: target.join("results").join(suite),
            ground: ground.to_owned(),
            elsewhere: &[],
        })
    }

    /// With what other tests show, which this suite would otherwise have to: what, and by whom. It
    /// stands below the table.
    #[must_use]
    pub fn elsewhere(self, elsewhere: &'static [(&'static str, &'static str)]) -> Self {
        Self { elsewhere, ..self }
    }

    /// Writes them down; returns the table of all grounds.
    ///
    /// # Errors
    /// A file cannot be written or read.
    pub(crate) fn keep(&self, outcomes: &[Outcome]) -> anyhow::Result<String> {
        let column: Column = outcomes
            .iter()
            .map(|outcome| {
                let cell = Cell {
                    passed: outcome.passed,
                    seconds: outcome.took.as_secs_f64(),
                };
                (outcome.name.to_owned(), cell)
            })
            .collect();
        std::fs::create_dir_all(&self.folder).context("folder of results")?;
        let file = self.folder.join(format!("{}.json", self.ground));
        std::fs::write(&file, serde_json::to_vec_pretty(&column)?)
            .with_context(|| file.display().to_string())?;
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.name).collect();
        let mut table = table(&names, &columns(&self.folder)?);
        if !self.elsewhere.is_empty() {
            table.push_str("\n| shown elsewhere | by |\n|---|---|\n");
            for (what, by) in self.elsewhere {
                let _infallible = writeln!(table, "| {what} | {by} |");
            }
        }
        std::fs::write(self.folder.join("table.md"), &table).context("table of results")?;
        Ok(table)
    }
}

fn columns(folder: &Path) -> anyhow::Result<BTreeMap<String, Column>> {
    let mut columns = BTreeMap::new();
    for entry in std::fs::read_dir(folder).context("folder of results")? {
        let path = entry.context("folder of results")?.path();
        let Some(ground) = path.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let column = serde_json::from_slice(&text)
                .with_context(|| format!("{} holds no results; remove it", path.display()))?;
            columns.insert(ground.to_owned(), column);
        }
    }
    Ok(columns)
}

fn table(names: &[&str], columns: &BTreeMap<String, Column>) -> String {
    let heads: Vec<&str> = columns.keys().map(String::as_str).collect();
    let mut text = format!("| case | {} |\n|---|", heads.join(" | "));
    text += &"---|".repeat(heads.len());
    for name in names {
        let _ok = write!(text, "\n| {} |", name.replace('_', " "));
        for column in columns.values() {
            let _ok = match column.get(*name) {
                Some(Cell { passed, seconds }) => {
                    let word = if *passed { "ok" } else { "FAILED" };
                    write!(text, " {word} ({seconds:.1} s) |")
                }
                None => write!(text, " - |"),
            };
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn outcome(name: &'static str, passed: bool) -> Outcome {
        Outcome {
            name,
            passed,
            took: Duration::from_millis(1500),
        }
    }

    #[test]
    fn runs_on_two_grounds_make_one_table() {
        let folder = tempfile::tempdir().unwrap();
        let on = |ground: &str| Results {
            folder: folder.path().to_owned(),
            ground: ground.to_owned(),
            elsewhere: &[],
        };
        let first = on("embedded").keep(&[outcome("one_thing", true)]).unwrap();
        assert_eq!(
            first,
            "| case | embedded |\n|---|---|\n| one thing | ok (1.5 s) |\n"
        );
        let both = on("real").keep(&[outcome("one_thing", false), outcome("more", true)]);
        assert_eq!(
            both.unwrap(),
            "| case | embedded | real |\n|---|---|---|\n\
             | one thing | ok (1.5 s) | FAILED (1.5 s) |\n| more | - | ok (1.5 s) |\n"
        );
        let listed = on("real").elsewhere(&[("a third thing", "another suite")]);
        let listed = listed.keep(&[outcome("more", true)]).unwrap();
        let below = "\n| shown elsewhere | by |\n|---|---|\n| a third thing | another suite |\n";
        assert!(listed.ends_with(below), "{listed}");
    }
}
