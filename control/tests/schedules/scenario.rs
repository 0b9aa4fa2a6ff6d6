//! What is asked for, what goes wrong by itself, and how it must end, whatever the schedule.

use crate::kubelet::{BROKEN, CRASHES, FLAPS, FRAGILE, GOOD, MISCONFIGURED, NEVER};
use crate::wire::WORKSPACES;
use nogoo9_model::claim::PlannedClaim;
use nogoo9_model::mode::Mode;
use nogoo9_model::operation::{Kind, State};
use nogoo9_model::pod::TemplateRef;
use nogoo9_model::record::{Intent, Record, Spawn};
use nogoo9_model::template::Timing;
use nogoo9_model::{keys, label};
use serde_json::{Map, Value, json};

/// A value in the manifest's environment that nobody may ever read elsewhere.
pub(crate) const SECRET: &str = "s3cr3t-of-alice";
pub(crate) const OWNER: &str = "alice";

/// When the next act of a script may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// The workspace's pod is ready and nothing is under way.
    Ready,
    /// That holds of all workspaces, or the bulk has begun.
    AllReady,
    /// An upgrade is under way, or over already.
    Upgrading,
    /// Its successor exists, or the upgrade is over already.
    Beside,
    /// New requests go to its successor, or the upgrade is over already.
    Committed,
    /// It was deleted, and nothing is left but the memory of it.
    Gone,
}

/// What somebody does, or what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Spawn,
    Upgrade,
    /// An upgrade is asked for once more, when the template has this version.
    Again(&'static str),
    /// All are upgraded, by one operation; whoever asks first begins it.
    UpgradeAll,
    /// Somebody has the bulk take another turn.
    All(Turn),
    /// The upgrade is called off.
    Cancel,
    /// Back to what was before the upgrade.
    Rollback,
    Stop,
    Start,
    Delete,
    /// A node evicts a pod.
    Evict(Which),
    /// Somebody deletes a pod with kubectl.
    Kill(Which),
    /// A node stops answering for a while; its pods are to be deleted meanwhile.
    Lose(Which),
    /// Somebody makes another pod of the workspace, of this version and generation.
    Stray(&'static str, &'static str),
    /// Another spawner was in the middle of an upgrade.
    Pair,
    /// The namespace may have so many pods from here on.
    Quota(usize),
}

/// What people may do to a bulk under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Pause,
    Resume,
    Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Own,
    Successor,
}

/// How a workspace ends up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// One ready pod, of one of these versions.
    Running(&'static [&'static str]),
    /// A record and no pod.
    Stopped,
    /// Nothing.
    Gone,
}

/// How a bulk goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bulk {
    /// So many at once.
    pub(crate) parallel: u32,
    /// So many first.
    pub(crate) canary: Option<u32>,
    /// So many may fail.
    pub(crate) budget: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) ids: &'static [&'static str],
    /// Whether its pods hold a claim.
    pub(crate) exclusive: bool,
    /// Whether it is in use, through proxies.
    pub(crate) used: bool,
    /// The bulk that upgrades them, where there is one.
    pub(crate) bulk: Option<Bulk>,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) script: &'static [(When, Act)],
    pub(crate) end: End,
    /// How its upgrade may end.
    pub(crate) outcomes: &'static [State],
}

const ONE: &[&str] = &["dev"];
const OLD: End = End::Running(&["v1"]);
const NEW: End = End::Running(&["v2"]);
const EITHER: End = End::Running(&["v1", "v2"]);
const NEWER: End = End::Running(&["v2", "v3"]);
const FAILED: &[State] = &[State::Failed];
const NOT_DONE: &[State] = &[State::Failed, State::Cancelled];
const DONE: &[State] = &[State::Succeeded];
const ANY: &[State] = &[State::Succeeded, State::Failed, State::Cancelled];
const UPGRADE: &[(When, Act)] = &[(When::Now, Act::Spawn), (When::Ready, Act::Upgrade)];

const fn upgrade(
    name: &'static str,
    new: &'static str,
    end: End,
    outcomes: &'static [State],
) -> Scenario {
    Scenario {
        name,
        ids: ONE,
        exclusive: false,
        used: false,
        bulk: None,
        old: GOOD,
        new,
        script: UPGRADE,
        end,
        outcomes,
    }
}

const fn recreate(
    name: &'static str,
    new: &'static str,
    end: End,
    outcomes: &'static [State],
) -> Scenario {
    Scenario {
        exclusive: true,
        ..upgrade(name, new, end, outcomes)
    }
}

/// The same while people use it.
const fn used(scenario: Scenario) -> Scenario {
    Scenario {
        used: true,
        ..scenario
    }
}

const fn then(scenario: Scenario, script: &'static [(When, Act)]) -> Scenario {
    Scenario { script, ..scenario }
}

macro_rules! script {
    ($($when:ident => $act:expr),* $(,)?) => {
        &[(When::Now, Act::Spawn), $((When::$when, $act)),*]
    };
}

/// Upgrades three by one operation, so many at a time.
const fn bulk(scenario: Scenario, parallel: u32) -> Scenario {
    Scenario {
        ids: &["dev", "ops", "web"],
        script: script![AllReady => Act::UpgradeAll],
        bulk: Some(Bulk {
            parallel,
            canary: None,
            budget: None,
        }),
        ..scenario
    }
}

/// All of them.
pub(crate) static ALL: &[Scenario] = &[
    upgrade("beside", GOOD, NEW, DONE),
    upgrade("beside-no-image", BROKEN, OLD, FAILED),
    upgrade("beside-crash-loop", CRASHES, OLD, FAILED),
    upgrade("beside-never-ready", NEVER, OLD, FAILED),
    upgrade("beside-flaps", FLAPS, EITHER, ANY),
    upgrade("beside-no-secret", MISCONFIGURED, OLD, FAILED),
    upgrade("beside-refused", crate::api::REFUSED, OLD, FAILED),
    recreate("recreate", GOOD, NEW, DONE),
    recreate("recreate-no-image", BROKEN, OLD, FAILED),
    recreate("recreate-crash-loop", CRASHES, OLD, FAILED),
    recreate("recreate-never-ready", NEVER, OLD, FAILED),
    recreate("recreate-refused", crate::api::REFUSED, OLD, FAILED),
    Scenario {
        old: FRAGILE,
        ..recreate("restore-fails", CRASHES, OLD, FAILED)
    },
    then(
        upgrade("beside-stopped", GOOD, End::Stopped, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Stop],
    ),
    then(
        recreate("recreate-stopped", GOOD, End::Stopped, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Stop],
    ),
    then(
        recreate("recreate-restarted", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Stop, Now => Act::Start],
    ),
    then(
        upgrade("beside-deleted", GOOD, End::Gone, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Delete],
    ),
    then(
        recreate("recreate-deleted", CRASHES, End::Gone, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Delete],
    ),
    then(
        recreate("spawned-anew", GOOD, OLD, &[]),
        script![Ready => Act::Delete, Gone => Act::Spawn],
    ),
    then(
        upgrade("evicted", GOOD, OLD, &[]),
        script![Ready => Act::Evict(Which::Own), Ready => Act::Kill(Which::Own)],
    ),
    then(
        recreate("evicted-with-claim", GOOD, OLD, &[]),
        script![Ready => Act::Kill(Which::Own), Ready => Act::Evict(Which::Own), Ready => Act::Lose(Which::Own)],
    ),
    then(
        upgrade("original-evicted", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Evict(Which::Own)],
    ),
    then(
        upgrade("candidate-killed", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Beside => Act::Kill(Which::Successor)],
    ),
    then(
        upgrade("both-evicted", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Beside => Act::Evict(Which::Successor), Now => Act::Evict(Which::Own)],
    ),
    then(
        recreate("successor-evicted", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Beside => Act::Evict(Which::Successor)],
    ),
    then(
        recreate("node-lost", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Lose(Which::Own)],
    ),
    then(
        upgrade("quota", GOOD, OLD, FAILED),
        script![Ready => Act::Quota(1), Now => Act::Upgrade],
    ),
    then(
        recreate("quota-with-claim", GOOD, OLD, FAILED),
        script![Ready => Act::Quota(1), Now => Act::Upgrade],
    ),
    then(
        upgrade("stray", GOOD, OLD, &[]),
        script![Ready => Act::Stray("v1", "7"), Ready => Act::Stray("v1", "0")],
    ),
    then(
        upgrade("stray-in-upgrade", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Stray("v1", "0")],
    ),
    then(
        upgrade("pair", GOOD, EITHER, &[]),
        &[(When::Now, Act::Pair)],
    ),
    then(
        upgrade("beside-cancelled", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Cancel],
    ),
    then(
        upgrade("beside-cancelled-waiting", NEVER, OLD, NOT_DONE),
        script![Ready => Act::Upgrade, Beside => Act::Cancel],
    ),
    then(
        recreate("recreate-cancelled", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Upgrading => Act::Cancel],
    ),
    then(
        upgrade("beside-rolled-back", GOOD, OLD, DONE),
        script![Ready => Act::Upgrade, Ready => Act::Rollback],
    ),
    then(
        recreate("recreate-rolled-back", GOOD, OLD, DONE),
        script![Ready => Act::Upgrade, Ready => Act::Rollback],
    ),
    Scenario {
        old: FRAGILE,
        ..then(
            recreate("rollback-fails", GOOD, EITHER, DONE),
            script![Ready => Act::Upgrade, Ready => Act::Rollback],
        )
    },
    then(
        upgrade("beside-asked-twice", GOOD, NEW, DONE),
        script![Ready => Act::Upgrade, Upgrading => Act::Again("v2")],
    ),
    then(
        recreate("recreate-asked-twice", GOOD, NEW, DONE),
        script![Ready => Act::Upgrade, Upgrading => Act::Again("v2")],
    ),
    then(
        upgrade("beside-template-changed", GOOD, NEWER, DONE),
        script![Ready => Act::Upgrade, Upgrading => Act::Again("v3")],
    ),
    then(
        recreate("recreate-template-changed", GOOD, NEWER, DONE),
        script![Ready => Act::Upgrade, Upgrading => Act::Again("v3")],
    ),
    used(upgrade("drained", GOOD, NEW, DONE)),
    used(upgrade("drained-flaps", FLAPS, EITHER, ANY)),
    used(then(
        upgrade("drained-cancelled", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Committed => Act::Cancel],
    )),
    used(recreate("quiesced", GOOD, NEW, DONE)),
    used(then(
        recreate("quiesced-cancelled", GOOD, EITHER, ANY),
        script![Ready => Act::Upgrade, Beside => Act::Cancel],
    )),
    Scenario {
        ids: &["dev", "ops", "web"],
        ..upgrade("three-beside", GOOD, NEW, DONE)
    },
    Scenario {
        ids: &["dev", "ops", "web"],
        ..recreate("three-recreated", GOOD, NEW, DONE)
    },
    bulk(upgrade("bulk-beside", GOOD, NEW, DONE), 2),
    bulk(recreate("bulk-recreated", GOOD, NEW, DONE), 1),
    bulk(recreate("bulk-no-image", BROKEN, OLD, FAILED), 2),
    then(
        bulk(upgrade("bulk-paused", GOOD, NEW, DONE), 2),
        script![AllReady => Act::UpgradeAll, Now => Act::All(Turn::Pause), Now => Act::All(Turn::Resume)],
    ),
    then(
        bulk(upgrade("bulk-cancelled", GOOD, EITHER, DONE), 1),
        script![AllReady => Act::UpgradeAll, Now => Act::All(Turn::Cancel)],
    ),
    Scenario {
        bulk: Some(Bulk {
            parallel: 2,
            canary: Some(1),
            budget: None,
        }),
        ..then(
            bulk(upgrade("bulk-canary", GOOD, NEW, DONE), 2),
            script![AllReady => Act::UpgradeAll, Now => Act::All(Turn::Resume)],
        )
    },
    Scenario {
        bulk: Some(Bulk {
            parallel: 1,
            canary: None,
            budget: Some(0),
        }),
        ..bulk(upgrade("bulk-stops", BROKEN, OLD, FAILED), 1)
    },
];

pub(crate) fn template(version: &str) -> TemplateRef {
    TemplateRef {
        name: "t".into(),
        version: version.into(),
    }
}

/// Id of a workspace's operation.
pub(crate) fn operation(id: &str) -> String {
    format!("op-{id}")
}

/// Id of the operation that begins when an upgrade is asked for once more.
pub(crate) fn again(id: &str) -> String {
    format!("op-{id}-again")
}

/// Id of the operation that brings a workspace back.
pub(crate) fn back(id: &str) -> String {
    format!("op-{id}-back")
}

impl Scenario {
    fn claim(&self, id: &str) -> PlannedClaim {
        let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        PlannedClaim::new(OWNER, id, WORKSPACES, "data", spec)
    }

    pub(crate) fn manifest(&self, id: &str, version: &str) -> Value {
        let image = if version == "v1" { self.old } else { self.new };
        let mut manifest = json!({
            "metadata": {
                "labels": {
                    keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
                    keys::WORKSPACE_ID: id, keys::USER_SUB: label::owner(OWNER),
                },
                "annotations": {keys::USER_SUB: OWNER, keys::TEMPLATE_REF: "t", keys::TEMPLATE_VERSION: version},
            },
            "spec": {"containers": [{"name": "main", "image": image, "env": [{"name": "TOKEN", "value": SECRET}]}]},
        });
        if self.exclusive {
            let claim = self.claim(id).object;
            manifest["spec"]["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
        }
        manifest
    }

    pub(crate) fn record(&self, id: &str, now: i64) -> Record {
        let spawn = Spawn {
            id: id.into(),
            namespace: WORKSPACES.into(),
            owner: OWNER.into(),
            name: id.into(),
            template: template("v1"),
            inputs: Map::new(),
            manifest: self.manifest(id, "v1"),
            exclusive: self.exclusive,
        };
        let mut record = Record::spawn(spawn, now);
        if self.exclusive {
            record.add_claims(vec![self.claim(id)]);
        }
        record
    }

    /// Id of the workspace's own operation.
    pub(crate) fn operation(&self, id: &str) -> String {
        match self.bulk {
            Some(_) => nogoo9_model::bulk::child(crate::bulk::BULK, id),
            None => operation(id),
        }
    }

    /// How an operation may end.
    pub(crate) fn outcomes(&self, id: &str, found: &str) -> &'static [State] {
        let asked = |wanted: fn(&Act) -> bool| self.script.iter().any(|(_, act)| wanted(act));
        if found == self.operation(id) {
            self.outcomes
        } else if found == back(id) && asked(|act| *act == Act::Rollback) {
            if self.old == FRAGILE { ANY } else { DONE }
        } else if found == again(id) && asked(|act| matches!(act, Act::Again("v3"))) {
            DONE
        } else {
            // Nobody asked for it.
            &[]
        }
    }

    pub(crate) fn intent(&self, id: &str, operation: String, version: &str) -> Intent {
        Intent {
            operation,
            kind: Kind::Upgrade,
            force: false,
            actor: "root".into(),
            parent: None,
            template: template(version),
            manifest: self.manifest(id, version),
            mode: if self.exclusive {
                Mode::Recreate
            } else {
                Mode::SideBySide
            },
            exclusive: self.exclusive,
            claims: if self.exclusive {
                vec![self.claim(id)]
            } else {
                Vec::new()
            },
            timing: Timing {
                deadline: 600,
                settle: 5,
                drain_timeout: if self.used { 20 } else { 600 },
            },
        }
    }
}
