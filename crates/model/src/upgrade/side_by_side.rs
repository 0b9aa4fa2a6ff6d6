//! Side by side: the successor starts next to the old pod, proves itself, takes over, and the old
//! pod goes when nobody uses it any more. Revocable until then.

use super::act::{
    abort, called_off, delete, finish, is_stuck, patch, patch_state, put_upgrade, show, taken_back,
    wait_for_end,
};
use super::pair::{Pair, next_successor};
use super::{DeleteReason, Observed, Plan, Refusal, Wait, Write, drain};
use crate::container::Trouble;
use crate::operation::State;
use crate::pod::{PodView, UpgradeState};
use crate::record::{Phase, Upgrade, pod_object};
use crate::{UnixSeconds, keys, select};

/// A successor that stops being Ready so often before commit is given up.
const READY_LOSSES: u32 = 3;
/// A successor whose containers failed so often is given up.
const RESTARTS: u32 = 5;
/// A successor that is not Ready for so long after commit is given up, in seconds.
const UNREADY_AFTER_COMMIT: i64 = 30;
/// How far the clocks of nodes may be ahead, in seconds.
const MOST_AHEAD: i64 = 60;

pub(super) fn plan(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    mine: &[&PodView],
    now: UnixSeconds,
) -> Plan {
    let pods = Pair::find(upgrade, mine);
    if let Some(plan) = show(observed, upgrade) {
        return plan;
    }
    match &upgrade.phase {
        Phase::Starting => starting(observed, upgrade, pods, now),
        Phase::Committed { at } => committed(observed, upgrade, pods, mine, *at, now),
        Phase::Aborting { at, why } => aborting(observed, upgrade, pods, *at, why, now),
        // Steps of a recreate, which no version writes into an upgrade side by side.
        Phase::Probing { .. }
        | Phase::Quiescing { .. }
        | Phase::Replacing
        | Phase::Released
        | Phase::Restoring { .. } => starting(observed, upgrade, pods, now),
    }
}

fn starting(observed: &Observed<'_>, upgrade: &Upgrade, pods: Pair<'_>, now: UnixSeconds) -> Plan {
    let record = observed.record;
    let late = now >= upgrade.deadline;
    let limit = upgrade.deadline - upgrade.started_at;
    let too_late = |trouble: Option<Trouble>| {
        let why = trouble.unwrap_or_else(|| {
            Trouble::new(
                "DeadlineExceeded",
                format!("the new pod was not ready within {limit} s"),
            )
        });
        abort(record, now, why)
    };
    if let Some(plan) = called_off(record, upgrade, now) {
        return plan;
    }
    let Some(pod) = pods.successor else {
        if upgrade.successor.uid.is_some() {
            return abort(record, now, deleted());
        }
        if late {
            return too_late(None);
        }
        match observed.refusal(&upgrade.successor.name) {
            Some(Refusal::NameTaken) => return next_successor(record),
            Some(Refusal::Rejected(trouble)) => return abort(record, now, trouble.clone()),
            None => {}
        }
        let object = pod_object(
            &upgrade.manifest,
            &record.namespace,
            &upgrade.successor,
            Some(upgrade),
        );
        return Plan::write(Write::CreatePod { object });
    };
    if upgrade.successor.uid.as_ref() != Some(&pod.uid) {
        let uid = pod.uid.clone();
        return put_upgrade(record, |upgrade| upgrade.successor.uid = Some(uid));
    }
    if pod.deleting {
        return abort(record, now, deleted());
    }
    if !pod.is_live() {
        let ended = pod.trouble.clone();
        return abort(
            record,
            now,
            ended.unwrap_or_else(|| Trouble::new("PodEnded", "the new pod ended")),
        );
    }
    if select::is_routable(pod) {
        if !upgrade.ready_seen {
            return put_upgrade(record, |upgrade| upgrade.ready_seen = true);
        }
        let settled = since(pod, now).saturating_add(i64::from(upgrade.timing.settle));
        if now >= settled {
            return put_upgrade(record, |upgrade| {
                upgrade.phase = Phase::Committed { at: now }
            });
        }
        return Plan::wait_until(
            Wait::Settling {
                left: settled - now,
            },
            settled,
        );
    }
    if upgrade.ready_seen {
        if upgrade.ready_losses + 1 >= READY_LOSSES {
            let why = format!(
                "the new pod stopped being ready {READY_LOSSES} times before it could take over"
            );
            return abort(
                record,
                now,
                pod.trouble
                    .clone()
                    .unwrap_or_else(|| Trouble::new("ReadinessLost", why)),
            );
        }
        return put_upgrade(record, |upgrade| {
            upgrade.ready_seen = false;
            upgrade.ready_losses += 1;
        });
    }
    if late {
        return too_late(pod.trouble.clone());
    }
    if let Some(trouble) = &pod.trouble
        && (trouble.is_final() || pod.restarts >= RESTARTS)
    {
        return abort(record, now, trouble.clone());
    }
    let taken = now.saturating_sub(upgrade.started_at);
    Plan::wait_until(
        Wait::Starting {
            trouble: pod.trouble.clone(),
            taken,
            limit: Some(limit),
        },
        upgrade.deadline,
    )
}

fn deleted() -> Trouble {
    Trouble::new(
        "PodDeleted",
        "the new pod was deleted before it could take over",
    )
}

fn committed(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    pods: Pair<'_>,
    mine: &[&PodView],
    at: UnixSeconds,
    now: UnixSeconds,
) -> Plan {
    let record = observed.record;
    let Some(source) = pods.source else {
        return finish(observed.record, upgrade, State::Succeeded, None, now);
    };
    let live = pods.successor.filter(|pod| pod.is_live());
    if source.deleting {
        // That cannot be taken back. A new pod that is lost now is replaced at once, and a node that
        // does not answer holds up nobody.
        return if live.is_none() || is_stuck(source, now) {
            finish(observed.record, upgrade, State::Succeeded, None, now)
        } else {
            wait_for_end(source, now)
        };
    }
    if source.is_live()
        && let Some(plan) = called_off(record, upgrade, now)
    {
        return plan;
    }
    let Some(pod) = live else {
        return if source.is_live() {
            abort(
                record,
                now,
                Trouble::new("PodLost", "the new pod was lost after it had taken over"),
            )
        } else {
            finish(observed.record, upgrade, State::Succeeded, None, now)
        };
    };
    if pod.state != UpgradeState::Committed {
        return patch_state(pod, UpgradeState::Committed);
    }
    if !select::is_routable(pod) && source.is_live() {
        let limit = since(pod, now).max(at).saturating_add(UNREADY_AFTER_COMMIT);
        if now < limit {
            return Plan::wait_until(Wait::Unready { left: limit - now }, limit);
        }
        let why = format!(
            "the new pod was not ready for {UNREADY_AFTER_COMMIT} s after it had taken over"
        );
        return abort(
            record,
            now,
            pod.trouble
                .clone()
                .unwrap_or_else(|| Trouble::new("ReadinessLost", why)),
        );
    }
    let active = select::active(mine.iter().copied());
    if source.is_live() && active.is_none_or(|active| active.uid == source.uid) {
        // Something newer than both would be odd; the old pod is kept until it is routed past.
        return Plan::wait(Wait::Duplicates { extra: 1 });
    }
    if let Some(wait) = drained(observed, upgrade, source, at, now) {
        return wait;
    }
    // A successor that flaps after commit has to prove itself once more before the way back is gone.
    let settled = since(pod, now).saturating_add(i64::from(upgrade.timing.settle));
    if source.is_live() && now < settled && now < drain_bound(upgrade, at) {
        let left = settled - now;
        return Plan::wait_until(Wait::Settling { left }, settled);
    }
    delete(source, DeleteReason::Superseded)
}

fn aborting(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    pods: Pair<'_>,
    at: UnixSeconds,
    why: &Trouble,
    now: UnixSeconds,
) -> Plan {
    if let Some(source) = pods.source.filter(|pod| pod.is_live()) {
        let text = why.to_string();
        let marked =
            upgrade.cancelled.is_some() || source.last_upgrade_error.as_ref() == Some(&text);
        if !marked {
            return patch(source, Vec::new(), vec![(keys::LAST_UPGRADE_ERROR, text)]);
        }
        let Some(pod) = pods.successor else {
            return finish(
                observed.record,
                upgrade,
                taken_back(upgrade),
                Some(why.clone()),
                now,
            );
        };
        if pod.deleting && is_stuck(pod, now) {
            return finish(
                observed.record,
                upgrade,
                taken_back(upgrade),
                Some(why.clone()),
                now,
            );
        }
        if pod.deleting {
            return wait_for_end(pod, now);
        }
        if pod.state != UpgradeState::Aborted {
            return patch_state(pod, UpgradeState::Aborted);
        }
        return drained(observed, upgrade, pod, at, now)
            .unwrap_or_else(|| delete(pod, DeleteReason::Aborted));
    }
    // The original is gone too. The record goes back to it, its next generation is created, and
    // the failed successor is tidied away when that one serves: never the last pod.
    finish(
        observed.record,
        upgrade,
        taken_back(upgrade),
        Some(why.clone()),
        now,
    )
}

/// Since when the pod is Ready, or is not. Its node says so by a clock of its own; one that is far
/// ahead says nothing, and the time of creation, which is the API server's, stands in.
fn since(pod: &PodView, now: UnixSeconds) -> UnixSeconds {
    if pod.ready.since > now.saturating_add(MOST_AHEAD) {
        pod.created
    } else {
        pod.ready.since
    }
}

/// When a drain that began then ends whatever is open.
fn drain_bound(upgrade: &Upgrade, from: UnixSeconds) -> UnixSeconds {
    from.saturating_add(i64::from(upgrade.timing.drain_timeout))
}

/// What still keeps the pod; `None`: nothing, or the bound has passed.
fn drained(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    pod: &PodView,
    from: UnixSeconds,
    now: UnixSeconds,
) -> Option<Plan> {
    let use_ = drain::in_use(&pod.uid, observed.proxies);
    let bound = drain_bound(upgrade, from);
    (!use_.is_none() && now < bound && pod.is_live()).then(|| {
        let reason = Wait::Draining {
            sessions: use_.sessions,
            routing: use_.routing,
            silent: use_.silent,
            left: bound - now,
        };
        // The proxies do not call: their facts are asked for again soon.
        Plan::wait_until(reason, bound.min(now.saturating_add(1)))
    })
}
