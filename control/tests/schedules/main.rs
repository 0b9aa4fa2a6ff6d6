//! Crash schedules: the real executor, with the real Kubernetes client, against an API server, a
//! scheduler, a kubelet and proxies that are plain data (`api`, `kubelet`, `edge`), with one or two
//! controllers. Bulks are driven by the real driver (`bulk`).
//! Nothing is left to chance or to time: a seed decides at every call who goes next (`world`), what
//! becomes of the call (`calls`), and when people ask for something or nodes fail (`script`). After
//! every step the laws are checked (`laws`), and at the end everything must have settled as the
//! scenario says (`scenario`, `verdict`).
//!
//! A schedule strikes a certain call (`scenario/17:crash-reply-lost/0`), or takes everything from
//! its seed (`scenario/-/4711`): one or two controllers, crashes, late calls, lost replies, refusals,
//! lost and superfluous events, clocks that differ. One that fails tells the command that repeats it
//! step by step.
//!
//! # It bites
//! Each of these faults (`bites`) stands between executor and API server and takes away one thing
//! that upgrades rest on. The schedules must notice every one of them:
//!
//! | fault | what notices it |
//! |---|---|
//! | `NoDeletePreconditions` | a pod is deleted that has changed since it was read |
//! | `NoRecordPrecondition` | a record is written over another than was read |
//! | `DeleteBeforeCommit` | the original goes while its successor is still on trial |
//! | `SkipSettle` | a successor takes over right after it became ready |
//! | `ForgetTombstone` | a pod that arrives late outlives its deleted workspace |
//! | `ReleaseBeforeGone` | two pods may hold one claim |
//! | `CreateWithoutGate` | two pods may hold one claim |
//! | `FalseSuccess` | it never settles |
//! | `StaleLists` | what traffic is routed to is deleted, or two pods may hold one claim |
//! | `SecretInRefusal` | a secret is shown |
//! | `OwnerLost` | a workspace changes hands |
//! | `RecordFirst` | a record is deleted that others still rest on |
//! | `GenerationLost` | a generation shrinks |
//! | `RandomNames` | pods are left over, or it never settles |
//! | `SilenceIsConsent` | a pod is deleted of which a silent proxy may know more |
//! | `SessionsForgotten` | a pod is deleted on which something is open |
//! | `SpareForgotten` | a pod is deleted that a proxy may still send requests to |
//! | `CancelForgotten` | an upgrade that was called off succeeds |
//!
//! # How many
//! `NOGOO9_CRASH_SCHEDULES` of them, in `NOGOO9_CRASH_SECONDS` at most. `make crash` runs 200,000:
//! every kind of fault at every call of every scenario, and random ones. `make test` runs a crash of
//! every kind at every call of the main scenarios, some random ones of each, and of the deliberate
//! faults those that are noticed at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed; what ran is told"
)]

mod api;
mod bites;
mod bulk;
mod calls;
mod command;
mod edge;
mod kubelet;
mod laws;
mod plan;
mod request;
mod rng;
mod scenario;
mod schedule;
mod script;
mod verdict;
mod wire;
mod world;

use bites::Bite;
use bulk::Desk;
use plan::Plan;
use scenario::ALL;
use schedule::Schedule;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use world::{Base, run};

/// The one that control runs with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command that repeats one schedule.
const AGAIN: &str = "cargo test -p nogoo9-control --test schedules repeat -- --nocapture";
/// Schedules in `make test`, about.
const FEW: usize = 2_050;
/// Schedules that may fail before the others are left out.
const ENOUGH: usize = 8;
/// Schedules that must notice a fault, at most.
const PATIENCE: u64 = 1_500;

fn number(name: &str) -> Option<usize> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a number")),
    )
}

/// A thread's share: a runtime of its own, on which nothing else runs.
fn alone<T>(work: impl AsyncFnOnce(&Base) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let connection = wire::base().await;
        let desk = Desk::new();
        work(&Base { connection, desk }).await
    })
}

/// How often each call of a scenario without faults is made.
async fn calls(base: &Base, scenario: usize) -> usize {
    let schedule = Schedule {
        scenario,
        strike: None,
        seed: 0,
    };
    match run(
        base,
        Schedule {
            strike: Some((0, schedule::FAULTS[0])),
            ..schedule
        },
        None,
        false,
    )
    .await
    {
        Ok(run) => run.calls,
        Err(broken) => panic!("{}: {broken}", ALL[scenario].name),
    }
}

#[test]
fn every_schedule_keeps_the_laws_and_settles() {
    let count = number("NOGOO9_CRASH_SCHEDULES");
    let seconds = number("NOGOO9_CRASH_SECONDS").unwrap_or(240);
    let begin = Instant::now();
    let until = begin + Duration::from_secs(seconds as u64);
    let lengths: Vec<usize> = alone(async |base| {
        let mut lengths = Vec::new();
        for scenario in 0..ALL.len() {
            lengths.push(calls(base, scenario).await);
        }
        lengths
    });
    let plan = Plan::new(&lengths, count.is_some(), count.unwrap_or(FEW));
    let (next, struck, made) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let (ran, longest) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Vec<(Schedule, String)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                alone(async |base| {
                    while failed.lock().unwrap().len() < ENOUGH && Instant::now() < until {
                        let Some(schedule) = plan.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            return;
                        };
                        let outcome = telling(schedule, run(base, schedule, None, false)).await;
                        match outcome {
                            Ok(run) => {
                                ran.fetch_add(1, Ordering::Relaxed);
                                struck.fetch_add(run.struck, Ordering::Relaxed);
                                made.fetch_add(run.calls, Ordering::Relaxed);
                                longest.fetch_max(run.steps, Ordering::Relaxed);
                            }
                            Err(broken) => failed.lock().unwrap().push((schedule, broken)),
                        }
                    }
                });
            });
        }
    });
    let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{} schedules of {} scenarios, {} calls, {} faults, {} steps at most, in {:.1} s",
        load(&ran),
        ALL.len(),
        load(&made),
        load(&struck),
        load(&longest),
        begin.elapsed().as_secs_f64(),
    );
    let failed = failed.into_inner().unwrap();
    for (schedule, broken) in &failed {
        println!("{schedule}: {broken}\nrepeat it: NOGOO9_CRASH_ONLY={schedule} {AGAIN}\n");
    }
    let which: Vec<String> = failed.iter().map(|(one, _)| one.to_string()).collect();
    assert!(failed.is_empty(), "{which:?} broke a law, or never settled");
    assert!(load(&struck) > 0, "no fault struck");
}

/// Tells which schedule it was, should the executor itself break off.
async fn telling<T>(schedule: Schedule, work: impl Future<Output = T>) -> T {
    struct Told(Schedule);
    impl Drop for Told {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("repeat it: NOGOO9_CRASH_ONLY={} {AGAIN}", self.0);
            }
        }
    }
    let _told = Told(schedule);
    work.await
}

/// The one of `NOGOO9_CRASH_ONLY`, told step by step. Without it, that a schedule is the same each time.
#[test]
fn repeat() {
    let only = std::env::var("NOGOO9_CRASH_ONLY").ok();
    let text = only.as_deref().unwrap_or("three-recreated/-/1");
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.to_string(), text);
    alone(async |base| {
        let first = run(base, schedule, None, true).await;
        if only.is_some() {
            match first {
                Ok(run) => println!("{}\nkeeps the laws and settles", run.trace.join("\n")),
                Err(broken) => panic!("{broken}"),
            }
            return;
        }
        let (first, second) = (
            first.unwrap(),
            run(base, schedule, None, true).await.unwrap(),
        );
        assert!(first.trace.len() > 40 && first.trace == second.trace);
    });
}

#[test]
fn every_deliberate_fault_is_noticed() {
    let all: &[Bite] = if number("NOGOO9_CRASH_SCHEDULES").is_some() {
        &Bite::ALL
    } else {
        &Bite::QUICK
    };
    let next = AtomicUsize::new(0);
    let missed: Mutex<Vec<Bite>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                alone(async |base| {
                    while let Some(bite) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Some((schedule, broken)) = noticed(base, *bite).await {
                            println!("{bite:?}: noticed by {schedule}: {broken}");
                        } else {
                            missed.lock().unwrap().push(*bite);
                        }
                    }
                });
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "nothing notices {missed:?}");
}

/// The first schedule that notices a fault, and how.
async fn noticed(base: &Base, bite: Bite) -> Option<(Schedule, String)> {
    for seed in 0..PATIENCE {
        let schedule = bite.schedule(seed);
        if let Err(broken) = run(base, schedule, Some(bite), false).await {
            let first: String = broken
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect();
            return Some((schedule, first));
        }
    }
    None
}
