//! Scheduler and kubelet: they start, ready, fail and end pods as their images tell, one step at a
//! time, each whenever the schedule lets it happen. A claim is held by whoever was started with it,
//! until that pod is gone; a second holder is what must never be.

use crate::api::{By, Key, Kind, Server, claims};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Starts and becomes ready.
pub(crate) const GOOD: &str = "image:good";
/// Cannot be pulled.
pub(crate) const BROKEN: &str = "image:broken";
/// Ends right after its start, again and again.
pub(crate) const CRASHES: &str = "image:crashes";
/// Runs, and is never ready.
pub(crate) const NEVER: &str = "image:never";
/// Becomes ready and stops being so a few times, then is ready for good.
pub(crate) const FLAPS: &str = "image:flaps";
/// Needs a Secret that is missing.
pub(crate) const MISCONFIGURED: &str = "image:misconfigured";
/// Good once; later pods of it cannot be pulled for a while.
pub(crate) const FRAGILE: &str = "image:fragile";

/// How often [`FLAPS`] stops being ready.
const FLAPPING: u32 = 4;
/// How long [`FRAGILE`] cannot be pulled, in seconds.
const OUTAGE: i64 = 200;
const NODE: &str = "node-1";

/// What happens to a pod next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Bind,
    /// Its containers start: from here on it holds its claims.
    Start,
    Ready,
    Unready,
    Waits(&'static str, &'static str),
    Crash,
    /// It ends by itself: a probe, whose command cannot exist.
    Ends,
    Gone,
}

#[derive(Debug, Clone, Copy, Default)]
struct Life {
    started: bool,
    flips: u32,
    /// When it began to wait for an image that will be there again.
    waits_since: Option<i64>,
    /// Not before this.
    pause: i64,
}

#[derive(Default)]
pub(crate) struct Kubelet {
    lives: BTreeMap<String, Life>,
    /// Who holds each claim.
    holders: BTreeMap<String, String>,
    /// Whether a pod of [`FRAGILE`] has run.
    broken_since: Option<String>,
    /// Pods whose node does not answer until then.
    pub(crate) lost: BTreeMap<String, i64>,
}

impl Kubelet {
    /// Pods that something can happen to now, and when the next is due otherwise.
    pub(crate) fn due(&self, server: &Server) -> (Vec<Key>, Option<i64>) {
        let mut now = Vec::new();
        let mut later: Option<i64> = None;
        for (key, pod) in server.of(Kind::Pod) {
            match self.next(pod, server) {
                Some((_, at)) if at <= server.now => now.push(key.clone()),
                Some((_, at)) => later = Some(later.map_or(at, |least| least.min(at))),
                None => {}
            }
        }
        (now, later)
    }

    fn life(&self, pod: &Value) -> Life {
        self.lives.get(uid(pod)).copied().unwrap_or_default()
    }

    /// The pod's next step and when it is due.
    fn next(&self, pod: &Value, server: &Server) -> Option<(Step, i64)> {
        let life = self.life(pod);
        let at = self
            .lost
            .get(uid(pod))
            .copied()
            .unwrap_or(0)
            .max(life.pause);
        if pod["metadata"]["deletionTimestamp"].is_string() {
            return Some((Step::Gone, at));
        }
        let gates = pod["spec"]["schedulingGates"].as_array();
        let phase = pod["status"]["phase"].as_str();
        if gates.is_some_and(|gates| !gates.is_empty())
            || matches!(phase, Some("Failed" | "Succeeded"))
        {
            return None;
        }
        if !pod["spec"]["nodeName"].is_string() {
            let there = |name: &str| {
                let claim = server
                    .objects
                    .get(&(Kind::Claim, namespace(pod), name.to_owned()));
                claim.is_some_and(|claim| !claim["metadata"]["deletionTimestamp"].is_string())
            };
            return claims(pod).all(there).then_some((Step::Bind, at));
        }
        let container = &pod["spec"]["containers"][0];
        let image = container["image"].as_str().unwrap_or_default();
        let waiting = pod.pointer("/status/containerStatuses/0/state/waiting/reason");
        let waiting = waiting.and_then(Value::as_str);
        let waits = |reason, message| {
            (waiting != Some(reason)).then_some((Step::Waits(reason, message), at))
        };
        match image {
            BROKEN => match waiting {
                None => waits("ErrImagePull", "no such image"),
                _ => waits("ImagePullBackOff", "Back-off pulling image"),
            },
            FRAGILE
                if self
                    .broken_since
                    .as_deref()
                    .is_some_and(|first| first != uid(pod))
                    && !life.started =>
            {
                match life.waits_since {
                    None => waits("ImagePullBackOff", "the registry is away"),
                    Some(since) => Some((Step::Start, at.max(since + OUTAGE))),
                }
            }
            _ if is_probe(pod) => Some((Step::Ends, at)),
            MISCONFIGURED => waits("CreateContainerConfigError", "secret \"app\" not found"),
            _ if !life.started => Some((Step::Start, at)),
            CRASHES => (life.flips < 6).then_some((Step::Crash, at)),
            NEVER => None,
            FLAPS if is_ready(pod) => (life.flips < FLAPPING).then_some((Step::Unready, at)),
            _ => (!is_ready(pod)).then_some((Step::Ready, at)),
        }
    }

    /// Does what is due for a pod.
    ///
    /// # Errors
    /// What should never happen: the pod would hold a claim that another holds.
    pub(crate) fn act(&mut self, key: &Key, server: &mut Server) -> Result<String, String> {
        let Some(pod) = server.objects.get(key).cloned() else {
            return Ok(String::new());
        };
        let Some((step, _)) = self.next(&pod, server) else {
            return Ok(String::new());
        };
        let uid = uid(&pod).to_owned();
        let mut next = (*pod).clone();
        let mut life = self.life(&pod);
        let stamp = server.stamp();
        let container = |state: Value, restarts: u32| {
            json!([{"name": "main", "image": "i", "imageID": "", "ready": false,
                "restartCount": restarts, "state": state}])
        };
        let ready = |is: bool| json!([{"type": "Ready", "status": if is { "True" } else { "False" }, "lastTransitionTime": stamp}]);
        let status = &mut next["status"];
        match step {
            Step::Bind => next["spec"]["nodeName"] = json!(NODE),
            Step::Start => {
                for claim in claims(&pod) {
                    if let Some(other) = self.holders.insert(claim.to_owned(), uid.clone())
                        && other != uid
                    {
                        return Err(format!("claim {claim} is held by {other} and {uid}"));
                    }
                    bind(server, &namespace(&pod), claim);
                }
                life.started = true;
                if pod["spec"]["containers"][0]["image"] == FRAGILE && self.broken_since.is_none() {
                    self.broken_since = Some(uid.clone());
                }
                status["phase"] = json!("Running");
                status["podIP"] = json!("198.18.0.9");
                status["conditions"] = ready(false);
                status["containerStatuses"] = container(json!({"running": {}}), 0);
            }
            Step::Ready => {
                status["conditions"] = ready(true);
                status["containerStatuses"][0]["ready"] = json!(true);
                life.pause = server.now + 1;
            }
            Step::Unready => {
                status["conditions"] = ready(false);
                life.flips += 1;
                life.pause = server.now + 1;
            }
            Step::Waits(reason, message) => {
                let state = json!({"waiting": {"reason": reason, "message": message}});
                status["containerStatuses"] = container(state, 0);
                life.waits_since = Some(server.now);
            }
            Step::Crash => {
                life.flips += 1;
                life.pause = server.now + 2;
                let state =
                    json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
                status["conditions"] = ready(false);
                status["containerStatuses"] = container(state, life.flips);
            }
            Step::Ends => {
                let state = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}});
                status["containerStatuses"] = container(state, 0);
                status["phase"] = json!("Failed");
            }
            Step::Gone => {
                self.holders.retain(|_, holder| *holder != uid);
                server.remove(key, By::Cluster);
                return Ok(format!("{} is gone", key.2));
            }
        }
        self.lives.insert(uid, life);
        server.store(key.clone(), next, By::Cluster);
        Ok(format!("{}: {step:?}", key.2))
    }

    /// The pod ended: its volumes are unmounted.
    pub(crate) fn let_go(&mut self, uid: &str) {
        self.holders.retain(|_, holder| holder != uid);
    }
}

/// A volume is bound to the claim.
fn bind(server: &mut Server, namespace: &str, claim: &str) {
    let key = (Kind::Claim, namespace.to_owned(), claim.to_owned());
    if let Some(found) = server.objects.get(&key) {
        let mut bound = (**found).clone();
        bound["spec"]["volumeName"] = json!(format!("pv-{claim}"));
        bound["status"] = json!({"phase": "Bound", "accessModes": bound["spec"]["accessModes"]});
        server.store(key, bound, By::Cluster);
    }
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn namespace(object: &Value) -> String {
    object["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn is_probe(pod: &Value) -> bool {
    pod["metadata"]["labels"][nogoo9_model::keys::TYPE] == "probe"
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
