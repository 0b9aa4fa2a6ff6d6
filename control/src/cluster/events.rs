//! Kubernetes Events: told by control on the pods of workspaces, and read where a pod's status says
//! too little.
//!
//! Telling is best effort and holds up nobody: the queue is bounded, a task of its own sends, and
//! what cannot be sent is dropped. Records and operations carry the truth.

use super::{Cluster, ClusterError, limited};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{ListParams, PostParams};
use nogoo9_model::container::Trouble;
use nogoo9_model::upgrade::story::Note;
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Who tells, as `kubectl describe` shows it.
const COMPONENT: &str = "nogoo9-control";
/// Notes that may wait to be sent.
const QUEUE: usize = 1024;
/// Notes that are known to have been sent.
const REMEMBERED: usize = 4096;
/// For so long a note is not sent again. The API server forgets Events after an hour.
const FRESH: Duration = Duration::from_secs(50 * 60);
/// Tries to send one note.
const TRIES: u32 = 3;
/// Pause after the first of them; doubles.
const PAUSE: Duration = Duration::from_millis(500);
/// Events of one pod that are looked at.
const MOST: u32 = 20;
/// Events of one pod that are told to people.
const MOST_TOLD: u32 = 500;

/// Where notes go. Clones share it; the task behind it ends with the last of them.
#[derive(Debug, Clone)]
pub(super) struct Events(mpsc::Sender<Note>);

impl Events {
    fn start(cluster: Cluster, instance: String) -> Self {
        let (queue, notes) = mpsc::channel(QUEUE);
        tokio::spawn(send(cluster, instance, notes));
        Self(queue)
    }
}

impl Cluster {
    /// The same cluster, which from now on also tells Events, as `instance`. Without this they are
    /// not told. Must be called within a Tokio runtime.
    #[must_use]
    pub fn with_events(self, instance: &str) -> Self {
        let events = Events::start(self.clone(), instance.to_owned());
        Self {
            events: Some(events),
            ..self
        }
    }

    /// Whether Events are told at all.
    pub(crate) fn tells(&self) -> bool {
        self.events.is_some()
    }

    /// Tells these notes, some time soon and if it can be done.
    pub(crate) fn tell(&self, notes: impl IntoIterator<Item = Note>) {
        let Some(events) = &self.events else { return };
        for note in notes {
            let reason = note.reason.as_str();
            if events.0.try_send(note).is_err() {
                tracing::debug!(reason, "an Event was dropped");
            }
        }
    }

    /// Why a pod's volumes cannot be mounted, if its kubelet says that what they hold is not there.
    /// A pod's status says nothing of it.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn mount_failure(&self, uid: &str) -> Result<Option<Trouble>, ClusterError> {
        let fields = format!("involvedObject.uid={uid},type=Warning,reason=FailedMount");
        let params = ListParams::default().fields(&fields).limit(MOST);
        let list = limited("list Events of pod", uid, self.events_api().list(&params)).await?;
        let messages = list.items.into_iter().filter_map(|event| event.message);
        Ok(messages
            .into_iter()
            .find(|message| is_missing(message))
            .map(|message| Trouble::new("FailedMount", message)))
    }

    /// The Events about a pod, of which there are mostly few: the cluster counts what repeats, and forgets
    /// after about an hour. No more than [`MOST_TOLD`].
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn events_of_pod(&self, uid: &str) -> Result<Vec<Event>, ClusterError> {
        let fields = format!("involvedObject.uid={uid}");
        let params = ListParams::default().fields(&fields).limit(MOST_TOLD);
        let list = limited("list Events of pod", uid, self.events_api().list(&params)).await?;
        Ok(list.items)
    }

    fn events_api(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.workspaces)
    }
}

/// Whether the message is about something that does not exist. Others pass: a cache that has not
/// been filled yet, a driver that is not there yet.
fn is_missing(message: &str) -> bool {
    message.contains("not found") || message.contains("non-existent")
}

async fn send(cluster: Cluster, instance: String, mut notes: mpsc::Receiver<Note>) {
    let mut sent: HashMap<String, Instant> = HashMap::new();
    let mut forbidden = false;
    while let Some(note) = notes.recv().await {
        let name = note.name();
        if sent.get(&name).is_some_and(|at| at.elapsed() < FRESH) {
            continue;
        }
        let event = event(&note, &name, &instance, cluster.now());
        match send_one(&cluster, &note, &event).await {
            Ok(()) => {
                if sent.len() >= REMEMBERED {
                    sent.clear();
                }
                sent.insert(name, Instant::now());
            }
            Err(error @ ClusterError::Rejected { .. }) if !forbidden => {
                forbidden = true;
                tracing::warn!(%error, "Events cannot be told; give control the right to create them");
            }
            Err(error) => {
                tracing::debug!(reason = note.reason.as_str(), %error, "an Event was not sent");
            }
        }
    }
}

async fn send_one(cluster: &Cluster, note: &Note, event: &Event) -> Result<(), ClusterError> {
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), &note.namespace);
    let params = PostParams::default();
    let mut pause = PAUSE;
    let mut tries = 1;
    loop {
        let answer = limited("create Event on", &note.pod, api.create(&params, event)).await;
        match answer {
            // Told before, by this control or another.
            Ok(_) | Err(ClusterError::Exists { .. }) => return Ok(()),
            Err(error) if tries < TRIES && error.is_transient() => {
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2);
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn event(note: &Note, name: &str, instance: &str, now: i64) -> Event {
    let time = Timestamp::from_second(now).ok().map(Time);
    let kind = if note.reason.is_warning() {
        "Warning"
    } else {
        "Normal"
    };
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(note.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(note.namespace.clone()),
            name: Some(note.pod.clone()),
            uid: Some(note.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some(kind.to_owned()),
        reason: Some(note.reason.as_str().to_owned()),
        message: Some(note.message.clone()),
        count: Some(1),
        first_timestamp: time.clone(),
        last_timestamp: time,
        source: Some(EventSource {
            component: Some(COMPONENT.to_owned()),
            host: None,
        }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_and_what_only_takes_a_while() {
        for (message, missing) in [
            (
                "MountVolume.SetUp failed for volume \"s\" : secret \"gone\" not found",
                true,
            ),
            (
                "MountVolume.SetUp failed for volume \"s\" : references non-existent secret key: k",
                true,
            ),
            (
                "MountVolume.SetUp failed for volume \"s\" : failed to sync secret cache: timed out waiting for the condition",
                false,
            ),
            (
                "MountVolume.SetUp failed for volume \"k\" : object \"ns\"/\"kube-root-ca.crt\" not registered",
                false,
            ),
        ] {
            assert_eq!(is_missing(message), missing, "{message}");
        }
    }
}
