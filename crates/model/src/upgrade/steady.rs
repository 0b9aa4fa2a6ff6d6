//! Workspaces that are not being upgraded: one pod if it should run, none if it should not.

use super::act::{delete, last_upgrade, patch, patch_state, put, release, wait_for_end};
use super::{DeleteReason, Observed, Plan, Refusal, Wait, Write, drain, recreate};
use crate::container::Trouble;
use crate::pod::{PodView, UpgradeState};
use crate::record::{Desired, PlannedPod, Record, gate, pod_object};
use crate::{UnixSeconds, bulk, keys, select};

/// A pod that ran for so long counts as having run well.
const WELL: i64 = 600;
/// Longest pause before a vanished pod is replaced, in seconds.
const MAX_PAUSE: i64 = 300;
/// Pause before a pod that the API server refused is asked for again, in seconds.
const REJECTED_PAUSE: i64 = 15;

/// The workspace should run.
pub(super) fn keep(observed: &Observed<'_>, mine: &[&PodView], now: UnixSeconds) -> Plan {
    let record = observed.record;
    let Some(uid) = record.pod.uid.as_deref() else {
        return create(observed, mine, now);
    };
    let Some(pod) = mine.iter().find(|pod| pod.uid == uid && pod.is_live()) else {
        return take_over(record, mine).unwrap_or_else(|| replace(record, mine, now));
    };
    // An upgrade that ended early may have left its gate, or its mark.
    if pod.gated {
        return if record.exclusive {
            make_way(mine, &pod.uid, now).unwrap_or_else(|| release(pod))
        } else {
            release(pod)
        };
    }
    let unmarked = match pod.state {
        UpgradeState::Committed => true,
        UpgradeState::Candidate => !select::is_routable(pod),
        UpgradeState::Quiesced | UpgradeState::Aborted => false,
    };
    if !unmarked {
        return patch_state(pod, UpgradeState::Committed);
    }
    if let Some(text) = last_upgrade(record)
        && pod.last_upgrade.as_ref() != Some(&text)
    {
        return patch(pod, Vec::new(), vec![(keys::LAST_UPGRADE, text)]);
    }
    if let Some(plan) = tidy(observed, pod, mine) {
        return plan;
    }
    if let Some(plan) = drop_claims(record) {
        return plan;
    }
    if select::is_routable(pod) {
        return Plan::Done;
    }
    let taken = now.saturating_sub(pod.created);
    Plan::wait(Wait::Starting {
        trouble: pod.trouble.clone(),
        taken,
        limit: None,
    })
}

/// The planned pod was never seen: it is adopted if it exists, else created.
fn create(observed: &Observed<'_>, mine: &[&PodView], now: UnixSeconds) -> Plan {
    let record = observed.record;
    let planned = &record.pod;
    let next = |change: &dyn Fn(&mut Record)| {
        let mut next = record.clone();
        change(&mut next);
        put(next)
    };
    match mine.iter().find(|pod| pod.name == planned.name) {
        Some(pod) if pod.is_live() && pod.generation == planned.generation => {
            let uid = pod.uid.clone();
            next(&|record| record.pod.uid = Some(uid.clone()))
        }
        Some(_) => next(&Record::plan_next_pod),
        None if record.exclusive
            && let Some(plan) = instead(record, mine, now) =>
        {
            plan
        }
        None => match observed.refusal(&planned.name) {
            Some(Refusal::NameTaken) => next(&Record::plan_next_pod),
            // It may be the workspace's own pods that use the quota up. Those that serve nobody make
            // room.
            Some(Refusal::Rejected(trouble))
                if bulk::is_quota(trouble)
                    && select::active(mine.iter().copied()).is_none()
                    && let Some(plan) = instead(record, mine, now) =>
            {
                plan
            }
            Some(Refusal::Rejected(trouble)) => {
                let reason = Wait::Rejected {
                    trouble: trouble.clone(),
                };
                Plan::wait_until(reason, now.saturating_add(REJECTED_PAUSE))
            }
            None => {
                let mut object = pod_object(&record.manifest, &record.namespace, planned, None);
                // A create may arrive late, when another pod holds the volume by now: behind the
                // gate it harms nobody.
                if record.exclusive {
                    gate(&mut object);
                }
                Plan::write(Write::CreatePod { object })
            }
        },
    }
}

/// What comes before a create as long as there are other pods: one of them will do as well, or they
/// make way.
fn instead(record: &Record, mine: &[&PodView], now: UnixSeconds) -> Option<Plan> {
    take_over(record, mine).or_else(|| make_way(mine, "", now))
}

/// Another pod of the workspace that will do as well as the planned one: same template, same
/// version, and no upgrade's candidate. It becomes the workspace's own, unless there is a newer one
/// that would take the traffic from it.
fn take_over(record: &Record, mine: &[&PodView]) -> Option<Plan> {
    let serves = |pod: &&PodView| {
        let given_up = matches!(pod.state, UpgradeState::Aborted | UpgradeState::Quiesced);
        pod.is_live() && !pod.gated && !given_up
    };
    let newest = mine
        .iter()
        .copied()
        .filter(serves)
        .max_by_key(|pod| select::order(pod))?;
    fits(record, newest).then(|| own(record, newest))
}

fn fits(record: &Record, pod: &PodView) -> bool {
    pod.is_live()
        && !pod.gated
        && pod.state == UpgradeState::Committed
        && pod.template == record.template
}

/// Makes the pod the workspace's own.
fn own(record: &Record, pod: &PodView) -> Plan {
    let mut next = record.clone();
    next.generation = next.generation.max(pod.generation);
    next.pod = PlannedPod {
        name: pod.name.clone(),
        generation: pod.generation,
        uid: Some(pod.uid.clone()),
    };
    put(next)
}

/// Only one pod can hold what the workspace needs: whatever else may hold it goes first.
fn make_way(mine: &[&PodView], next: &str, now: UnixSeconds) -> Option<Plan> {
    let why = DeleteReason::Blocking;
    recreate::clear(mine, next, UpgradeState::Quiesced, why, now)
}

/// The workspace's pod vanished or ended: the next generation replaces it, after a pause that
/// doubles while pods keep vanishing.
fn replace(record: &Record, mine: &[&PodView], now: UnixSeconds) -> Plan {
    let last = record.replacements.last_at;
    // A time far ahead was told by a clock that has been set right since.
    let lately = now.saturating_sub(last) < WELL && last <= now.saturating_add(MAX_PAUSE);
    let count = if lately { record.replacements.count } else { 0 };
    if count > 0 {
        let pause = 1_i64
            .checked_shl(count.min(16))
            .unwrap_or(MAX_PAUSE)
            .min(MAX_PAUSE);
        let due = last.saturating_add(pause);
        if now < due {
            return Plan::wait_until(Wait::BackOff { left: due - now }, due);
        }
    }
    let mut next = record.clone();
    next.replacements.count = count.saturating_add(1);
    next.replacements.last_at = now;
    // It must beat whatever else is there.
    let greatest = mine.iter().map(|pod| pod.generation).max().unwrap_or(0);
    next.generation = next.generation.max(greatest);
    next.plan_next_pod();
    put(next)
}

/// Pods of the workspace beside its own: those that ended go at once, living ones when traffic is
/// routed past them and nobody uses them.
fn tidy(observed: &Observed<'_>, current: &PodView, mine: &[&PodView]) -> Option<Plan> {
    let others = || {
        mine.iter()
            .filter(|pod| pod.uid != current.uid && !pod.deleting)
    };
    if let Some(ended) = others().find(|pod| !pod.is_live()) {
        return Some(delete(ended, DeleteReason::Ended));
    }
    let record = observed.record;
    let active = select::active(mine.iter().copied());
    // Traffic went to another one that will do as well: then that one is the workspace's own.
    if let Some(active) = active
        && active.uid != current.uid
        && fits(record, active)
    {
        return Some(own(record, active));
    }
    // The next upgrade's pod must beat them all. What a newer record than this one planned is no
    // stray: then this write is refused, before anything is done to that pod.
    let greatest = others().map(|pod| pod.generation).max().unwrap_or(0);
    if greatest > record.generation {
        let mut next = record.clone();
        next.generation = greatest;
        return Some(put(next));
    }
    // What cannot serve anybody only takes the room that the workspace's own pod may need.
    let useless = |pod: &&&PodView| {
        let given_up = pod.trouble.as_ref().is_some_and(Trouble::is_hopeless);
        pod.gated || (given_up && !select::is_routable(pod))
    };
    if active.is_none()
        && let Some(pod) = others().find(useless)
    {
        return Some(delete(pod, DeleteReason::Blocking));
    }
    // Neither the candidate of an upgrade that has ended, created late, nor a pod of another version
    // that no record knows of takes traffic from the workspace's own pod.
    let usurps = |pod: &&&PodView| {
        let late = pod.state == UpgradeState::Candidate && !pod.gated;
        late || (select::is_routable(pod) && select::order(pod) > select::order(current))
    };
    if select::is_routable(current)
        && let Some(pod) = others().find(usurps)
    {
        return Some(patch_state(pod, UpgradeState::Aborted));
    }
    let past = active.is_some_and(|active| active.uid == current.uid);
    let unused = |pod: &&&PodView| drain::in_use(&pod.uid, observed.proxies).is_none();
    if past && let Some(pod) = others().find(unused) {
        return Some(delete(pod, DeleteReason::Duplicate));
    }
    let extra = others().count();
    (extra > 0).then(|| Plan::wait(Wait::Duplicates { extra }))
}

/// Claims that a failed upgrade left.
fn drop_claims(record: &Record) -> Option<Plan> {
    if record.unused_claims.is_empty() {
        return None;
    }
    let mut next = record.clone();
    next.unused_claims.clear();
    Some(Plan::write(Write::DropClaims(Box::new(next))))
}

/// The workspace should not run: its pods go, and with a deletion its record.
pub(super) fn wind_down(observed: &Observed<'_>, mine: &[&PodView], now: UnixSeconds) -> Plan {
    let record = observed.record;
    let deleted = record.desired == Desired::Deleted;
    let why = if deleted {
        DeleteReason::Deleted
    } else {
        DeleteReason::Stopped
    };
    if let Some(pod) = mine.iter().find(|pod| !pod.deleting) {
        return delete(pod, why);
    }
    match mine.first() {
        Some(pod) => wait_for_end(pod, now),
        None if deleted => bury(observed, now),
        None => drop_claims(record).unwrap_or(Plan::Done),
    }
}

/// Nothing is left of a deleted workspace but its record, which stays a while as a tombstone.
fn bury(observed: &Observed<'_>, now: UnixSeconds) -> Plan {
    let record = observed.record;
    if let Some(probe) = observed.probes.first() {
        let pod = probe.name.clone();
        return Plan::wait(Wait::Terminating { pod });
    }
    if !record.is_gone() {
        let mut next = record.clone();
        next.gone_at = Some(now);
        return Plan::write(Write::Bury(Box::new(next)));
    }
    let Some(due) = record.free_at() else {
        return Plan::Done;
    };
    if now < due {
        return Plan::wait_until(Wait::Buried { left: due - now }, due);
    }
    Plan::write(Write::DeleteRecord)
}
