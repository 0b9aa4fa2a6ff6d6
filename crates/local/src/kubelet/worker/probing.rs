//! Probes of a running container: starts them, and acts on what they say.

use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::super::events::Level;
use super::super::probe::{self, Kind, Tally};
use super::super::prober::{self, Target};
use super::{Report, Worker};

impl Worker {
    pub(super) fn start_probes(&mut self, index: usize, kinds: &[Kind]) {
        let Some(spec) = self.spec(index) else { return };
        let Some(run) = self.state.containers.get(index).map(|c| c.restart_count) else {
            return;
        };
        let Some(live) = self.containers.get_mut(&index) else {
            return;
        };
        for kind in kinds {
            let Some(probe) = probe::probe(&spec, *kind) else {
                continue;
            };
            let target = Target {
                pod_ip: self.state.ip.to_string(),
                shim: self.agent.shim.clone(),
                around: live.around.clone(),
                reapers: self.agent.reapers.clone(),
            };
            live.tallies
                .push((*kind, probe.clone(), Tally::new(&probe)));
            let (kind, reporter) = (*kind, self.reporter.clone());
            let task = tokio::spawn(async move {
                sleep(probe.initial_delay).await;
                let mut ticks = interval(probe.period);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let result = prober::run(&probe.check, &target, probe.timeout).await;
                    if reporter
                        .send(Report::Probed {
                            index,
                            run,
                            kind,
                            result,
                        })
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            });
            live.probes.push(task.abort_handle());
        }
    }

    pub(super) fn probed(
        &mut self,
        index: usize,
        run: i32,
        kind: Kind,
        result: Result<(), String>,
    ) {
        let Some(container) = self.state.containers.get_mut(index) else {
            return;
        };
        let Some(live) = self.containers.get_mut(&index) else {
            return;
        };
        // Late news of an earlier run, or of one that is being stopped.
        if container.restart_count != run || live.stopping {
            return;
        }
        let Some((_, probe, tally)) = live.tallies.iter_mut().find(|(k, ..)| *k == kind) else {
            return;
        };
        let verdict = tally.observe(result.is_ok());
        let grace = probe.grace;
        let mut restart = false;
        match (kind, verdict) {
            (_, None) | (Kind::Liveness, Some(true)) => {}
            (Kind::Readiness, Some(ready)) => container.probed_ready = ready,
            (Kind::Startup, Some(true)) => {
                container.started = true;
                live.probes.drain(..).for_each(|task| task.abort());
                live.tallies.clear();
            }
            (Kind::Liveness | Kind::Startup, Some(false)) => restart = true,
        }
        let started = kind == Kind::Startup && verdict == Some(true);
        let name = container.name.clone();
        if let Err(problem) = result {
            self.record(
                index,
                Level::Warning,
                "Unhealthy",
                format!("{} probe failed: {problem}", kind.title()),
            );
        }
        if started {
            self.start_probes(index, &[Kind::Liveness, Kind::Readiness]);
        }
        if restart {
            let what = kind.title().to_lowercase();
            self.record(
                index,
                Level::Normal,
                "Killing",
                format!("Container {name} failed {what} probe, will be restarted"),
            );
            let grace = grace.unwrap_or_else(|| self.grace());
            self.stop_container(index, Instant::now() + grace);
        }
    }
}
