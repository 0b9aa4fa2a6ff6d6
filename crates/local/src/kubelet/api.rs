//! Calls to the API server: each bounded in time, and retried where the kubelet must
//! not give up.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The longest that one call may take.
const CALL: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(5);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// What the client says.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// No answer in time.
    #[error("the API server did not answer within {} s", CALL.as_secs())]
    Timeout,
}

impl CallError {
    /// The HTTP status of a refusal by the API server.
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

/// Bounds a call.
pub(crate) async fn call<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    timeout(CALL, request)
        .await
        .map_err(|_| CallError::Timeout)?
        .map_err(CallError::from)
}

/// Pauses between retries: doubles up to five seconds.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    pub(crate) fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }

    pub(crate) async fn pause(&mut self) {
        sleep(self.0).await;
        self.0 = self.0.saturating_mul(2).min(LAST_PAUSE);
    }
}

/// Tells the API server a pod's status: always the newest, in the order given,
/// for as long as it takes. Stops by itself when the pod is gone.
#[derive(Debug)]
pub(crate) struct StatusWriter {
    newest: watch::Sender<Option<PodStatus>>,
    task: JoinHandle<()>,
}

impl StatusWriter {
    pub(crate) fn start(api: Api<Pod>, name: String, uid: String, stop: CancellationToken) -> Self {
        let (newest, receiver) = watch::channel(None);
        let task = tokio::spawn(async move {
            tokio::select! {
                () = write_all(&api, &name, &uid, receiver) => {}
                () = stop.cancelled() => {}
            }
        });
        Self { newest, task }
    }

    /// Replaces what is to be told.
    pub(crate) fn tell(&self, status: PodStatus) {
        self.newest.send_replace(Some(status));
    }

    /// Waits until the last status has arrived, or cannot any more.
    pub(crate) async fn finish(self) {
        drop(self.newest);
        let _ = self.task.await;
    }
}

async fn write_all(
    api: &Api<Pod>,
    name: &str,
    uid: &str,
    mut newest: watch::Receiver<Option<PodStatus>>,
) {
    let mut pauses = Pauses::new();
    // An error means that the sender is gone and everything was seen.
    while newest.changed().await.is_ok() {
        loop {
            let Some(status) = newest.borrow_and_update().clone() else {
                break;
            };
            let patch = Patch::Merge(status_patch(uid, &status));
            match call(api.patch_status(name, &PatchParams::default(), &patch)).await {
                Ok(_) => {
                    pauses.reset();
                    break;
                }
                Err(error) => match error.code() {
                    Some(404) => return,
                    Some(409) if is_another(api, name, uid).await => return,
                    Some(400 | 403 | 422) => {
                        tracing::error!(pod = name, %error, "the pod status was refused");
                        break;
                    }
                    _ => {
                        tracing::debug!(pod = name, %error, "the pod status will be sent again");
                        pauses.pause().await;
                    }
                },
            }
        }
    }
}

/// Whether the pod of that name is gone, or is another one by now.
async fn is_another(api: &Api<Pod>, name: &str, uid: &str) -> bool {
    match call(api.get_opt(name)).await {
        Ok(Some(pod)) => pod.metadata.uid.as_deref() != Some(uid),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// A merge patch that replaces what the kubelet owns. The uid makes it fail on a
/// successor of the same name; nulls remove what an earlier status said.
fn status_patch(uid: &str, status: &PodStatus) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        for field in ["reason", "message"] {
            map.entry(field).or_insert(Value::Null);
        }
    }
    json!({ "metadata": { "uid": uid }, "status": value })
}

/// Removes a pod whose processes are gone, and only this one.
pub(crate) async fn remove(api: &Api<Pod>, name: &str, uid: &str) {
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let mut pauses = Pauses::new();
    loop {
        match call(api.delete(name, &params)).await {
            Ok(_) => return,
            Err(error) if error.code() == Some(404) => return,
            Err(error) if error.code() == Some(409) && is_another(api, name, uid).await => return,
            Err(error) => {
                tracing::debug!(pod = name, %error, "the pod will be deleted again");
                pauses.pause().await;
            }
        }
    }
}
