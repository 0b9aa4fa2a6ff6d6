//! An embedded API server in this process, a client that loses things on demand, and a kubelet
//! that makes every pod ready at once.

pub(crate) mod claimed;
pub(crate) mod install;
pub(crate) mod struck;

use http::{Method, Request, Response, StatusCode};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use nogoo9_control::cluster::Cluster;
use nogoo9_local::apiserver::{ApiServerConfig, Tokens, bind, kubeconfig};
use nogoo9_runtime::kube::{Connection, Retry, ServerClock, connect};
use serde_json::json;
use std::sync::{Arc, Mutex, Once};
use std::task::{Context, Poll};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::Service;

pub(crate) const SYSTEM: &str = "nogoo9-system";
/// An image that cannot be pulled.
pub(crate) const BROKEN: &str = "image:broken";
pub(crate) const WORKSPACES: &str = "nogoo9-workspaces";

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It never arrives.
    Lost,
    /// It is made, and the answer never arrives.
    ReplyLost,
    /// The API server answers with this status and does nothing.
    Status(u16),
}

/// Fails calls, and notes every write that was made.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The call that fails, by its number, and those right after it.
    next: Option<(usize, Fault, usize)>,
    /// Whether reads count too.
    reads: bool,
    /// The calls that count, by a part of their path, and how all of them fail.
    on: Option<(&'static str, Option<Fault>)>,
    seen: usize,
    made: Vec<String>,
}

impl Faults {
    /// The n-th write (from 1) fails.
    pub(crate) fn at(n: usize, fault: Fault) -> Self {
        let faults = Self::default();
        faults.state.lock().unwrap().next = Some((n, fault, 1));
        faults
    }

    /// The n-th call (from 1) fails, reads counted too, and as many in a row.
    pub(crate) fn at_call(n: usize, fault: Fault, calls: usize) -> Self {
        let faults = Self::default();
        *faults.state.lock().unwrap() = State {
            next: Some((n, fault, calls)),
            reads: true,
            ..State::default()
        };
        faults
    }

    /// Only calls whose path has this part count, reads too; all of them fail so, if at all.
    pub(crate) fn on(part: &'static str, fault: Option<Fault>) -> Self {
        let faults = Self::default();
        *faults.state.lock().unwrap() = State {
            on: Some((part, fault)),
            ..State::default()
        };
        faults
    }

    /// Whether all faults have happened.
    pub(crate) fn struck(&self) -> bool {
        self.state.lock().unwrap().next.is_none()
    }

    /// Calls so far, of those that are counted.
    pub(crate) fn seen(&self) -> usize {
        self.state.lock().unwrap().seen
    }

    /// Writes that were made, as `METHOD path`.
    pub(crate) fn made(&self) -> Vec<String> {
        self.state.lock().unwrap().made.clone()
    }

    fn strike(&self, request: &Request<Body>) -> Option<Fault> {
        let mut state = self.state.lock().unwrap();
        let write = request.method() != Method::GET;
        if let Some((part, fault)) = state.on {
            if !request.uri().path().contains(part) {
                return None;
            }
            state.seen += 1;
            return fault;
        }
        if !write && !state.reads {
            return None;
        }
        state.seen += 1;
        let seen = state.seen;
        let due = match &mut state.next {
            Some((first, fault, left)) if seen >= *first => {
                *left -= 1;
                Some((*fault, *left == 0))
            }
            _ => None,
        };
        if matches!(due, Some((_, true))) {
            state.next = None;
        }
        let due = due.map(|(fault, _)| fault);
        if write && matches!(due, None | Some(Fault::ReplyLost)) {
            let path = request.uri().path().to_owned();
            state.made.push(format!("{} {path}", request.method()));
        }
        due
    }
}

/// A client's service with faults in front.
#[derive(Clone)]
struct Faulty {
    inner: Client,
    faults: Faults,
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = self.faults.strike(&request);
        let inner = self.inner.clone();
        Box::pin(async move {
            match fault {
                Some(Fault::Lost) => return Err("the request was lost".into()),
                Some(Fault::Status(code)) => {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                        "message": "fault", "reason": "Fault", "code": code});
                    let mut answer = Response::new(Body::from(serde_json::to_vec(&status)?));
                    *answer.status_mut() = StatusCode::from_u16(code)?;
                    return Ok(answer);
                }
                Some(Fault::ReplyLost) | None => {}
            }
            let answer = inner.send(request).await?;
            if fault == Some(Fault::ReplyLost) {
                Err("the reply was lost".into())
            } else {
                Ok(answer)
            }
        })
    }
}

/// The server. Stops when dropped.
pub(crate) struct Site {
    pub(crate) admin: Client,
    connection: Connection,
    _folder: TempDir,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Site {
    pub(crate) async fn start() -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens {
            admin: "admin-token-of-this-test".into(),
            control: "control-token-of-this-test".into(),
            proxy: "proxy-token-of-this-test".into(),
        };
        let config = ApiServerConfig {
            data_dir: folder.path().to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            tokens,
        };
        let bound = bind(config).await.unwrap();
        let write = |name: &str, token: &str| {
            let path = folder.path().join(name);
            std::fs::write(
                &path,
                kubeconfig(bound.address(), bound.ca_pem(), token, WORKSPACES),
            )
            .unwrap();
            path
        };
        let control = write("control.kubeconfig", "control-token-of-this-test");
        let admin = write("kubeconfig", "admin-token-of-this-test");
        let stop = CancellationToken::new();
        let task = tokio::spawn(bound.serve(stop.clone()));
        let admin = connect(Some(&admin), Retry::Off).await.unwrap().client;
        let connection = connect(Some(&control), Retry::Off).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(admin.clone());
        for name in [SYSTEM, WORKSPACES] {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            namespaces
                .create(&PostParams::default(), &namespace)
                .await
                .unwrap();
        }
        connection.check(WORKSPACES).await.unwrap();
        Self {
            admin,
            connection,
            _folder: folder,
            stop,
            task: Some(task),
        }
    }

    /// Control's cluster, through these faults.
    pub(crate) fn cluster(&self, faults: &Faults) -> Cluster {
        self.cluster_ahead(faults, 0)
    }

    /// The same, by a clock that is so many seconds ahead of the API server's.
    pub(crate) fn cluster_ahead(&self, faults: &Faults, ahead: i64) -> Cluster {
        let mut connection = self.through(faults);
        if ahead != 0 {
            let now = std::time::Instant::now();
            connection.clock = ServerClock::new();
            connection.clock.observe(self.now() + ahead, now, now);
        }
        Cluster::new(&connection, SYSTEM.into(), WORKSPACES.into())
    }

    /// The cluster of another control, in namespaces of its own, which it makes.
    pub(crate) async fn cluster_in(&self, system: &str, workspaces: &str) -> Cluster {
        for name in [system, workspaces] {
            self.namespace(name).await;
        }
        self.cluster_again(system, workspaces)
    }

    /// The cluster of another control, in namespaces that are there.
    pub(crate) fn cluster_again(&self, system: &str, workspaces: &str) -> Cluster {
        let connection = self.through(&Faults::default());
        Cluster::new(&connection, system.into(), workspaces.into())
    }

    fn through(&self, faults: &Faults) -> Connection {
        let service = Faulty {
            inner: self.connection.client.clone(),
            faults: faults.clone(),
        };
        let mut connection = self.connection.clone();
        connection.client = Client::new(service, WORKSPACES);
        connection
    }

    async fn namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.admin.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        created.unwrap();
    }

    /// Seconds since the epoch, as the API server has it.
    pub(crate) fn now(&self) -> i64 {
        self.connection.clock.now()
    }

    pub(crate) fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.admin.clone(), WORKSPACES)
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        self.pods_in(WORKSPACES).await
    }

    pub(crate) async fn pods_in(&self, namespace: &str) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.admin.clone(), namespace);
        api.list(&ListParams::default()).await.unwrap().items
    }

    /// What scheduler and kubelet do, at once: every pod that is not held back becomes ready, or
    /// says that its image cannot be pulled if that is called [`BROKEN`].
    pub(crate) async fn kubelet(&self) {
        self.kubelet_in(WORKSPACES).await;
    }

    /// The same in another namespace.
    pub(crate) async fn kubelet_in(&self, namespace: &str) {
        let api: Api<Pod> = Api::namespaced(self.admin.clone(), namespace);
        for pod in self.pods_in(namespace).await {
            let spec = pod.spec.clone().unwrap_or_default();
            if spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()) {
                continue;
            }
            let ready = pod
                .status
                .iter()
                .flat_map(|s| s.conditions.iter().flatten())
                .any(|c| c.type_ == "Ready");
            if !ready {
                let now =
                    k8s_openapi::jiff::Timestamp::from_second(self.connection.clock.now()).unwrap();
                let broken = spec.containers[0].image.as_deref() == Some(BROKEN);
                let status = if broken {
                    json!({"status": {"phase": "Pending", "containerStatuses": [{
                        "name": "main", "image": BROKEN, "imageID": "", "ready": false, "restartCount": 0,
                        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}})
                } else {
                    json!({"status": {"phase": "Running", "podIP": "127.64.0.9", "conditions": [
                        {"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()}]}})
                };
                let patch = Patch::Merge(&status);
                let answer = api
                    .patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                    .await;
                // Control may have deleted it in between.
                if let Err(error) = answer {
                    assert!(
                        matches!(&error, kube::Error::Api(status) if status.code == 404),
                        "{error}"
                    );
                }
            }
        }
    }
}
