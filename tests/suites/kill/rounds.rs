//! Round after round of upgrades, with a blow at another call in each.

use super::fleet::{Fleet, Mode};
use super::stage::Stage;
use super::strikes::{Aim, Blow};
use super::thorough;
use nogoo9_tests::{Control, Verdict};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Workspaces of each kind that are upgraded at once, each with a blow of its own.
const EACH: usize = 4;
/// The same in `make kill`.
const EACH_THOROUGH: usize = 2;
/// With two controls, `make test` strikes at one in so many reads.
const FEWER_READS: usize = 3;

pub(super) async fn one_control(stage: Arc<Stage>) -> anyhow::Result<()> {
    rounds(&stage, "one", 1).await
}

/// Both are started with the same identity, so both are sure that it is they who reconcile.
pub(super) async fn two_controls(stage: Arc<Stage>) -> anyhow::Result<()> {
    let second = Control::start(&stage.site, 1, stage.strikes.judge()).await?;
    let struck = rounds(&stage, "two", FEWER_READS).await;
    let starts = second.starts();
    second.stop().await?;
    struck?;
    assert!(starts > 1, "the second control was never struck");
    Ok(())
}

fn is_read(call: &str) -> bool {
    call.starts_with("GET ") || call.starts_with("LIST ")
}

/// What is told of an upgrade on the side; an upgrade under blows may tell less.
fn is_aside(call: &str) -> bool {
    call.ends_with(" events")
}

/// The blows that are due: at every call of an undisturbed upgrade, or at fewer of its reads.
fn aims(calls: &BTreeMap<String, usize>, fewer_reads: usize) -> VecDeque<Aim> {
    let verdicts: &[Verdict] = if thorough() {
        &[Verdict::KillAfter, Verdict::KillBefore]
    } else {
        &[Verdict::KillAfter]
    };
    let mut aims = VecDeque::new();
    for (call, count) in calls {
        let step = if is_read(call) && !thorough() {
            fewer_reads
        } else {
            1
        };
        for nth in (1..=*count).step_by(step) {
            aims.extend(verdicts.iter().map(|verdict| Aim {
                call: call.clone(),
                nth,
                verdict: *verdict,
            }));
        }
    }
    aims
}

async fn rounds(stage: &Stage, name: &'static str, fewer_reads: usize) -> anyhow::Result<()> {
    let each = if thorough() { EACH_THOROUGH } else { EACH };
    let fleet = Fleet::launch(stage, name, each).await?;
    let begin = Instant::now();
    // Undisturbed: which calls there are.
    let nobody = || fleet.ships.iter().map(|ship| (ship.id.clone(), None));
    stage.strikes.watch(nobody());
    fleet.upgrade(stage, 1).await?;
    let mut due: BTreeMap<&str, VecDeque<Aim>> = BTreeMap::new();
    let mut planned = BTreeSet::new();
    for mode in Mode::ALL {
        let of_mode = fleet.ships.iter().filter(|ship| ship.mode == mode);
        let mut calls: BTreeMap<String, usize> = BTreeMap::new();
        for ship in of_mode {
            for (call, count) in stage.strikes.calls(&ship.id) {
                let most = calls.entry(call).or_default();
                *most = (*most).max(count);
            }
        }
        let total: usize = calls.values().sum();
        say(&format!(
            "{}, undisturbed: {total} calls: {calls:?}",
            mode.name()
        ));
        planned.extend(calls.keys().map(|call| (mode.name(), call.clone())));
        due.insert(mode.name(), aims(&calls, fewer_reads));
    }

    let mut blows: Vec<(&'static str, Blow)> = Vec::new();
    let mut missed = 0;
    let mut version = 1;
    while due.values().any(|aims| !aims.is_empty()) {
        version += 1;
        let mut aims = Vec::new();
        for ship in &fleet.ships {
            let next = due.get_mut(ship.mode.name());
            aims.push((ship.id.clone(), next.and_then(VecDeque::pop_front)));
        }
        stage.strikes.watch(aims.clone());
        fleet.upgrade(stage, version).await?;
        for (ship, (_, aim)) in fleet.ships.iter().zip(&aims) {
            match stage.strikes.blow(&ship.id) {
                Some(blow) => blows.push((ship.mode.name(), blow)),
                None => missed += usize::from(aim.is_some()),
            }
        }
    }
    // What was aimed at and did not come is not struck any more.
    stage.strikes.watch(nobody());
    let table = fleet.home().await?;
    say(&format!(
        "{} blows in {version} rounds, {missed} aims at calls that an upgrade under blows did not make, {:.1} s",
        blows.len(),
        begin.elapsed().as_secs_f64()
    ));
    report(&blows);
    say(&table);
    // The first write of a kind is one that every upgrade makes, whatever befalls it.
    let writes = planned
        .iter()
        .filter(|(_, call)| !is_read(call) && !is_aside(call));
    for (mode, call) in writes {
        let struck = blows
            .iter()
            .any(|(of, blow)| of == mode && blow.call == *call);
        assert!(struck, "{mode}: never struck at {call}");
    }
    Ok(())
}

/// Which calls a control died at, how often, and how long it took until it, or the other, went on.
fn report(blows: &[(&'static str, Blow)]) {
    let mut by_call: BTreeMap<(&str, &str), Vec<Duration>> = BTreeMap::new();
    for (mode, blow) in blows {
        // The last call of an upgrade has none after it.
        let pauses = by_call.entry((mode, &blow.call)).or_default();
        pauses.push(blow.pause.unwrap_or_default());
    }
    for ((mode, call), mut pauses) in by_call {
        pauses.sort_unstable();
        let at = |index: usize| pauses.get(index).map_or(0, Duration::as_millis);
        say(&format!(
            "  {mode:9} {call:28} {:3} times; on again after {} ms, at most {} ms",
            pauses.len(),
            at(pauses.len() / 2),
            at(pauses.len().saturating_sub(1)),
        ));
    }
}

fn say(text: &str) {
    // Nobody reads it any more: no reason to fail.
    let _closed = writeln!(std::io::stdout(), "    {text}");
}
