//! Events about pods, as `kubectl describe` shows them. Best effort: the queue is
//! bounded, and an event that cannot be sent is dropped; statuses carry the truth.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::api::call;
use super::status::time;

/// Events that may wait to be sent.
const QUEUE: usize = 512;
/// Events whose repetitions are counted.
const REMEMBERED: usize = 1024;

/// Sends events.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    queue: mpsc::Sender<Note>,
}

/// Is it as it should be?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    Normal,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Note {
    namespace: String,
    name: String,
    uid: String,
    container: Option<(bool, String)>,
    level: Level,
    reason: &'static str,
    message: String,
}

impl Recorder {
    /// Starts the sender; it ends with `stop`.
    pub(crate) fn start(client: Client, node: String, stop: CancellationToken) -> Self {
        let (queue, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            tokio::select! {
                () = send_all(&client, &node, receiver) => {}
                () = stop.cancelled() => {}
            }
        });
        Self { queue }
    }

    /// An event about a container (`init` or not, and its name), or the whole pod.
    pub(crate) fn record(
        &self,
        pod: &Pod,
        container: Option<(bool, &str)>,
        level: Level,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let meta = &pod.metadata;
        let note = Note {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            container: container.map(|(init, name)| (init, name.to_owned())),
            level,
            reason,
            message: message.into(),
        };
        if self.queue.try_send(note).is_err() {
            tracing::debug!(reason, "an event was dropped");
        }
    }
}

async fn send_all(client: &Client, node: &str, mut queue: mpsc::Receiver<Note>) {
    let mut sent: HashMap<Note, (String, i32)> = HashMap::new();
    while let Some(note) = queue.recv().await {
        let now = Timestamp::now();
        let api: Api<Event> = Api::namespaced(client.clone(), &note.namespace);
        if let Some((name, count)) = sent.get_mut(&note) {
            let patch = json!({"count": count.saturating_add(1), "lastTimestamp": time(now)});
            match call(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await {
                Ok(_) => {
                    *count = count.saturating_add(1);
                    continue;
                }
                // Expired, or never arrived: send it anew.
                Err(_) => drop(sent.remove(&note)),
            }
        }
        let event = event(&note, node, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        match call(api.create(&PostParams::default(), &event)).await {
            Ok(_) => {
                if sent.len() >= REMEMBERED {
                    sent.clear();
                }
                sent.insert(note, (name, 1));
            }
            Err(error) => tracing::debug!(reason = note.reason, %error, "an event was not sent"),
        }
    }
}

fn event(note: &Note, node: &str, now: Timestamp) -> Event {
    let field_path = note.container.as_ref().map(|(init, name)| {
        let list = if *init {
            "initContainers"
        } else {
            "containers"
        };
        format!("spec.{list}{{{name}}}")
    });
    // Unique by time, as the kubelet's names are, and by chance beyond that.
    let chance = getrandom::u32().unwrap_or_default();
    let name: String = note.name.chars().take(200).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}{chance:08x}", now.as_microsecond())),
            namespace: Some(note.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(note.namespace.clone()),
            name: Some(note.name.clone()),
            uid: Some(note.uid.clone()),
            field_path,
            ..ObjectReference::default()
        },
        type_: Some(match note.level {
            Level::Normal => "Normal".to_owned(),
            Level::Warning => "Warning".to_owned(),
        }),
        reason: Some(note.reason.to_owned()),
        message: Some(note.message.chars().take(1024).collect()),
        count: Some(1),
        first_timestamp: Some(time(now)),
        last_timestamp: Some(time(now)),
        source: Some(EventSource {
            component: Some("kubelet".to_owned()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some("kubelet".to_owned()),
        reporting_instance: Some(node.to_owned()),
        ..Event::default()
    }
}
