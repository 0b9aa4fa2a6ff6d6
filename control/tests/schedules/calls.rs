//! What becomes of a call: it is carried out, or a fault strikes; and what its maker does then.

use crate::api::{By, Kind, workspace};
use crate::bulk::{self, BULK};
use crate::laws::{Broken, Seen};
use crate::request::{failure, target};
use crate::scenario::SECRET;
use crate::schedule::{FAULTS, Fault};
use crate::wire::{Answer, Call, Waiting, connect};
use crate::world::{Actor, Base, Done, MOST_FAULTS, RESYNC, World};
use http::Method;
use nogoo9_control::cluster::ClusterError;
use nogoo9_control::upgrade::Next;
use std::collections::BTreeSet;

impl Actor {
    pub(crate) fn new(base: &Base, controller: Option<usize>, id: &str) -> Self {
        let driver = (id == BULK).then(|| bulk::driver(base));
        let (service, cluster, clock, calls) = match driver {
            Some((service, cluster, clock, calls)) => (Some(service), cluster, clock, calls),
            None => {
                let (cluster, clock, calls) = connect(&base.connection);
                (None, cluster, clock, calls)
            }
        };
        Self {
            controller,
            id: id.to_owned(),
            cluster,
            service,
            clock,
            calls,
            work: None,
            waiting: None,
            due: None,
            again: false,
            failures: 0,
            seen: Seen::default(),
        }
    }
}

impl World<'_> {
    /// Lets an actor run until it makes a call or is done.
    pub(crate) async fn go_on(&mut self, index: usize) -> Result<(), Broken> {
        let now = self.server.now;
        let ahead = self.bite.map_or(0, |bite| bite.ahead());
        self.edge.lock().unwrap().now = now;
        let actor = &mut self.actors[index];
        let skew = actor
            .controller
            .map_or(0, |controller| self.skew[controller]);
        actor.clock.set(now + skew + ahead);
        let Some(work) = &mut actor.work else {
            return Ok(());
        };
        let done = tokio::select! {
            biased;
            done = work => done,
            Some(waiting) = actor.calls.recv() => {
                actor.waiting = Some((waiting, now));
                actor.seen.reports = self.edge.lock().unwrap().told(index);
                return Ok(());
            }
        };
        actor.work = None;
        self.done(index, &done)
    }

    /// A look or a command is over.
    fn done(&mut self, index: usize, done: &Result<Done, ClusterError>) -> Result<(), Broken> {
        let now = self.server.now;
        if let Err(error) = done {
            self.note(|| format!("#{index}: {error}"));
            if error.to_string().contains(SECRET) {
                return Err(format!("an error tells a secret: {error}"));
            }
        }
        let actor = &mut self.actors[index];
        let id = actor.id.clone();
        if actor.controller.is_none() {
            match done {
                Ok(_) => self.next_act(&id),
                Err(_) => {
                    self.again_at.insert(id, now + 1);
                }
            }
            return Ok(());
        }
        actor.due = match done {
            _ if actor.again => Some(now),
            Ok(Done::Pass(Next::At(at))) => Some((*at).max(now + 1)),
            Ok(Done::Pass(Next::Soon)) => Some(now),
            Ok(_) => None,
            Err(ClusterError::Conflict { .. } | ClusterError::Exists { .. }) => Some(now),
            Err(_) => Some(now + (1 << actor.failures.min(3))),
        };
        actor.failures = if actor.due.is_some_and(|due| due > now) {
            actor.failures + 1
        } else {
            0
        };
        Ok(())
    }

    /// A call of this actor reaches the API server, or something happens to it.
    pub(crate) async fn serve(&mut self, index: usize) -> Result<(), Broken> {
        let Some((Waiting { mut call, reply }, _)) = self.actors[index].waiting.take() else {
            return Ok(());
        };
        self.run.calls += 1;
        let fault = self.fault();
        if let Some(fault) = fault {
            self.run.struck += 1;
            self.note(|| format!("#{index}: {call} is struck: {fault}"));
        }
        let arrives = !matches!(
            fault,
            Some(Fault::CrashBefore | Fault::CrashLate | Fault::Lost | Fault::Status(_))
        );
        let answer = arrives.then(|| self.carry_out(index, &mut call));
        self.look(None)?;
        match (fault, answer) {
            (None | Some(Fault::CrashAfter), Some(answer)) => {
                let _gone = reply.send(answer);
            }
            (Some(Fault::Status(code)), _) => {
                let reason = if code == 409 { "Conflict" } else { "Fault" };
                let _gone = reply.send(failure(code, reason, "fault"));
            }
            (Some(Fault::Gateway), _) => {
                let _gone = reply.send(failure(504, "Timeout", "fault"));
            }
            (Some(Fault::CrashLate), _) => {
                let at = self.server.now + self.rng.seconds(0, 60);
                self.late.push((call, at, self.actors[index].seen.clone()));
            }
            _ => drop(reply),
        }
        match fault {
            Some(Fault::CrashBefore | Fault::CrashReplyLost | Fault::CrashLate) => {
                self.crash(index);
            }
            Some(Fault::CrashAfter) => {
                self.go_on(index).await?;
                self.crash(index);
            }
            _ => self.go_on(index).await?,
        }
        Ok(())
    }

    /// The fault that strikes this call, if one does.
    fn fault(&mut self) -> Option<Fault> {
        match self.schedule.strike {
            Some((call, fault)) => (self.run.calls == call).then_some(fault),
            None if self.run.struck >= MOST_FAULTS || !self.rng.chance(self.fault_rate) => None,
            None => Some(FAULTS[self.rng.below(FAULTS.len())]),
        }
    }

    fn carry_out(&mut self, index: usize, call: &mut Call) -> Answer {
        let by = By::Actor(index);
        if let Some(bite) = self.bite {
            bite.ask(call, self.run.calls);
            let answer = bite.instead(call, &self.server, &self.actors[index].seen);
            if let Some(answer) = answer {
                return answer;
            }
        }
        self.remember(index, call);
        let mut answer = self.server.answer(call, by);
        if call.is_write() {
            self.note(|| format!("#{index}: {call} -> {}", answer.code));
        }
        if let Some(bite) = self.bite {
            bite.after(
                call,
                &mut answer,
                &mut self.server,
                by,
                &self.actors[index].seen,
            );
        }
        answer
    }

    /// What this call reads is what its maker decides on.
    fn remember(&mut self, index: usize, call: &Call) {
        if call.method != Method::GET {
            return;
        }
        if let Some((Kind::Secret, namespace, Some(name))) = target(&call.path) {
            let found = self.server.objects.get(&(Kind::Secret, namespace, name));
            self.actors[index].seen.record = found.cloned();
        } else if call.path.ends_with("/pods") {
            let id = &self.actors[index].id;
            let all = self.server.of(Kind::Pod).map(|(_, pod)| pod);
            let pods = all.filter(|pod| workspace(pod) == Some(id));
            let pods = pods.cloned().collect();
            let seen = &mut self.actors[index].seen;
            seen.pods = pods;
            seen.at = self.server.now;
        }
    }

    /// The process is killed: whatever it knew is gone, and one like it begins.
    fn crash(&mut self, index: usize) {
        let Some(controller) = self.actors[index].controller else {
            let id = self.actors[index].id.clone();
            self.edge.lock().unwrap().forget(index);
            self.actors[index] = Actor::new(self.base, None, &id);
            self.again_at.insert(id, self.server.now + 1);
            return;
        };
        for (place, actor) in self.actors.iter_mut().enumerate() {
            if actor.controller == Some(controller) {
                self.edge.lock().unwrap().forget(place);
                let id = actor.id.clone();
                *actor = Actor::new(self.base, Some(controller), &id);
                actor.due = Some(self.server.now);
            }
        }
    }

    /// Checks what has changed, and tells those who watch. `late`: what the maker of a late call knew.
    pub(crate) fn look(&mut self, late: Option<&Seen>) -> Result<(), Broken> {
        if self.server.changes.is_empty() {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.server.changes);
        let actors = &self.actors;
        let seen = |by: usize| match actors.get(by) {
            Some(actor) => actor.seen.clone(),
            None => late.cloned().unwrap_or_default(),
        };
        self.laws.check(&changes, &self.server, seen)?;
        self.edge.lock().unwrap().hear(&changes, self.server.now);
        let objects = changes
            .iter()
            .filter_map(|change| change.after.as_ref().or(change.before.as_ref()));
        let mut touched: BTreeSet<String> = objects
            .filter_map(|object| workspace(object).map(ToOwned::to_owned))
            .collect();
        let kinds = [Kind::Secret, Kind::ConfigMap];
        if changes.iter().any(|change| kinds.contains(&change.key.0)) {
            touched.insert(BULK.to_owned());
        }
        for index in 0..self.actors.len() {
            let actor = &mut self.actors[index];
            if actor.controller.is_none() || !touched.contains(&actor.id) {
                continue;
            }
            // Now and then an event does not arrive, and the look at everything makes up for it.
            let lost = self.schedule.strike.is_none() && self.rng.chance(30);
            let at = self.server.now + if lost { RESYNC } else { 0 };
            if actor.work.is_some() && !lost {
                actor.again = true;
            } else {
                actor.due = Some(actor.due.map_or(at, |due| due.min(at)));
            }
        }
        Ok(())
    }
}
