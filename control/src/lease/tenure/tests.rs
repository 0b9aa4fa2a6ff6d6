//! Elections in made-up time: several candidates, one Lease with the API server's versions, and
//! lines between them that lose, delay and cut.

use super::*;
use std::collections::BTreeMap;

/// Steps of the made-up clock, in milliseconds.
const STEP: u64 = 250;

/// What stands between a candidate and the server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Line {
    /// Every message takes so long, in milliseconds.
    Takes(u64),
    /// Refused at once.
    Cut,
    /// Arrives after so long, and no answer comes back.
    NoReply(u64),
}

const GOOD: Line = Line::Takes(0);

/// A message that is on its way.
#[derive(Debug, Clone)]
enum Flight {
    /// To be read at that time, or never.
    Read(Option<u64>),
    /// To be written at that time; whether its answer comes back.
    Write(u64, Box<Lease>, bool),
    /// Nothing is heard of it any more.
    Silence,
}

#[derive(Debug)]
struct Candidate {
    tenure: Tenure,
    line: Line,
    runs: bool,
    next_look: u64,
    look: Option<(u64, Flight)>,
    /// Writes whose candidate has given up, which arrive all the same.
    late: Vec<(u64, Lease)>,
}

struct World {
    start: Instant,
    now: u64,
    version: u64,
    lease: Option<Lease>,
    candidates: BTreeMap<&'static str, Candidate>,
}

impl World {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            now: 0,
            version: 0,
            lease: None,
            candidates: BTreeMap::new(),
        }
    }

    fn join(&mut self, name: &'static str) {
        let candidate = Candidate {
            tenure: Tenure::new(name.to_owned()),
            line: GOOD,
            runs: true,
            next_look: self.now,
            look: None,
            late: Vec::new(),
        };
        self.candidates.insert(name, candidate);
    }

    fn set(&mut self, name: &str, line: Line) {
        self.candidates.get_mut(name).unwrap().line = line;
    }

    /// Killed: it does nothing any more, and lets go of nothing.
    fn kill(&mut self, name: &str) {
        let candidate = self.candidates.get_mut(name).unwrap();
        candidate.runs = false;
        candidate.tenure.another_leads();
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    fn leaders(&self) -> Vec<&'static str> {
        let leads = |(name, candidate): (&&'static str, &Candidate)| {
            candidate.tenure.leads().then_some(*name)
        };
        self.candidates.iter().filter_map(leads).collect()
    }

    fn write(&mut self, mut lease: Lease) -> bool {
        let there = self
            .lease
            .as_ref()
            .map(|lease| &lease.metadata.resource_version);
        if there.unwrap_or(&None) != &lease.metadata.resource_version {
            return false;
        }
        self.version += 1;
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease);
        true
    }

    /// One step of the clock for everybody.
    fn step(&mut self) {
        let names: Vec<&str> = self.candidates.keys().copied().collect();
        for name in names {
            let mut candidate = self.candidates.remove(name).unwrap();
            self.act(&mut candidate);
            self.candidates.insert(name, candidate);
            let leaders = self.leaders();
            assert!(leaders.len() <= 1, "at {} ms lead {leaders:?}", self.now);
        }
        self.now += STEP;
    }

    fn act(&mut self, candidate: &mut Candidate) {
        let (due, late): (Vec<_>, Vec<_>) = std::mem::take(&mut candidate.late)
            .into_iter()
            .partition(|(at, _)| *at <= self.now);
        candidate.late = late;
        for (_, lease) in due {
            self.write(lease);
        }
        if !candidate.runs {
            return;
        }
        if candidate.look.is_none() && candidate.next_look <= self.now {
            let flight = match candidate.line {
                Line::Takes(millis) => Flight::Read(Some(self.now + millis)),
                Line::NoReply(_) => Flight::Read(None),
                Line::Cut => {
                    candidate.tenure.failed(self.at(self.now));
                    candidate.next_look = self.now + millis(RETRY);
                    return;
                }
            };
            candidate.look = Some((self.now, flight));
        }
        let Some((begun, flight)) = candidate.look.take() else {
            return;
        };
        let give_up = candidate.tenure.give_up(self.at(begun)) <= self.at(self.now);
        let over = |candidate: &mut Candidate| {
            candidate.next_look = begun + millis(RETRY);
        };
        match flight {
            _ if give_up => {
                if let Flight::Write(at, lease, _) = flight {
                    candidate.late.push((at, *lease));
                }
                candidate.tenure.failed(self.at(self.now));
                over(candidate);
            }
            Flight::Read(Some(at)) if at <= self.now => {
                let now = self.at(self.now);
                match candidate.tenure.take(self.lease.clone(), now, None) {
                    None => {
                        candidate.tenure.another_leads();
                        over(candidate);
                    }
                    Some(lease) => {
                        let (at, reply) = match candidate.line {
                            Line::Takes(millis) => (self.now + millis, true),
                            Line::NoReply(millis) => (self.now + millis, false),
                            Line::Cut => (self.now, false),
                        };
                        let flight = Flight::Write(at, Box::new(lease), reply);
                        candidate.look = Some((begun, flight));
                        if at <= self.now {
                            self.act(candidate);
                        }
                    }
                }
            }
            Flight::Write(at, lease, reply) if at <= self.now => {
                let written = self.write(*lease);
                if !reply {
                    candidate.look = Some((begun, Flight::Silence));
                } else {
                    if written {
                        candidate.tenure.renewed(self.at(begun));
                    } else {
                        candidate.tenure.failed(self.at(self.now));
                    }
                    over(candidate);
                }
            }
            waiting => candidate.look = Some((begun, waiting)),
        }
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds * 1000 / STEP {
            self.step();
        }
    }

    /// Until `done`; how many milliseconds that took.
    fn until(&mut self, done: impl Fn(&Self) -> bool) -> u64 {
        let begun = self.now;
        while !done(self) {
            self.step();
            assert!(self.now < begun + 600_000, "it never comes");
        }
        self.now - begun
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

#[test]
fn one_of_several_leads_and_another_within_15_s_of_its_end() {
    let mut world = World::new();
    for name in ["one", "two", "three"] {
        world.join(name);
        world.seconds(1);
        assert_eq!(world.leaders(), ["one"]);
    }
    for _ in 0..300 {
        world.seconds(1);
        assert_eq!(world.leaders(), ["one"], "as long as it is renewed");
    }
    let lease = world.lease.clone().unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_transitions),
        (Some("one"), Some(1))
    );
    // Cut off: it stops before anybody else begins.
    world.set("one", Line::Cut);
    let lost = world.until(|world| world.leaders().is_empty());
    assert!(lost <= 9_000, "{lost}");
    let gained = world.until(|world| !world.leaders().is_empty());
    assert!(lost + gained < 15_000, "{lost} and {gained}");
    // Back: somebody leads already.
    let leaders = world.leaders();
    world.set("one", GOOD);
    world.seconds(60);
    assert!(world.leaders() == leaders && leaders != ["one"]);
}

#[test]
fn whoever_lets_go_is_followed_at_once() {
    let mut world = World::new();
    world.join("one");
    world.join("two");
    world.seconds(5);
    let lease = world.lease.clone();
    let mut stranger = Tenure::new("stranger".into());
    assert_eq!(
        stranger.release(lease.clone()),
        None,
        "not its own to let go"
    );
    let one = world.candidates.get_mut("one").unwrap();
    let released = one.tenure.release(lease).unwrap();
    one.runs = false;
    assert!(world.write(released) && world.leaders().is_empty());
    let gained = world.until(|world| world.leaders() == ["two"]);
    assert!(gained <= 2 * millis(RETRY), "{gained}");
}

#[test]
fn the_same_name_goes_on_at_once_and_another_one_waits() {
    let mut world = World::new();
    world.join("one");
    world.seconds(5);
    world.kill("one");
    world.candidates.clear();
    world.join("one");
    world.seconds(1);
    assert_eq!(world.leaders(), ["one"]);
    world.kill("one");
    // By its own clock: nobody tells it when the Lease was renewed.
    world.join("other");
    let gained = world.until(|world| world.leaders() == ["other"]);
    assert!((10_000..15_000).contains(&gained), "{gained}");
}

#[test]
fn failures_shorter_than_the_deadline_change_nothing() {
    let mut world = World::new();
    world.join("one");
    world.seconds(1);
    world.join("two");
    for line in [
        Line::Cut,
        Line::NoReply(0),
        Line::NoReply(1_000),
        Line::Takes(1_000),
    ] {
        world.set("one", line);
        for _ in 0..16 {
            world.step();
            assert_eq!(world.leaders(), ["one"], "{line:?}");
        }
        world.set("one", GOOD);
        world.seconds(10);
        assert_eq!(world.leaders(), ["one"], "{line:?}");
    }
}

#[test]
fn somebody_elses_edit_of_the_lease_costs_nothing() {
    let mut world = World::new();
    world.join("one");
    world.join("two");
    for _ in 0..240 {
        world.seconds(1);
        world.version += 1;
        let version = world.version.to_string();
        let lease = world.lease.as_mut().unwrap();
        lease.metadata.resource_version = Some(version);
        assert_eq!(world.leaders(), ["one"]);
    }
}

#[test]
fn however_the_lines_fail_two_never_lead_and_one_does_in_the_end() {
    let mut turns = 0;
    for seed in 1..=40_u64 {
        let mut world = World::new();
        world.join("one");
        world.join("two");
        world.join("three");
        let mut dice = seed;
        let mut roll = |sides: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % sides
        };
        for _ in 0..200 {
            let name = ["one", "two", "three"][usize::try_from(roll(3)).unwrap()];
            let line = match roll(6) {
                0 => Line::Cut,
                1 => Line::NoReply(roll(12_000)),
                2 => Line::Takes(roll(12_000)),
                3 => Line::Takes(roll(2_000)),
                _ => GOOD,
            };
            world.set(name, line);
            for _ in 0..roll(40) {
                let before = world.leaders();
                world.step();
                turns += usize::from(before != world.leaders());
            }
        }
        for name in ["one", "two", "three"] {
            world.set(name, GOOD);
        }
        world.seconds(60);
        assert_eq!(world.leaders().len(), 1, "seed {seed}");
    }
    assert!(turns > 400, "it went to and fro: {turns}");
}
