//! Checking the new images before a recreate touches anything, by a [probe](crate::probe); and
//! removing probes that nobody waits for.

use super::act::{abort, put_upgrade};
use super::{DeleteReason, Observed, Plan, Refusal, Wait, Write};
use crate::container::Trouble;
use crate::pod::PodView;
use crate::probe::{self, Finding};
use crate::record::{Desired, Phase, PlannedPod, Upgrade, pod_object};
use crate::{UnixSeconds, bulk, select};

/// A probe that the record does not ask for goes.
pub(super) fn tidy(observed: &Observed<'_>) -> Option<Plan> {
    let record = observed.record;
    let phase = record.upgrade.as_ref().map(|upgrade| &upgrade.phase);
    let wanted = match phase {
        Some(Phase::Probing { probe }) if record.desired == Desired::Running => Some(&probe.name),
        _ => None,
    };
    let mut probes = observed.probes.iter();
    let probe = probes.find(|probe| !probe.deleting && Some(&probe.name) != wanted)?;
    Some(Plan::write(Write::DeletePod {
        name: probe.name.clone(),
        uid: probe.uid.clone(),
        resource_version: probe.resource_version.clone(),
        why: DeleteReason::Probe,
    }))
}

/// The probe is made and looked at; then the recreate begins, or has failed with nothing touched.
pub(super) fn probing(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    source: Option<&PodView>,
    planned: &PlannedPod,
    now: UnixSeconds,
) -> Plan {
    let record = observed.record;
    let go_on = || put_upgrade(record, |upgrade| upgrade.phase = Phase::Starting);
    // What serves nobody has nothing to lose by a new version that may not start. A pod whose node
    // fell silent may serve, and could not be replaced before the node is back.
    let serves = |pod: &&PodView| select::is_routable(pod) || pod.unseen;
    let source = source.filter(serves);
    let Some(node) = source.and_then(|pod| pod.node.as_deref()) else {
        return go_on();
    };
    let silence = source.filter(|pod| pod.unseen).map(|_| {
        let text = format!("node {node} does not answer; the pod on it is left alone");
        Trouble::new("NodeNotReady", text)
    });
    let late = now >= upgrade.deadline;
    let limit = upgrade.deadline.saturating_sub(upgrade.started_at);
    let too_late = |trouble: Option<Trouble>| {
        let text = format!("the new image could not be checked within {limit} s");
        let why = trouble.or(silence.clone());
        let why = why.unwrap_or_else(|| Trouble::new("DeadlineExceeded", text));
        abort(record, now, why)
    };
    let Some(probe) = observed
        .probes
        .iter()
        .find(|probe| probe.name == planned.name)
    else {
        return match planned.uid {
            // It was there and somebody removed it: then that is all there is to know.
            Some(_) => go_on(),
            None if late => too_late(None),
            None => create(observed, upgrade, planned, node, now, go_on),
        };
    };
    if planned.uid.as_ref() != Some(&probe.uid) {
        let uid = probe.uid.clone();
        return put_upgrade(record, |upgrade| {
            if let Phase::Probing { probe } = &mut upgrade.phase {
                probe.uid = Some(uid);
            }
        });
    }
    match &probe.finding {
        _ if probe.deleting => go_on(),
        Finding::Pulled | Finding::Turned => go_on(),
        Finding::Nothing(Some(trouble)) if trouble.is_final() => {
            abort(record, now, trouble.clone())
        }
        Finding::Nothing(trouble) if late => too_late(trouble.clone()),
        Finding::Nothing(trouble) => {
            let reason = Wait::Checking {
                trouble: trouble.clone().or(silence),
                taken: now.saturating_sub(upgrade.started_at),
                limit,
            };
            Plan::wait_until(reason, upgrade.deadline)
        }
    }
}

fn create(
    observed: &Observed<'_>,
    upgrade: &Upgrade,
    planned: &PlannedPod,
    node: &str,
    now: UnixSeconds,
    go_on: impl Fn() -> Plan,
) -> Plan {
    let record = observed.record;
    if let Some(Refusal::Rejected(trouble)) = observed.refusal(&upgrade.successor.name) {
        return abort(record, now, trouble.clone());
    }
    match observed.refusal(&planned.name) {
        // There is no room for one more pod: then there is none for the successor.
        Some(Refusal::Rejected(trouble)) if bulk::is_quota(trouble) => {
            abort(record, now, trouble.clone())
        }
        // Rules that the probe breaks are not the successor's fault.
        Some(Refusal::Rejected(_) | Refusal::NameTaken) => go_on(),
        None => {
            let successor = pod_object(
                &upgrade.manifest,
                &record.namespace,
                &upgrade.successor,
                Some(upgrade),
            );
            let object = probe::object(record, upgrade, planned, node);
            Plan::write(Write::CreateProbe {
                object: Box::new(object),
                successor: Box::new(successor),
            })
        }
    }
}
