//! Deliberate faults: each stands between the executor and the API server and takes away one thing
//! that an upgrade rests on. With any of them in place, schedules must break a law; see the list in
//! `main.rs`.

use crate::api::{By, Kind, Server, map};
use crate::laws::{Seen, decode};
use crate::request::failure;
use crate::scenario::{ALL, SECRET};
use crate::schedule::Schedule;
use crate::wire::{Answer, Call};
use data_encoding::BASE64;
use http::Method;
use nogoo9_model::record::Desired;
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use serde_json::{Value, json};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bite {
    /// Pods are deleted whatever has become of them since they were read.
    NoDeletePreconditions,
    /// Records are replaced whatever has become of them since they were read.
    NoRecordPrecondition,
    /// The original is deleted as soon as its successor is made.
    DeleteBeforeCommit,
    /// The clock runs ahead: the settle time seems over.
    SkipSettle,
    /// A tombstone seems old enough to be removed at once.
    ForgetTombstone,
    /// Pods that are still ending are not listed: they seem gone.
    ReleaseBeforeGone,
    /// The scheduling gate gets lost on creation.
    CreateWithoutGate,
    /// What marks a pod is answered with success and not made.
    FalseSuccess,
    /// Pods are listed as they were some time ago.
    StaleLists,
    /// A refusal quotes the whole manifest.
    SecretInRefusal,
    /// A record changes hands when it is written.
    OwnerLost,
    /// The record of a workspace that is to go goes first.
    RecordFirst,
    /// Generations begin anew.
    GenerationLost,
    /// Successors are made under a name that differs each time.
    RandomNames,
    /// A proxy that gives no answer is left out.
    SilenceIsConsent,
    /// What is open on pods is not told.
    SessionsForgotten,
    /// That a proxy may still send requests to the original is not told.
    SpareForgotten,
    /// Whoever reads a record does not see that its upgrade was called off.
    CancelForgotten,
}

impl Bite {
    pub(crate) const ALL: [Self; 18] = [
        Self::NoDeletePreconditions,
        Self::NoRecordPrecondition,
        Self::DeleteBeforeCommit,
        Self::SkipSettle,
        Self::ForgetTombstone,
        Self::ReleaseBeforeGone,
        Self::CreateWithoutGate,
        Self::FalseSuccess,
        Self::StaleLists,
        Self::SecretInRefusal,
        Self::OwnerLost,
        Self::RecordFirst,
        Self::GenerationLost,
        Self::RandomNames,
        Self::SilenceIsConsent,
        Self::SessionsForgotten,
        Self::SpareForgotten,
        Self::CancelForgotten,
    ];

    /// Those that a schedule or two notice.
    pub(crate) const QUICK: [Self; 7] = [
        Self::DeleteBeforeCommit,
        Self::SkipSettle,
        Self::ReleaseBeforeGone,
        Self::CreateWithoutGate,
        Self::SecretInRefusal,
        Self::OwnerLost,
        Self::GenerationLost,
    ];

    /// Scenarios that show it.
    fn scenarios(self) -> &'static [&'static str] {
        match self {
            Self::NoDeletePreconditions => &["stray", "stray-in-upgrade", "beside-flaps"],
            Self::NoRecordPrecondition => &["beside", "beside-stopped", "three-recreated"],
            Self::DeleteBeforeCommit
            | Self::SkipSettle
            | Self::FalseSuccess
            | Self::RandomNames => &["beside", "beside-no-image"],
            Self::ForgetTombstone => &["beside-deleted", "recreate-deleted"],
            Self::ReleaseBeforeGone | Self::CreateWithoutGate => {
                &["recreate", "recreate-crash-loop"]
            }
            Self::StaleLists => &["beside-flaps", "recreate", "stray"],
            Self::SecretInRefusal => &["beside-refused", "recreate-refused"],
            Self::OwnerLost | Self::GenerationLost => &["beside", "evicted"],
            Self::RecordFirst => &["beside-deleted"],
            Self::SilenceIsConsent | Self::SessionsForgotten => &["drained", "quiesced"],
            Self::SpareForgotten => &["drained"],
            Self::CancelForgotten => &["beside-cancelled-waiting", "recreate-cancelled"],
        }
    }

    /// Schedules that may notice it, one after the other.
    pub(crate) fn schedule(self, seed: u64) -> Schedule {
        let names = self.scenarios();
        let place = usize::try_from(seed).unwrap();
        let name = names[place % names.len()];
        Schedule {
            scenario: ALL.iter().position(|known| known.name == name).unwrap(),
            strike: None,
            seed,
        }
    }

    /// Seconds that the executor's clock is ahead.
    pub(crate) fn ahead(self) -> i64 {
        if self == Self::SkipSettle { 60 } else { 0 }
    }

    /// Changes a call on its way.
    pub(crate) fn ask(self, call: &mut Call, calls: usize) {
        let to = |kind: &str| call.path.contains(kind);
        match (self, &call.method) {
            (Self::NoDeletePreconditions, &Method::DELETE) if to("/pods/") => {
                call.body = Value::Null;
            }
            (Self::NoRecordPrecondition, &Method::PUT) if to("/secrets/") => {
                forget_version(&mut call.body);
            }
            (Self::CreateWithoutGate, &Method::POST) if to("/pods") => {
                map(&mut call.body["spec"]).remove("schedulingGates");
            }
            (Self::RandomNames, &Method::POST) if to("/pods") => {
                let name = call.body["metadata"]["name"].as_str().unwrap_or_default();
                call.body["metadata"]["name"] = json!(format!("{name}-{calls}"));
            }
            (Self::OwnerLost, &Method::PUT) if to("/secrets/") => {
                rewrite(&mut call.body, |record| record["owner"] = json!("mallory"));
            }
            (Self::GenerationLost, &Method::PUT) if to("/secrets/") => {
                rewrite(&mut call.body, |record| record["generation"] = json!(0));
            }
            _ => {}
        }
    }

    /// Changes what the proxies say.
    pub(crate) fn reports(self, reports: &mut Vec<ProxyReport>) {
        match self {
            Self::SilenceIsConsent => reports.retain(|report| report.answer.is_some()),
            Self::SessionsForgotten => {
                for said in answers(reports) {
                    said.sessions.clear();
                    said.requests.clear();
                }
            }
            Self::SpareForgotten => answers(reports).for_each(|said| said.spare.clear()),
            _ => {}
        }
    }

    /// Answers a call without carrying it out.
    pub(crate) fn instead(self, call: &Call, server: &Server, seen: &Seen) -> Option<Answer> {
        match self {
            Self::FalseSuccess if call.method == Method::PATCH => {
                let name = call.path.rsplit('/').next()?;
                let found = server.of(Kind::Pod).find(|(key, _)| key.2 == name)?;
                Some(Answer::ok((**found.1).clone()))
            }
            Self::StaleLists
                if call.method == Method::GET
                    && call.path.ends_with("/pods")
                    && !seen.pods.is_empty()
                    && server.now < seen.at + 20 =>
            {
                let items: Vec<Value> = seen.pods.iter().map(|pod| (**pod).clone()).collect();
                Some(Answer::ok(
                    json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}),
                ))
            }
            _ => None,
        }
    }

    /// Does something else after a call was carried out, or changes its answer.
    pub(crate) fn after(
        self,
        call: &Call,
        answer: &mut Answer,
        server: &mut Server,
        by: By,
        seen: &Seen,
    ) {
        match self {
            Self::DeleteBeforeCommit
                if call.method == Method::POST && call.path.ends_with("/pods") =>
            {
                let old = seen
                    .pods
                    .iter()
                    .find(|pod| pod["metadata"]["name"] != call.body["metadata"]["name"]);
                if let Some(old) = old {
                    let key = server
                        .of(Kind::Pod)
                        .find(|(_, pod)| pod["metadata"]["uid"] == old["metadata"]["uid"]);
                    if let Some(key) = key.map(|(key, _)| key.clone()) {
                        server.end(&key, by);
                    }
                }
            }
            Self::ReleaseBeforeGone => {
                if let Some(items) = answer.body["items"].as_array_mut() {
                    items.retain(|pod| !pod["metadata"]["deletionTimestamp"].is_string());
                }
            }
            Self::ForgetTombstone
                if call.method == Method::GET && call.path.contains("/secrets/") =>
            {
                rewrite(&mut answer.body, |record| {
                    if record["goneAt"].is_number() {
                        record["goneAt"] = json!(0);
                    }
                });
            }
            Self::CancelForgotten
                if call.method == Method::GET && call.path.contains("/secrets/") =>
            {
                rewrite(&mut answer.body, |record| {
                    if let Some(upgrade) = record["upgrade"].as_object_mut() {
                        upgrade.remove("cancelled");
                    }
                });
            }
            Self::SecretInRefusal if answer.code == 403 => {
                *answer = failure(
                    403,
                    "Forbidden",
                    &format!("denied: {{\"env\": \"{SECRET}\"}}"),
                );
            }
            Self::RecordFirst if call.method == Method::PUT && call.path.contains("/secrets/") => {
                let deleted =
                    decode(&call.body).is_some_and(|record| record.desired == Desired::Deleted);
                let key = server.of(Kind::Secret).map(|(key, _)| key.clone()).next();
                if let Some(key) = key.filter(|_| deleted) {
                    server.end(&key, by);
                }
            }
            _ => {}
        }
    }
}

/// What the proxies said that gave an answer.
fn answers(reports: &mut [ProxyReport]) -> impl Iterator<Item = &mut Sessions> {
    reports
        .iter_mut()
        .filter_map(|report| report.answer.as_mut())
}

fn forget_version(object: &mut Value) {
    let meta = map(&mut object["metadata"]);
    meta.remove("resourceVersion");
    meta.remove("uid");
}

/// Changes the record in a Secret.
fn rewrite(secret: &mut Value, change: impl Fn(&mut Value)) {
    let Some(data) = secret["data"]["record.json"].as_str() else {
        return;
    };
    let mut record: Value =
        serde_json::from_slice(&BASE64.decode(data.as_bytes()).unwrap()).unwrap();
    change(&mut record);
    secret["data"]["record.json"] = json!(BASE64.encode(record.to_string().as_bytes()));
}
