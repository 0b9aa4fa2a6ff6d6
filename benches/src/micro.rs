//! What criterion measured: one estimate a benchmark, out of the files that it leaves.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

/// How deep criterion nests: group, function, value, `new`.
const DEPTH: usize = 5;

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) group: String,
    pub(crate) function: String,
    /// What it was varied by.
    pub(crate) value: Option<String>,
    /// Median time of one call, in nanoseconds.
    pub(crate) ns: f64,
    /// Bounds of its 95 % confidence interval.
    pub(crate) between: (f64, f64),
}

#[derive(Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    value_str: Option<String>,
}

#[derive(Deserialize)]
struct Estimates {
    median: Point,
}

#[derive(Deserialize)]
struct Point {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

/// Reads all results under criterion's folder, ordered by name.
pub(crate) fn read(folder: &Path) -> anyhow::Result<Vec<Estimate>> {
    let mut found = Vec::new();
    collect(folder, DEPTH, &mut found)?;
    found.sort_by(|a, b| {
        let number = |e: &Estimate| e.value.as_deref().and_then(|v| v.parse::<u64>().ok());
        (&a.group, &a.function, number(a)).cmp(&(&b.group, &b.function, number(b)))
    });
    Ok(found)
}

fn collect(folder: &Path, depth: usize, found: &mut Vec<Estimate>) -> anyhow::Result<()> {
    let what = || format!("--micro {}: cannot be read", folder.display());
    if folder.file_name().is_some_and(|name| name == "new") {
        found.push(estimate(folder).with_context(what)?);
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    for entry in std::fs::read_dir(folder).with_context(what)? {
        let path = entry.with_context(what)?.path();
        if path.is_dir() {
            collect(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

fn estimate(folder: &Path) -> anyhow::Result<Estimate> {
    let benchmark: Benchmark = json(&folder.join("benchmark.json"))?;
    let Estimates { median } = json(&folder.join("estimates.json"))?;
    Ok(Estimate {
        group: benchmark.group_id,
        function: benchmark.function_id.unwrap_or_default(),
        value: benchmark.value_str,
        ns: median.point_estimate,
        between: (
            median.confidence_interval.lower_bound,
            median.confidence_interval.upper_bound,
        ),
    })
}

fn json<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let bytes = std::fs::read(file).with_context(|| format!("{} is missing", file.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not criterion's", file.display()))
}

/// A group's benchmarks as rows, by function, and its values as columns. Benchmarks that were not
/// varied have the one column "".
pub(crate) fn rows<'a>(
    estimates: &[&'a Estimate],
) -> (Vec<&'a str>, BTreeMap<&'a str, Vec<&'a Estimate>>) {
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: BTreeMap<&str, Vec<&Estimate>> = BTreeMap::new();
    for estimate in estimates.iter().copied() {
        let value = estimate.value.as_deref().unwrap_or_default();
        if !columns.contains(&value) {
            columns.push(value);
        }
        rows.entry(&estimate.function).or_default().push(estimate);
    }
    (columns, rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn reads_what_criterion_leaves() {
        let folder = std::env::temp_dir().join(format!("nogoo9-micro-{}", std::process::id()));
        let leave = |path: &str, id: &str, ns: f64| {
            let new = folder.join(path).join("new");
            std::fs::create_dir_all(&new).unwrap();
            std::fs::write(new.join("benchmark.json"), id).unwrap();
            let estimates = format!(
                r#"{{"median":{{"point_estimate":{ns},"standard_error":1.0,"confidence_interval":{{"confidence_level":0.95,"lower_bound":1.0,"upper_bound":9.0}}}}}}"#
            );
            std::fs::write(new.join("estimates.json"), estimates).unwrap();
        };
        let id = |group: &str, function: &str, value: &str| {
            format!(
                r#"{{"group_id":"{group}","function_id":"{function}","value_str":{value},"throughput":null}}"#
            )
        };
        leave(
            "table/lookup/1000",
            &id("table", "lookup", r#""1000""#),
            30.0,
        );
        leave("table/lookup/1", &id("table", "lookup", r#""1""#), 20.0);
        leave("route/host", &id("route", "host", "null"), 5.5);
        // What it compares with is not read.
        std::fs::create_dir_all(folder.join("route/host/base")).unwrap();
        let found = read(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let found = found.unwrap();
        let short: Vec<_> = found
            .iter()
            .map(|e| {
                (
                    e.group.as_str(),
                    e.function.as_str(),
                    e.value.as_deref(),
                    e.ns,
                )
            })
            .collect();
        assert_eq!(
            short,
            [
                ("route", "host", None, 5.5),
                ("table", "lookup", Some("1"), 20.0),
                ("table", "lookup", Some("1000"), 30.0)
            ],
            "by number, not by text"
        );
        assert_eq!(found[0].between, (1.0, 9.0));
        let (columns, rows) = rows(&[&found[1], &found[2]]);
        assert_eq!((columns, rows["lookup"].len()), (vec!["1", "1000"], 2));
    }
}
