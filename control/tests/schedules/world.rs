//! One schedule, from its beginning to its end: who goes next is decided at every call, by the seed.

use crate::api::{By, Key, Server};
use crate::bites::Bite;
use crate::bulk::{self, BULK, Desk};
use crate::command;
use crate::edge::{Asked, Edge};
use crate::kubelet::Kubelet;
use crate::laws::{Broken, Laws, Seen};
use crate::rng::Rng;
use crate::scenario::{ALL, Act, Scenario};
use crate::schedule::Schedule;
use crate::wire::{Call, Clock, Waiting};
use futures::future::LocalBoxFuture;
use nogoo9_control::cluster::{Cluster, ClusterError};
use nogoo9_control::service::Service;
use nogoo9_control::upgrade::{Next, pass};
use nogoo9_runtime::kube::Connection;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// When every schedule begins.
const BEGIN: i64 = 1_800_000_000;
/// Far more steps than any schedule takes.
const STEPS: usize = 6_000;
/// A call is given up by its caller after so many seconds.
const CALL: i64 = 10;
/// Time that may pass while somebody could do something, in seconds: nobody is starved of it for so
/// long that a deadline strikes.
const IDLE: i64 = 60;
/// Time between two looks at everything, in seconds.
pub(crate) const RESYNC: i64 = 60;
/// Faults that strike one schedule at random, at most.
pub(crate) const MOST_FAULTS: usize = 8;

/// What every schedule of a thread is made with.
pub(crate) struct Base {
    pub(crate) connection: Connection,
    pub(crate) desk: Desk,
}

/// What a schedule took.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Calls that were made.
    pub(crate) calls: usize,
    /// Those of them that a fault struck.
    pub(crate) struck: usize,
    /// Steps until everything had settled.
    pub(crate) steps: usize,
    /// What happened, if it was asked for.
    pub(crate) trace: Vec<String>,
}

pub(crate) enum Done {
    Pass(Next),
    Command,
}

pub(crate) type Work = LocalBoxFuture<'static, Result<Done, ClusterError>>;

/// Whoever makes calls: a controller at work on one workspace, or a user's command.
pub(crate) struct Actor {
    /// Which controller; `None`: people.
    pub(crate) controller: Option<usize>,
    pub(crate) id: String,
    pub(crate) cluster: Cluster,
    /// Of whoever drives the bulk.
    pub(crate) service: Option<Service>,
    pub(crate) clock: Clock,
    pub(crate) calls: mpsc::UnboundedReceiver<Waiting>,
    pub(crate) work: Option<Work>,
    /// The call that waits, and since when.
    pub(crate) waiting: Option<(Waiting, i64)>,
    pub(crate) due: Option<i64>,
    pub(crate) again: bool,
    pub(crate) failures: u32,
    pub(crate) seen: Seen,
}

/// What can happen next.
#[derive(Debug, Clone)]
enum Choice {
    Serve(usize),
    Begin(usize),
    /// Somebody whose call was given up hears of it.
    GoOn(usize),
    Kubelet(Key),
    Proxy(usize),
    Script(usize),
    Late(usize),
}

pub(crate) struct World<'a> {
    pub(crate) base: &'a Base,
    pub(crate) scenario: &'static Scenario,
    pub(crate) server: Server,
    pub(crate) kubelet: Kubelet,
    pub(crate) edge: Arc<Mutex<Edge>>,
    pub(crate) laws: Laws,
    pub(crate) rng: Rng,
    pub(crate) actors: Vec<Actor>,
    pub(crate) skew: [i64; 2],
    /// Calls of processes that are gone, and when they arrive.
    pub(crate) late: Vec<(Call, i64, Seen)>,
    /// How far each workspace's script is.
    pub(crate) progress: BTreeMap<&'static str, usize>,
    /// Steps until the next act of a script may come.
    pub(crate) patience: BTreeMap<&'static str, usize>,
    /// When a command that failed is given again.
    pub(crate) again_at: BTreeMap<String, i64>,
    pub(crate) bite: Option<Bite>,
    pub(crate) schedule: Schedule,
    pub(crate) fault_rate: usize,
    idled: i64,
    /// Version at the last look at everything.
    resynced: u64,
    pub(crate) run: Run,
    pub(crate) trace: Option<Vec<String>>,
}

/// Runs a schedule.
///
/// # Errors
/// The law that was broken.
pub(crate) async fn run(
    base: &Base,
    schedule: Schedule,
    bite: Option<Bite>,
    trace: bool,
) -> Result<Run, Broken> {
    let mut world = World::new(base, schedule, bite, trace);
    let outcome = world.play().await;
    if let (Err(broken), Some(trace)) = (&outcome, &world.trace) {
        return Err(format!("{}\n{broken}", trace.join("\n")));
    }
    let trace = world.trace.take().unwrap_or_default();
    outcome.map(|()| Run { trace, ..world.run })
}

impl<'a> World<'a> {
    fn new(base: &'a Base, schedule: Schedule, bite: Option<Bite>, trace: bool) -> Self {
        let scenario = &ALL[schedule.scenario];
        let mut rng = Rng::new(schedule.seed);
        let random = schedule.strike.is_none();
        let controllers = if random { 1 + rng.below(2) } else { 1 };
        let fault_rate = if random {
            [0, 10, 30, 60][rng.below(4)]
        } else {
            0
        };
        let skew = if random {
            [rng.seconds(-1, 0), rng.seconds(-1, 0)]
        } else {
            [0, 0]
        };
        let mut actors = Vec::new();
        for id in scenario.ids {
            for controller in (0..controllers).map(Some).chain([None]) {
                actors.push(Actor::new(base, controller, id));
            }
        }
        let mut server = Server::new(BEGIN);
        server.tampered = bite.is_some();
        if scenario.bulk.is_some() {
            let drivers = (0..controllers).map(|it| Actor::new(base, Some(it), BULK));
            actors.extend(drivers);
            server.store(bulk::template_key(), bulk::template(scenario), By::World);
        }
        let mut laws = Laws::default();
        laws.parallel = scenario.bulk.map(|bulk| bulk.parallel);
        Self {
            base,
            scenario,
            server,
            kubelet: Kubelet::default(),
            edge: Edge::new(scenario.used, random, schedule.seed, bite, BEGIN),
            laws,
            rng,
            actors,
            skew,
            late: Vec::new(),
            progress: scenario.ids.iter().map(|id| (*id, 0)).collect(),
            patience: BTreeMap::new(),
            again_at: BTreeMap::new(),
            bite,
            schedule,
            fault_rate,
            idled: 0,
            resynced: 0,
            run: Run::default(),
            trace: trace.then(Vec::new),
        }
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let at = self.server.now - BEGIN;
            trace.push(format!("{at:>5} s  {}", text()));
        }
    }

    async fn play(&mut self) -> Result<(), Broken> {
        for step in 0..STEPS {
            self.run.steps = step;
            let choices = self.choices();
            if choices.is_empty() {
                match self.next_moment() {
                    Some(at) => self.server.now = at.max(self.server.now + 1),
                    None if self.is_over() && self.resync() => {}
                    None if self.is_over() => return self.verdict(),
                    None => {
                        return Err(format!(
                            "stuck: {:?} at {:?}",
                            self.progress, self.laws.records
                        ));
                    }
                }
                self.time_out();
                continue;
            }
            if self.schedule.strike.is_none() && self.idled < IDLE && self.rng.chance(25) {
                let span = self.rng.seconds(1, 4);
                self.idled += span;
                self.server.now += span;
                self.time_out();
                continue;
            }
            let choice = choices[self.rng.below(choices.len())].clone();
            match choice {
                Choice::Serve(actor) => self.serve(actor).await?,
                Choice::Begin(actor) => self.begin(actor).await?,
                Choice::GoOn(actor) => self.go_on(actor).await?,
                Choice::Kubelet(key) => {
                    let told = self.kubelet.act(&key, &mut self.server)?;
                    self.note(|| told);
                }
                Choice::Proxy(place) => {
                    let told = self.edge.lock().unwrap().act(place, self.server.now);
                    self.note(|| told);
                }
                Choice::Script(index) => self.script(self.scenario.ids[index]).await?,
                Choice::Late(index) => {
                    let (call, _, seen) = self.late.remove(index);
                    let answer = self.server.answer(&call, By::Actor(self.actors.len()));
                    self.note(|| format!("late: {call} -> {}", answer.code));
                    self.look(Some(&seen))?;
                }
            }
            self.look(None)?;
        }
        Err(format!("does not converge: {:#?}", self.laws.records))
    }

    /// Everything that could happen now.
    fn choices(&mut self) -> Vec<Choice> {
        let now = self.server.now;
        let mut choices = Vec::new();
        for (index, actor) in self.actors.iter().enumerate() {
            if actor.waiting.is_some() {
                choices.push(Choice::Serve(index));
            } else if actor.work.is_some() {
                choices.push(Choice::GoOn(index));
            } else if actor.work.is_none() && actor.due.is_some_and(|due| due <= now) {
                choices.push(Choice::Begin(index));
            }
        }
        choices.extend(
            self.kubelet
                .due(&self.server)
                .0
                .into_iter()
                .map(Choice::Kubelet),
        );
        let proxies = self.edge.lock().unwrap().due(now).0;
        choices.extend(proxies.into_iter().map(Choice::Proxy));
        for (index, (_, at, _)) in self.late.iter().enumerate() {
            if *at <= now {
                choices.push(Choice::Late(index));
            }
        }
        let busy = !choices.is_empty();
        for (index, id) in self.scenario.ids.iter().enumerate() {
            if !self.may_act(id) {
                continue;
            }
            let patience = self
                .patience
                .entry(id)
                .or_insert_with(|| self.rng.below(90));
            *patience = patience.saturating_sub(1);
            if *patience == 0 || !busy {
                choices.push(Choice::Script(index));
            }
        }
        choices
    }

    /// Everything is looked at once more: what proxies did not tell before they do by now. `false`: that
    /// has led to nothing.
    fn resync(&mut self) -> bool {
        if !self.scenario.used || self.resynced == self.server.version {
            return false;
        }
        self.resynced = self.server.version;
        let quiet = self.edge.lock().unwrap().quiet();
        self.server.now = quiet.max(self.server.now + RESYNC);
        let controllers = self.actors.iter_mut();
        for actor in controllers.filter(|actor| actor.controller.is_some()) {
            actor.due = Some(self.server.now);
        }
        true
    }

    /// When something happens next by itself.
    fn next_moment(&self) -> Option<i64> {
        let dues = self.actors.iter().filter(|actor| actor.work.is_none());
        let dues = dues.filter_map(|actor| actor.due);
        let late = self.late.iter().map(|(_, at, _)| *at);
        let again = self
            .again_at
            .values()
            .copied()
            .filter(|at| *at > self.server.now);
        let kubelet = self.kubelet.due(&self.server).1;
        let proxies = self.edge.lock().unwrap().due(self.server.now).1;
        dues.chain(late)
            .chain(again)
            .chain(kubelet)
            .chain(proxies)
            .min()
    }

    /// Calls that have waited too long are given up by those who made them; some arrive all the same.
    fn time_out(&mut self) {
        let now = self.server.now;
        for index in 0..self.actors.len() {
            let actor = &mut self.actors[index];
            let due = actor
                .waiting
                .as_ref()
                .is_some_and(|(_, since)| now > since + CALL);
            if due
                && let Some((waiting, _)) = actor.waiting.take()
                && self.rng.chance(300)
            {
                let at = now + self.rng.seconds(0, 5);
                self.late.push((waiting.call, at, actor.seen.clone()));
            }
        }
    }

    /// A controller begins to look at a workspace.
    async fn begin(&mut self, index: usize) -> Result<(), Broken> {
        let proxies = Asked {
            edge: self.edge.clone(),
            actor: index,
        };
        let actor = &mut self.actors[index];
        actor.due = None;
        actor.again = false;
        let (cluster, id) = (actor.cluster.clone(), actor.id.clone());
        actor.work = Some(match actor.service.clone() {
            Some(service) => Box::pin(async move { bulk::look(service).await.map(Done::Pass) }),
            None => Box::pin(async move { pass(&cluster, &proxies, &id).await.map(Done::Pass) }),
        });
        self.go_on(index).await
    }

    /// Gives a user's command.
    pub(crate) async fn command(&mut self, id: &str, act: Act) -> Result<(), Broken> {
        let people = |actor: &Actor| actor.controller.is_none() && actor.id == id;
        let Some(index) = self.actors.iter().position(people) else {
            return Ok(());
        };
        let actor = &mut self.actors[index];
        let work = command::run(actor.cluster.clone(), self.scenario, act, actor.id.clone());
        actor.work = Some(Box::pin(async move { work.await.map(|()| Done::Command) }));
        self.go_on(index).await
    }
}
