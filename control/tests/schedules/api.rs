//! The API server as plain data: objects with versions and uids, conditional writes, patches,
//! selectors, graceful deletion, dry runs, a quota and an admission that refuses.

use crate::request::{conflict, failure, not_found, selects, target};
use crate::wire::{Answer, Call};
use bytes::Bytes;
use http::Method;
use nogoo9_model::keys;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Seconds that a pod gets to end.
const GRACE: i64 = 30;
/// An image that admission refuses.
pub(crate) const REFUSED: &str = "image:refused";

/// Kinds of objects that control uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    Claim,
    Event,
    Lease,
    Quota,
}

impl Kind {
    pub(crate) fn parse(plural: &str) -> Option<Self> {
        Some(match plural {
            "pods" => Self::Pod,
            "secrets" => Self::Secret,
            "configmaps" => Self::ConfigMap,
            "persistentvolumeclaims" => Self::Claim,
            "events" => Self::Event,
            "leases" => Self::Lease,
            "resourcequotas" => Self::Quota,
            _ => return None,
        })
    }
}

/// Kind, namespace, name.
pub(crate) type Key = (Kind, String, String);

/// Who makes a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// An actor: a controller or a user's command.
    Actor(usize),
    /// Scheduler, kubelet and the controllers of the cluster.
    Cluster,
    /// The scenario: nodes that fail, people with kubectl.
    World,
}

/// One change of one object.
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) before: Option<Rc<Value>>,
    pub(crate) after: Option<Rc<Value>>,
    pub(crate) by: By,
}

/// What is stored, and the clock.
pub(crate) struct Server {
    pub(crate) now: i64,
    pub(crate) objects: BTreeMap<Key, Rc<Value>>,
    /// Changes that nobody has looked at yet.
    pub(crate) changes: Vec<Change>,
    /// Pods that have not ended, at most.
    pub(crate) quota: Option<usize>,
    pub(crate) version: u64,
    uids: u64,
    /// Objects as they are sent, each written once a version.
    texts: BTreeMap<Key, Bytes>,
    /// Whether answers are to be changed on their way, so that they are not sent as they are.
    pub(crate) tampered: bool,
}

impl Server {
    pub(crate) fn new(now: i64) -> Self {
        Self {
            now,
            objects: BTreeMap::new(),
            changes: Vec::new(),
            quota: None,
            version: 100,
            uids: 0,
            texts: BTreeMap::new(),
            tampered: false,
        }
    }

    pub(crate) fn stamp(&self) -> String {
        stamp(self.now)
    }

    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Rc<Value>)> {
        self.objects.iter().filter(move |(key, _)| key.0 == kind)
    }

    /// Answers a call.
    pub(crate) fn answer(&mut self, call: &Call, by: By) -> Answer {
        let Some((kind, namespace, name)) = target(&call.path) else {
            return failure(404, "NotFound", &format!("no such path: {}", call.path));
        };
        match (&call.method, name) {
            (&Method::GET, Some(name)) => {
                let key = (kind, namespace, name);
                if self.objects.contains_key(&key) {
                    self.show(&key)
                } else {
                    not_found(&key.2)
                }
            }
            (&Method::GET, None) => self.list(call, kind, &namespace),
            (&Method::POST, None) => self.create(call, kind, namespace, by),
            (&Method::PUT, Some(name)) => self.replace(call, &(kind, namespace, name), by),
            (&Method::PATCH, Some(name)) => self.patch(call, &(kind, namespace, name), by),
            (&Method::DELETE, Some(name)) => self.delete(call, &(kind, namespace, name), by),
            (method, _) => failure(405, "MethodNotAllowed", method.as_str()),
        }
    }

    /// Answers with an object that there is.
    fn show(&mut self, key: &Key) -> Answer {
        if self.tampered {
            return Answer::ok((*self.objects[key]).clone());
        }
        Answer::text(self.text(key))
    }

    fn text(&mut self, key: &Key) -> Bytes {
        if let Some(text) = self.texts.get(key) {
            return text.clone();
        }
        let text = Bytes::from(serde_json::to_vec(&*self.objects[key]).unwrap());
        self.texts.insert(key.clone(), text.clone());
        text
    }

    fn list(&mut self, call: &Call, kind: Kind, namespace: &str) -> Answer {
        let labels = call.query("labelSelector").unwrap_or_default();
        let fields = call.query("fieldSelector").unwrap_or_default();
        let found: Vec<Key> = self
            .of(kind)
            .filter(|(key, _)| key.1 == namespace)
            .filter(|(_, object)| {
                let label = |key: &str| object["metadata"]["labels"][key].as_str();
                let field = |key: &str| {
                    let pointer = format!("/{}", key.replace('.', "/"));
                    object.pointer(&pointer).and_then(Value::as_str)
                };
                selects(&labels, label) && selects(&fields, field)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let mut list = json!({
            "kind": "List", "apiVersion": "v1",
            "metadata": {"resourceVersion": self.version.to_string()},
        });
        if self.tampered {
            let items = found.iter().map(|key| (*self.objects[key]).clone());
            list["items"] = items.collect();
            return Answer::ok(list);
        }
        let mut text = list.to_string().into_bytes();
        text.pop();
        text.extend_from_slice(b",\"items\":[");
        for (place, key) in found.iter().enumerate() {
            if place > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&self.text(key));
        }
        text.extend_from_slice(b"]}");
        Answer::text(text.into())
    }

    fn create(&mut self, call: &Call, kind: Kind, namespace: String, by: By) -> Answer {
        let mut object = call.body.clone();
        let name = match object["metadata"]["name"].as_str() {
            Some(name) => name.to_owned(),
            None => {
                let prefix = object["metadata"]["generateName"].as_str();
                format!("{}{:05}", prefix.unwrap_or_default(), self.version)
            }
        };
        let key = (kind, namespace, name);
        if self.objects.contains_key(&key) {
            return failure(
                409,
                "AlreadyExists",
                &format!("\"{}\" already exists", key.2),
            );
        }
        if kind == Kind::Pod
            && let Some(refused) = self.refuse(&object)
        {
            return refused;
        }
        self.uids += 1;
        let meta = map(&mut object["metadata"]);
        meta.insert("name".into(), json!(key.2));
        meta.insert("namespace".into(), json!(key.1));
        meta.insert("uid".into(), json!(format!("uid-{}", self.uids)));
        meta.insert("creationTimestamp".into(), json!(stamp(self.now)));
        meta.remove("resourceVersion");
        if kind == Kind::Pod {
            object["status"] = json!({"phase": "Pending"});
        }
        if call.query("dryRun").is_some() {
            return Answer::ok(object);
        }
        self.store(key.clone(), object, by);
        self.show(&key)
    }

    /// How a pod is refused, if it is.
    fn refuse(&self, pod: &Value) -> Option<Answer> {
        if pod["spec"]["containers"][0]["image"] == REFUSED {
            let message = "admission webhook \"images\" denied the request: not from our registry";
            return Some(failure(403, "Forbidden", message));
        }
        let quota = self.quota?;
        let ended = |pod: &Value| {
            matches!(
                pod["status"]["phase"].as_str(),
                Some("Failed" | "Succeeded")
            )
        };
        let used = self.of(Kind::Pod).filter(|(_, pod)| !ended(pod)).count();
        (used >= quota).then(|| {
            let message = format!(
                "exceeded quota: pods, requested: pods=1, used: pods={used}, limited: pods={quota}"
            );
            failure(403, "Forbidden", &message)
        })
    }

    fn replace(&mut self, call: &Call, key: &Key, by: By) -> Answer {
        let Some(old) = self.objects.get(key).cloned() else {
            return not_found(&key.2);
        };
        let mut object = call.body.clone();
        for field in ["resourceVersion", "uid"] {
            let meant = &object["metadata"][field];
            if !meant.is_null() && *meant != old["metadata"][field] {
                return conflict(&key.2);
            }
        }
        for field in ["uid", "creationTimestamp", "namespace", "deletionTimestamp"] {
            let value = old["metadata"][field].clone();
            let meta = map(&mut object["metadata"]);
            if !value.is_null() {
                meta.insert(field.into(), value);
            }
        }
        self.store(key.clone(), object, by);
        self.show(key)
    }

    fn patch(&mut self, call: &Call, key: &Key, by: By) -> Answer {
        let Some(old) = self.objects.get(key).cloned() else {
            return not_found(&key.2);
        };
        let mut object = (*old).clone();
        if call.content_type.contains("json-patch") {
            let patch: json_patch::Patch = serde_json::from_value(call.body.clone()).unwrap();
            if json_patch::patch(&mut object, &patch).is_err() {
                let message = "the server rejected our request due to an error in our request";
                return failure(422, "Invalid", message);
            }
        } else {
            json_patch::merge(&mut object, &call.body);
            if object["metadata"]["uid"] != old["metadata"]["uid"] {
                let message = format!(
                    "\"{}\" is invalid: metadata.uid: Invalid value: field is immutable",
                    key.2
                );
                return failure(422, "Invalid", &message);
            }
            if object["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
                return conflict(&key.2);
            }
        }
        self.store(key.clone(), object, by);
        self.show(key)
    }

    fn delete(&mut self, call: &Call, key: &Key, by: By) -> Answer {
        let Some(old) = self.objects.get(key).cloned() else {
            return not_found(&key.2);
        };
        let conditions = &call.body["preconditions"];
        for field in ["resourceVersion", "uid"] {
            if !conditions[field].is_null() && conditions[field] != old["metadata"][field] {
                return conflict(&key.2);
            }
        }
        let answer = self.show(key);
        self.end(key, by);
        answer
    }

    /// Deletes gracefully.
    pub(crate) fn end(&mut self, key: &Key, by: By) {
        let Some(old) = self.objects.get(key).cloned() else {
            return;
        };
        let grace = match key.0 {
            Kind::Pod => {
                let ended = matches!(
                    old["status"]["phase"].as_str(),
                    Some("Failed" | "Succeeded")
                );
                (old["spec"]["nodeName"].is_string() && !ended).then_some(GRACE)
            }
            Kind::Claim => self.mounters(key).next().is_some().then_some(0),
            _ => None,
        };
        match grace {
            None => self.remove(key, by),
            Some(_) if old["metadata"]["deletionTimestamp"].is_string() => {}
            Some(grace) => {
                let mut object = (*old).clone();
                object["metadata"]["deletionTimestamp"] = json!(stamp(self.now + grace));
                object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
                self.store(key.clone(), object, by);
            }
        }
    }

    fn mounters<'a>(&'a self, claim: &'a Key) -> impl Iterator<Item = &'a Rc<Value>> {
        self.of(Kind::Pod)
            .filter(|(key, pod)| key.1 == claim.1 && claims(pod).any(|name| name == claim.2))
            .map(|(_, pod)| pod)
    }

    /// An object is gone; claims that waited for it go too.
    pub(crate) fn remove(&mut self, key: &Key, by: By) {
        let before = self.objects.remove(key);
        self.texts.remove(key);
        self.version += 1;
        self.changes.push(Change {
            key: key.clone(),
            before,
            after: None,
            by,
        });
        if key.0 == Kind::Pod {
            let deleted = |claim: &&Key| {
                self.objects[*claim]["metadata"]["deletionTimestamp"].is_string()
                    && self.mounters(claim).next().is_none()
            };
            let all: Vec<Key> = self.of(Kind::Claim).map(|(key, _)| key.clone()).collect();
            let due: Vec<Key> = all.iter().filter(deleted).cloned().collect();
            due.iter().for_each(|claim| self.remove(claim, By::Cluster));
        }
    }

    /// Stores an object under the next version, if it differs from what is stored.
    pub(crate) fn store(&mut self, key: Key, mut object: Value, by: By) -> Rc<Value> {
        let before = self.objects.get(&key).cloned();
        if let Some(old) = &before {
            let meta = map(&mut object["metadata"]);
            meta.insert(
                "resourceVersion".into(),
                old["metadata"]["resourceVersion"].clone(),
            );
            if object == **old {
                return old.clone();
            }
        }
        self.version += 1;
        map(&mut object["metadata"])
            .insert("resourceVersion".into(), json!(self.version.to_string()));
        let after = Rc::new(object);
        self.texts.remove(&key);
        self.objects.insert(key.clone(), after.clone());
        self.changes.push(Change {
            key,
            before,
            after: Some(after.clone()),
            by,
        });
        after
    }
}

/// Names of the claims that a pod mounts.
pub(crate) fn claims(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array();
    volumes
        .into_iter()
        .flatten()
        .filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// The id of the workspace that an object is about.
pub(crate) fn workspace(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][keys::WORKSPACE_ID].as_str()
}

pub(crate) fn stamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

pub(crate) fn map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().unwrap()
}
