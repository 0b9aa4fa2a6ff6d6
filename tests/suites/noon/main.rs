//! A bulk upgrade at noon: many workspaces of both kinds, people at work in some of them, control
//! killed three times meanwhile. Nobody notices, nothing is lost, and the time is told.
//!
//! A tenth of them are real programs with clients; the others are pods of nothing, which cost the
//! machine little and control as much as any. `make noon` upgrades 200, `make test` fewer.

mod table;
mod timing;
mod town;

use nogoo9_tests::{Observation, Options, Site, Suite, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::say;
use timing::Timing;
use town::Town;

/// Longest wait for anything.
const LONG: Duration = Duration::from_secs(600);
/// How many workspaces there are, unless `NOGOO9_TEST_NOON` says otherwise.
const WORKSPACES: usize = 40;
/// Upgrades at once.
const PARALLEL: usize = 20;
/// Control is killed once so many of eight parts are done.
const KILLS: [usize; 3] = [1, 3, 5];

fn main() -> ExitCode {
    Suite::new(Options::default())
        .limit(Duration::from_secs(1500))
        .scenario(
            "nobody_notices_a_bulk_upgrade",
            nobody_notices_a_bulk_upgrade,
        )
        .main()
}

fn workspaces() -> anyhow::Result<usize> {
    match std::env::var("NOGOO9_TEST_NOON") {
        Ok(count) => Ok(count.parse()?),
        Err(_) => Ok(WORKSPACES),
    }
}

async fn nobody_notices_a_bulk_upgrade(site: Arc<Site>) -> anyhow::Result<()> {
    let count = workspaces()?;
    let begin = Instant::now();
    let town = Town::build(&site, count).await?;
    let (spawned, load) = (begin.elapsed(), town.load()?);
    town.offer("2.0").await?;
    let timing = Timing::start(&town).await?;

    let mcp = site.mcp("admin").await?;
    until("all of them to be outdated", LONG, || async {
        let would = mcp.call("upgrade_all_workspaces", json!({"dryRun": true}));
        let total = would.await?.ok()?["total"].clone();
        Ok(Observation::when(total == json!(count), (), total))
    })
    .await?;

    let begin = Instant::now();
    let arguments = json!({"maxParallel": PARALLEL});
    let answer = mcp.call("upgrade_all_workspaces", arguments).await?.ok()?;
    assert_eq!(
        (&answer["status"], &answer["total"]),
        (&json!("upgrading"), &json!(count)),
        "{answer}"
    );
    let operation = answer["operationId"].as_str().unwrap_or_default();
    let answered = begin.elapsed();
    let mut back = Vec::new();
    for part in KILLS {
        follow(&site, operation, |seen| succeeded(seen) * 8 >= count * part).await?;
        let killed = Instant::now();
        site.kill("control").await?;
        follow(&site, operation, |_| true).await?;
        back.push(killed.elapsed());
    }
    let ended = follow(&site, operation, |seen| seen["done"] == true).await?;
    let took = begin.elapsed();
    assert_eq!(
        (&ended["state"], &ended["counts"]["succeeded"]),
        (&json!("succeeded"), &json!(count)),
        "{ended}"
    );
    town.all_have(&site, "2.0").await?;
    let report = load.finish().await;
    let timing = timing.end().await?;

    let table = table::of(&town, &timing, spawned, answered, took, &back);
    say(&table);
    say(&report.table().to_string());
    table::keep(&table, &timing, &report)?;
    assert!(report.requests > 0);
    assert_eq!(report.failures, 0, "{:#?}", report.samples);
    Ok(())
}

fn succeeded(operation: &Value) -> usize {
    let count = operation["counts"]["succeeded"]
        .as_u64()
        .unwrap_or_default();
    usize::try_from(count).unwrap_or_default()
}

/// Looks at the operation until it is as wanted. While control is down there is no answer.
async fn follow(
    site: &Site,
    operation: &str,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let path = format!("/api/v1/operations/{operation}?limit=1");
    let admin = site.api("admin").await?;
    until("the bulk to get on", LONG, || async {
        let reply = match admin.get(&path).await {
            Ok(reply) if reply.status == 200 => reply.body,
            other => return Ok(Observation::NotYet(format!("{other:?}"))),
        };
        Ok(Observation::when(wanted(&reply), reply.clone(), reply))
    })
    .await
}
