//! Recreate: for pods that hold what only one pod can. The successor is created behind a gate, so
//! that what the API server refuses is refused while nothing is lost yet; then the old pod takes no
//! new requests, goes, and once it is gone the gate is taken off. If the successor fails, the old
//! manifest comes back the same way.
//!
//! Never are there two pods at once that may hold the claim.

use super::act::{
    abort, called_off, delete, finish, is_stuck, patch, patch_state, put, put_upgrade, release,
    show, taken_back, wait_for_end,
};
use super::pair::{Pair, made, next_successor};
use super::{DeleteReason, Observed, Plan, Refusal, Wait, Write, check, drain};
use crate::container::Trouble;
use crate::operation::State;
use crate::pod::{PodView, UpgradeState};
use crate::record::{Phase, PlannedPod, Record, Upgrade, pod_object};
use crate::{UnixSeconds, keys, name, select};

/// How long requests under way may keep the old pod, in seconds. Others are held meanwhile.
const IN_FLIGHT: i64 = 10;
/// A successor whose containers failed so often is given up: nothing serves meanwhile.
const RESTARTS: u32 = 3;

pub(super) fn plan(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    mine: &[&PodView],
    now: UnixSeconds,
) -> Plan {
    if let Some(plan) = show(observed, upgrade) {
        return plan;
    }
    if matches!(
        upgrade.phase,
        Phase::Probing { .. } | Phase::Starting | Phase::Quiescing { .. }
    ) && let Some(plan) = called_off(observed.record, upgrade, now)
    {
        return plan;
    }
    let step = Step {
        observed,
        record: observed.record,
        upgrade,
        mine,
        pair: Pair::find(upgrade, mine),
        now,
    };
    match &upgrade.phase {
        Phase::Probing { probe } => check::probing(observed, upgrade, step.pair.source, probe, now),
        Phase::Starting => step.starting(),
        Phase::Quiescing { at } => step.quiescing(*at),
        Phase::Replacing => step.replacing(),
        Phase::Released | Phase::Committed { .. } => step.released(),
        Phase::Restoring { why, restored } => step.restoring(why, restored),
        Phase::Aborting { why, .. } => step.aborting(why),
    }
}

struct Step<'a> {
    observed: &'a Observed<'a>,
    record: &'a Record,
    upgrade: &'a Upgrade,
    mine: &'a [&'a PodView],
    pair: Pair<'a>,
    now: UnixSeconds,
}

impl Step<'_> {
    /// The successor is made, behind its gate.
    fn starting(&self) -> Plan {
        let Some(pod) = self.pair.successor else {
            if self.now >= self.upgrade.deadline {
                let why = "the cluster did not take the new pod in time";
                return abort(self.record, self.now, Trouble::new("DeadlineExceeded", why));
            }
            return self.create_successor(|why| abort(self.record, self.now, why));
        };
        if self.upgrade.successor.uid.as_ref() != Some(&pod.uid) {
            let uid = pod.uid.clone();
            return put_upgrade(self.record, |upgrade| upgrade.successor.uid = Some(uid));
        }
        if let Some(why) = lost(pod) {
            return abort(self.record, self.now, why);
        }
        self.to(match self.pair.source {
            Some(source) if source.is_live() => Phase::Quiescing { at: self.now },
            _ => Phase::Replacing,
        })
    }

    /// The old pod takes no new requests; those under way get a moment.
    fn quiescing(&self, at: UnixSeconds) -> Plan {
        let Some(source) = self.pair.source.filter(|pod| pod.is_live()) else {
            return self.to(Phase::Replacing);
        };
        if let Some(why) = self.successor_lost() {
            return abort(self.record, self.now, why);
        }
        if source.state != UpgradeState::Quiesced {
            return patch_state(source, UpgradeState::Quiesced);
        }
        let use_ = drain::in_use(&source.uid, self.observed.proxies);
        let behind = use_.silent.saturating_add(use_.routing);
        let bound = at.saturating_add(IN_FLIGHT);
        if (use_.requests > 0 || behind > 0) && self.now < bound {
            let reason = Wait::Quiescing {
                requests: use_.requests,
                behind,
                left: bound - self.now,
            };
            // The proxies do not call: their facts are asked for again soon.
            return Plan::wait_until(reason, bound.min(self.now.saturating_add(1)));
        }
        self.to(Phase::Replacing)
    }

    /// The old pod goes; the successor is let go once nothing holds the claim any more.
    fn replacing(&self) -> Plan {
        let unharmed = self.pair.source.filter(|pod| pod.is_live());
        if let Some(why) = self.successor_lost() {
            if unharmed.is_some() {
                return abort(self.record, self.now, why);
            }
            // The old pod is as good as gone: another successor takes the place of the lost one.
            return match self.pair.successor {
                Some(_) => next_successor(self.record),
                None => self.create_successor(|why| self.restore(why)),
            };
        }
        let Some(successor) = self.pair.successor else {
            return self.restore(Trouble::new("PodLost", "the new pod was lost"));
        };
        if self.upgrade.successor.uid.as_ref() != Some(&successor.uid) {
            let uid = successor.uid.clone();
            return put_upgrade(self.record, |upgrade| upgrade.successor.uid = Some(uid));
        }
        if let Some(plan) = clear(
            self.mine,
            &successor.uid,
            UpgradeState::Quiesced,
            DeleteReason::Superseded,
            self.now,
        ) {
            return plan;
        }
        put_upgrade(self.record, |upgrade| {
            upgrade.phase = Phase::Released;
            upgrade.deadline = self.now.saturating_add(i64::from(upgrade.timing.deadline));
        })
    }

    /// The successor has to become Ready.
    fn released(&self) -> Plan {
        let Some(pod) = self.pair.successor else {
            let why = "the new pod was deleted before it could take over";
            return self.restore(Trouble::new("PodDeleted", why));
        };
        if pod.deleting || !pod.is_live() {
            return self.restore(lost(pod).unwrap_or_else(|| {
                Trouble::new("PodLost", "the new pod was lost before it could take over")
            }));
        }
        if pod.gated {
            // Whatever has appeared since the way was clear goes first.
            let mut others = self.mine.iter().filter(|other| other.uid != pod.uid);
            return if others.any(|other| other.may_hold()) {
                self.to(Phase::Replacing)
            } else {
                release(pod)
            };
        }
        if select::is_routable(pod) {
            return match pod.state {
                UpgradeState::Committed => {
                    finish(self.record, self.upgrade, State::Succeeded, None, self.now)
                }
                _ => patch_state(pod, UpgradeState::Committed),
            };
        }
        let limit = i64::from(self.upgrade.timing.deadline);
        let hopeless = pod
            .trouble
            .as_ref()
            .filter(|trouble| trouble.is_hopeless() || pod.restarts >= RESTARTS);
        if let Some(why) = hopeless {
            return self.restore(why.clone());
        }
        if self.now >= self.upgrade.deadline {
            let why = pod.trouble.clone().unwrap_or_else(|| {
                let text = format!("the new pod was not ready within {limit} s");
                Trouble::new("DeadlineExceeded", text)
            });
            return self.restore(why);
        }
        let began = self.upgrade.deadline.saturating_sub(limit);
        let reason = Wait::Starting {
            trouble: pod.trouble.clone(),
            taken: self.now.saturating_sub(began),
            limit: Some(limit),
        };
        Plan::wait_until(reason, self.upgrade.deadline)
    }

    /// The old manifest comes back: created behind the gate before the failed pod is deleted, let go
    /// once that is gone.
    fn restoring(&self, why: &Trouble, restored: &PlannedPod) -> Plan {
        let done = || {
            finish(
                self.record,
                self.upgrade,
                State::Failed,
                Some(why.clone()),
                self.now,
            )
        };
        let Some(pod) = made(self.upgrade, restored, self.mine) else {
            if restored.uid.is_some() {
                // It was there and is gone: from here on it is like any pod that was lost.
                return done();
            }
            return match self.observed.refusal(&restored.name) {
                Some(Refusal::NameTaken) => self.restore(why.clone()),
                // It may be the failed pod that is in the way, of a quota for one: without an
                // upgrade that one goes first, and this create is tried again and again.
                Some(Refusal::Rejected(_)) => done(),
                None => self.create_restored(why, restored),
            };
        };
        if restored.uid.as_ref() != Some(&pod.uid) {
            let uid = pod.uid.clone();
            return put_upgrade(self.record, |upgrade| {
                if let Phase::Restoring { restored, .. } = &mut upgrade.phase {
                    restored.uid = Some(uid);
                }
            });
        }
        if !pod.is_live() {
            return done();
        }
        if let Some(plan) = clear(
            self.mine,
            &pod.uid,
            UpgradeState::Aborted,
            DeleteReason::Aborted,
            self.now,
        ) {
            return plan;
        }
        if pod.gated { release(pod) } else { done() }
    }

    /// Given up before any harm: the old pod serves again.
    fn aborting(&self, why: &Trouble) -> Plan {
        if let Some(source) = self.pair.source.filter(|pod| pod.is_live()) {
            let text = why.to_string();
            let marked = self.upgrade.cancelled.is_some()
                || source.last_upgrade_error.as_ref() == Some(&text);
            if !marked || source.state == UpgradeState::Quiesced {
                let committed = UpgradeState::Committed.as_str().to_owned();
                let error = (!marked).then_some((keys::LAST_UPGRADE_ERROR, text));
                return patch(
                    source,
                    vec![(keys::UPGRADE_STATE, committed)],
                    error.into_iter().collect(),
                );
            }
        }
        match self.pair.successor {
            Some(pod) if pod.deleting && !is_stuck(pod, self.now) => wait_for_end(pod, self.now),
            Some(pod) if !pod.deleting && pod.state != UpgradeState::Aborted => {
                patch_state(pod, UpgradeState::Aborted)
            }
            Some(pod) if !pod.deleting && self.pair.source.is_some_and(PodView::is_live) => {
                delete(pod, DeleteReason::Aborted)
            }
            // With the original gone too, the workspace's next pod clears it away; and one that is
            // stuck takes nothing from the original.
            Some(_) | None => finish(
                self.record,
                self.upgrade,
                taken_back(self.upgrade),
                Some(why.clone()),
                self.now,
            ),
        }
    }

    fn to(&self, phase: Phase) -> Plan {
        put_upgrade(self.record, |upgrade| upgrade.phase = phase)
    }

    fn create_successor(&self, rejected: impl FnOnce(Trouble) -> Plan) -> Plan {
        if self.upgrade.successor.uid.is_some() {
            return next_successor(self.record);
        }
        match self.observed.refusal(&self.upgrade.successor.name) {
            Some(Refusal::NameTaken) => next_successor(self.record),
            Some(Refusal::Rejected(trouble)) => rejected(trouble.clone()),
            None => {
                let object = pod_object(
                    &self.upgrade.manifest,
                    &self.record.namespace,
                    &self.upgrade.successor,
                    Some(self.upgrade),
                );
                Plan::write(Write::CreatePod { object })
            }
        }
    }

    fn create_restored(&self, why: &Trouble, restored: &PlannedPod) -> Plan {
        let mut manifest = self.record.manifest.clone();
        let path = ["metadata", "annotations", keys::LAST_UPGRADE_ERROR];
        crate::record::set(&mut manifest, &path, serde_json::json!(why.to_string()));
        let object = pod_object(
            &manifest,
            &self.record.namespace,
            restored,
            Some(self.upgrade),
        );
        Plan::write(Write::CreatePod { object })
    }

    fn restore(&self, why: Trouble) -> Plan {
        let mut next = self.record.clone();
        next.generation = next.generation.saturating_add(1);
        let restored = PlannedPod {
            name: name::spawned_pod(
                &next.owner,
                &next.id,
                &next.namespace,
                next.since,
                next.generation,
            ),
            generation: next.generation,
            uid: None,
        };
        if let Some(upgrade) = &mut next.upgrade {
            upgrade.phase = Phase::Restoring { why, restored };
        }
        put(next)
    }

    /// Why the gated successor will not do, if it will not.
    fn successor_lost(&self) -> Option<Trouble> {
        match self.pair.successor {
            Some(pod) => lost(pod),
            None => Some(Trouble::new(
                "PodDeleted",
                "the new pod was deleted before it could take over",
            )),
        }
    }
}

/// Why a pod that should wait behind its gate will not do, if it will not.
fn lost(pod: &PodView) -> Option<Trouble> {
    if pod.deleting {
        let why = "the new pod was deleted before it could take over";
        return Some(Trouble::new("PodDeleted", why));
    }
    if !pod.is_live() {
        let ended = || Trouble::new("PodEnded", "the new pod ended");
        return Some(pod.trouble.clone().unwrap_or_else(ended));
    }
    pod.may_hold().then(|| {
        let why = "somebody took the scheduling gate off the new pod while the old one still ran";
        Trouble::new("GateRemoved", why)
    })
}

/// Clears the way for pod `next`: every other pod is taken out of routing and deleted, and those
/// that may hold what only one can are waited for. One behind its gate holds nothing, and never
/// will once it is being deleted. `None`: the way is clear.
pub(super) fn clear(
    mine: &[&PodView],
    next: &str,
    state: UpgradeState,
    why: DeleteReason,
    now: UnixSeconds,
) -> Option<Plan> {
    let others = || mine.iter().filter(|pod| pod.uid != next);
    if let Some(pod) = others().find(|pod| !pod.deleting) {
        return Some(if !pod.is_live() {
            delete(pod, DeleteReason::Ended)
        } else if pod.gated || matches!(pod.state, UpgradeState::Quiesced | UpgradeState::Aborted) {
            delete(pod, why)
        } else {
            patch_state(pod, state)
        });
    }
    let mut holders = others().filter(|pod| pod.may_hold());
    holders.next().map(|pod| wait_for_end(pod, now))
}
