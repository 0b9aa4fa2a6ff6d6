//! The only holder of a writing Kubernetes client. Every call has a time limit, every write is
//! conditional or idempotent, and every error says whether trying again can help.

mod caches;
mod cap;
mod claims;
mod error;
mod events;
mod leases;
mod logs;
mod operations;
mod personal_tokens;
mod pods;
mod quotas;
mod records;
mod secrets;
mod sessions;
mod templates;

pub use caches::{Caches, Listed};
pub use cap::{Capped, DeletionCap};
pub use error::ClusterError;
pub use logs::LogEnd;
pub use operations::FoundChunk;
pub use pods::{CreateAnswer, Made};
pub(crate) use templates::is_template;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use nogoo9_runtime::kube::{Connection, Pressure, ServerClock};
use prometheus_client::metrics::gauge::Gauge;
use std::future::Future;
use std::time::Duration;

/// Longest wait for any one call.
const CALL: Duration = Duration::from_secs(10);

/// An object as it was read, with what a conditional write needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T> {
    /// What it holds.
    pub value: T,
    /// The version that was read.
    pub resource_version: String,
    /// Its uid.
    pub uid: String,
}

/// The cluster, as control sees and changes it. Clones share the client.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    clock: ServerClock,
    pressure: Pressure,
    /// Where control's own objects live.
    namespace: String,
    /// Where workspaces live.
    workspaces: String,
    /// Where Events are told, if they are.
    events: Option<events::Events>,
    /// How many deletions are plausible.
    deletions: DeletionCap,
}

impl Cluster {
    /// A cluster behind a connection that does not retry by itself: a repeated create must be our
    /// decision.
    #[must_use]
    pub fn new(connection: &Connection, namespace: String, workspaces: String) -> Self {
        Self {
            client: connection.client.clone(),
            clock: connection.clock.clone(),
            pressure: connection.pressure.clone(),
            namespace,
            workspaces,
            events: None,
            deletions: DeletionCap::new(Gauge::default()),
        }
    }

    /// The same cluster with this cap on deletions.
    #[must_use]
    pub fn with_cap(self, deletions: DeletionCap) -> Self {
        Self { deletions, ..self }
    }

    /// How many deletions are plausible.
    #[must_use]
    pub fn deletions(&self) -> &DeletionCap {
        &self.deletions
    }

    /// Seconds since the epoch, by the API server's clock.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.clock.now()
    }

    /// How long the API server wants to be left alone by what can wait; mostly not at all.
    #[must_use]
    pub fn pressure(&self) -> Duration {
        self.pressure.left()
    }

    /// Namespace of control's own objects.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Namespace of workspaces.
    #[must_use]
    pub fn workspaces(&self) -> &str {
        &self.workspaces
    }

    /// API of the workspaces' pods.
    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.workspaces)
    }

    fn secrets_api(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// API of the EndpointSlices in control's own namespace, by which proxies are found.
    pub(crate) fn endpoint_slices_api(&self) -> Api<EndpointSlice> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// API of the ConfigMaps in control's own namespace: operations and templates.
    pub(crate) fn config_maps_api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Makes a call with a time limit and a typed error.
async fn limited<T>(
    what: &'static str,
    object: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClusterError> {
    match tokio::time::timeout(CALL, call).await {
        Ok(answer) => answer.map_err(|error| ClusterError::from_kube(what, object, &error)),
        Err(_) => Err(ClusterError::TimedOut {
            what,
            object: object.to_owned(),
            seconds: CALL.as_secs(),
        }),
    }
}
