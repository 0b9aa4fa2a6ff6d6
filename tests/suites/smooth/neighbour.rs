//! A workspace that attacks the edge with its answers, and the one next door: every request of the
//! neighbour's is answered as if nothing were, and what it notices is told as a figure, the p99 of its
//! answers against calm in the same run.
//!
//! `make edge` takes longer over it, and then the figures mean something.

use super::{LONG, Scale};
use anyhow::Context as _;
use nogoo9_load::{HttpLoad, HttpReport, Phases};
use nogoo9_tests::{Edge, Site, Template};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// Requests a second of the neighbour's users, over [`USERS`] connections.
const RATE: f64 = 200.0;
const USERS: usize = 16;
/// Requests a second for attacks, over [`VICTIMS`] connections.
const ATTACKS: f64 = 200.0;
const VICTIMS: usize = 48;
/// Longest wait for an answer that is an attack.
const PATIENCE: Duration = Duration::from_secs(3);

fn load(edge: &Edge, id: &str, path: &str) -> anyhow::Result<HttpLoad> {
    let token = edge.token().context("no token")?;
    Ok(HttpLoad::new(&edge.address(path)?)?
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?)
}

pub(super) async fn its_owners_trouble_alone(site: Arc<Site>) -> anyhow::Result<()> {
    let span = Duration::from_secs(if Scale::is_full() { 20 } else { 2 });
    let (alice, bob) = (site.api("alice").await?, site.api("bob").await?);
    let good = Template::new("neighbour", "1.0");
    let good = site.spawn(&alice, &good, json!({})).await?;
    let bad = Template::new("hostile", "1.0").env("HOSTILE", "1");
    let bad = site.spawn(&bob, &bad, json!({})).await?;

    let phases = Phases::new("calm");
    let id = good.clone();
    let users = load(&site.edge("alice").await?, &good, "/info")?
        .connections(USERS)
        .rate(RATE)?
        .timeouts(LONG, LONG)
        .check(move |answer| {
            let info: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let ours = info["workspace"] == id.as_str();
            ours.then_some(())
                .ok_or_else(|| format!("not ours: {info}"))
        })
        .start(&phases)?;
    tokio::time::sleep(span).await;
    phases.enter("hostile");
    let attacks = load(&site.edge("bob").await?, &bad, "/")?
        .connections(VICTIMS)
        .rate(ATTACKS)?
        .timeouts(LONG, PATIENCE)
        .start(&phases)?;
    tokio::time::sleep(span).await;
    let attacks = attacks.finish().await;
    phases.enter("calm again");
    tokio::time::sleep(span).await;
    let users = users.finish().await;

    let table = table(&users, &attacks)?;
    say(&table);
    keep(&table)?;
    assert_eq!(users.failures, 0, "{:#?}", users.samples);
    assert_eq!(users.phases.len(), 3, "{:#?}", users.phases);
    // They were attacks: most of the answers are none, and none was the neighbour's.
    assert!(attacks.failures * 2 > attacks.requests, "{attacks:#?}");
    Ok(())
}

fn table(users: &HttpReport, attacks: &HttpReport) -> anyhow::Result<String> {
    let mut text = String::from(
        "| the neighbour's users | requests | failed | p50 | p99 | p99.9 |\n|---|---|---|---|---|---|\n",
    );
    let milliseconds = |us: u64| Duration::from_micros(us).as_secs_f64() * 1_000.0;
    for phase in &users.phases {
        let of = &phase.latency;
        let _ok = writeln!(
            text,
            "| {} | {} | {} | {:.2} ms | {:.2} ms | {:.2} ms |",
            phase.phase,
            phase.requests,
            phase.failures,
            milliseconds(of.p50_us),
            milliseconds(of.p99_us),
            milliseconds(of.p999_us),
        );
    }
    let p99 = |name: &str| -> anyhow::Result<f64> {
        let phase = users.phases.iter().find(|phase| phase.phase == name);
        Ok(milliseconds(
            phase.context("a phase is missing")?.latency.p99_us,
        ))
    };
    let _ok = writeln!(
        text,
        "\np99 beside a hostile workspace: {:.2} of that in calm. {} attacks, {} of them no answer \
         to the client either.",
        p99("hostile")? / p99("calm")?.max(0.001),
        attacks.requests,
        attacks.failures,
    );
    Ok(text)
}

/// Keeps it in `target/results/neighbour`.
fn keep(table: &str) -> anyhow::Result<()> {
    let exe = std::env::current_exe().context("path of the test itself")?;
    // target/{profile}/deps/{suite}-{hash}
    let target = exe.ancestors().nth(3).context("folder of the build")?;
    let folder = target.join("results/neighbour");
    std::fs::create_dir_all(&folder).context("folder of results")?;
    std::fs::write(folder.join("table.md"), table).context("table of results")
}

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn say(text: &str) {
    println!("\n{text}");
}
