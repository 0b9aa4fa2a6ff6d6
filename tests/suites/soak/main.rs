//! Mixed traffic for a long time, an upgrade every five seconds, proxies and controls stopped and
//! killed at random: what ends is on the list of docs/edge.md, "Expected closes", and the processes
//! that live through all of it hold no more at the end than after they were warm.
//!
//! `make soak` runs it for 20 minutes; `make test` for some seconds, to see that it works.

mod connection;
mod dice;
mod doors;
mod people;
mod report;
mod restarts;
mod tally;
mod upgrades;
mod vitals;

use anyhow::Context as _;
use dice::Dice;
use doors::Doors;
use nogoo9_tests::peer::{self, Peer};
use nogoo9_tests::{Observation, Options, Site, Suite, Visitor, until};
use people::{People, Place, Proof};
use report::Seen;
use serde_json::json;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tally::Tally;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use vitals::{MEASURES, Patient};

/// Longest wait for anything but the soak itself: more than the edge holds a request in a recreate.
const LONG: Duration = Duration::from_secs(180);
/// Seconds from the signal until a proxy closes its listener; the balancer looks more often.
const DRAIN: u64 = 2;
/// Seconds that a proxy then gives to what is in flight.
const STOP: u64 = 10;
/// Seconds, unless `NOGOO9_TEST_SOAK` says otherwise.
const SECONDS: u64 = 6;
/// A run of fewer seconds says nothing about growth.
const TELLING: f64 = 300.0;
/// MiB that the embedded API server's store may take: it keeps 5,000 Events, which 20 minutes fill.
const EVENTS: f64 = 48.0;
/// How much more a process may hold at rest than before: pools and caches that were empty then.
const REST: f64 = 16.0;

fn main() -> ExitCode {
    Suite::on(site())
        .limit(Duration::from_secs(3 * 3_600))
        .scenario("a_soak", a_soak)
        .main()
}

async fn site() -> anyhow::Result<Site> {
    let flag = format!("--control-flag=--proxy-service={}", peer::SERVICE);
    let site = Site::up(Options { args: vec![flag] }).await?;
    peer::list(&site, "first", &site.ready().admin_proxy).await?;
    Ok(site)
}

fn variable(name: &str) -> anyhow::Result<Option<u64>> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    let number = value.map(|value| value.parse().context(value));
    number
        .transpose()
        .with_context(|| format!("{name} is no number"))
}

#[allow(clippy::print_stdout, reason = "the report of a test program")]
fn say(text: &str) {
    println!("{text}");
}

async fn a_soak(site: Arc<Site>) -> anyhow::Result<()> {
    vitals::check()?;
    let seconds = variable("NOGOO9_TEST_SOAK")?.unwrap_or(SECONDS);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let seed = variable("NOGOO9_TEST_SOAK_SEED")?.unwrap_or(now.as_secs());
    say(&format!(
        "soak of {seconds} s; again with NOGOO9_TEST_SOAK_SEED={seed}"
    ));
    let workspaces = if seconds < 60 { 4 } else { 12 };

    let flags = [format!("--stop-timeout={STOP}"), format!("--drain={DRAIN}")];
    let flags = flags.each_ref().map(String::as_str);
    let peers = vec![
        Peer::start(&site, "second", &flags, None).await?,
        Peer::start(&site, "third", &flags, None).await?,
    ];
    let standby = Peer::control(&site, "standby").await?;
    let places = places(&site, workspaces).await?;
    let port = site.ready().url.port().context("the public URL's port")?;
    let mut ways = vec![(
        ([127, 0, 0, 1], port).into(),
        site.ready().admin_proxy.clone(),
    )];
    ways.extend(
        peers
            .iter()
            .map(|peer| (peer.address(), peer.admin().clone())),
    );
    let doors = Arc::new(Doors::new(&ways)?);

    let ready = site.read_ready()?;
    let mut patients = vec![
        Patient::new(
            "proxy",
            ready.pids.proxy.context("no proxy")?,
            Some(&ready.admin_proxy),
        )?,
        Patient::new(
            "standby control",
            standby.process().pid,
            Some(standby.admin()),
        )?,
        Patient::new(
            "API server",
            ready.pids.apiserver.context("no server")?,
            None,
        )?
        .keeps(EVENTS),
        Patient::new("nogoo9 up", ready.pids.up, None)?,
    ];
    let mut before = Vec::new();
    for patient in &patients {
        before.push(patient.look().await?);
    }

    let (tally, stop, since) = (Tally::default(), CancellationToken::new(), Instant::now());
    let people = People::start(&doors, &places, seed, &tally);
    let upgrading = tokio::spawn(upgrades::go_on(Arc::clone(&site), workspaces, stop.clone()));
    let restarting = tokio::spawn(restarts::go_on(
        Arc::clone(&site),
        Arc::clone(&doors),
        peers,
        Dice::of(seed, 1),
        stop.clone(),
    ));
    let every = Duration::from_millis((seconds * 1000 / 240).clamp(500, 10_000));
    let mut ticks = tokio::time::interval(every);
    while since.elapsed() < Duration::from_secs(seconds) {
        ticks.tick().await;
        for patient in &mut patients {
            patient.note(since).await?;
        }
        if restarting.is_finished() {
            // It failed; below it says why.
            break;
        }
    }
    stop.cancel();
    let (restarts, upgrades, left) = tokio::join!(restarting, upgrading, people.leave());
    let ((restarts, peers), upgrades) = (restarts??, upgrades??);
    left?;
    let took = since.elapsed().as_secs_f64();
    let rest = rest(&patients, &before).await?;

    let counts = tally.counts();
    let seen = Seen {
        seed,
        seconds: took,
        warm: took / 3.0,
        counts: &counts,
        upgrades: &upgrades,
        restarts: &restarts,
        patients: &patients,
        rest: &rest,
    };
    let table = seen.table();
    say(&format!("\n{table}"));
    say(&format!("kept in {}", seen.keep(&table)?.display()));

    let failed: u64 = counts.failed.values().sum();
    assert_eq!((failed, upgrades.failed.len()), (0, 0), "see above");
    assert!(counts.done.len() == tally::Kind::ALL.len(), "{counts:?}");
    assert!(upgrades.side_by_side + upgrades.recreated > 0);
    for patient in patients.iter().filter(|_| took >= TELLING) {
        for verdict in patient.verdicts(seen.warm) {
            assert!(verdict.is_level(), "{}: {verdict:?}", patient.name);
        }
    }
    drop((peers, standby));
    Ok(())
}

/// The workspaces, spawned by alice, who is signed in there by a browser, too.
async fn places(site: &Site, count: usize) -> anyhow::Result<Vec<Place>> {
    let (api, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let bearer = Proof::Bearer(edge.token().context("no token")?.to_owned());
    let mut visitor = Visitor::new(site.anonymous()?)?;
    visitor.sign_in("alice").await?;
    let mut places = Vec::new();
    for number in 0..count {
        let template = upgrades::template(number, 1);
        let id = site.spawn(&api, &template, json!({})).await?;
        let host = edge.host(&id);
        let (_, page) = visitor.open(&visitor.url(&host, "/")?, "alice").await?;
        anyhow::ensure!(page.status == 200, "{id}: {}", page.status);
        places.push(Place {
            id,
            browser: Proof::Cookies(Arc::new(Mutex::new(visitor.cookies(&host)))),
            host,
            bearer: bearer.clone(),
        });
    }
    Ok(places)
}

/// Once nobody is there any more, files and tasks are as few as before; returns both.
async fn rest(
    patients: &[Patient],
    before: &[[Option<f64>; 4]],
) -> anyhow::Result<Vec<(&'static str, &'static str, f64, f64)>> {
    let mut rest = Vec::new();
    for (patient, before) in patients.iter().zip(before) {
        let what = format!("{} to be at rest", patient.name);
        let held = until(&what, LONG, || async {
            let now = patient.look().await?;
            // Memory and threads are kept for the next time.
            let rests = [0, 3].into_iter().all(|index| {
                now[index].unwrap_or_default() <= before[index].unwrap_or_default() + REST
            });
            Ok(Observation::when(rests, now, (now, before)))
        })
        .await?;
        for (index, (measure, ..)) in MEASURES.iter().enumerate() {
            if let (Some(before), Some(after)) = (before[index], held[index]) {
                rest.push((patient.name, *measure, before, after));
            }
        }
    }
    Ok(rest)
}
