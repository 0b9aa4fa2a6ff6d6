//! What control knows without asking: records, pods and operations as the watches deliver them. For
//! lists, statuses and waking up; decisions about pods are taken on live reads.

use super::{Cluster, Stored, operations, records};
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::PodView;
use nogoo9_model::record::Record;
use nogoo9_model::{keys, name};
use nogoo9_watch::{Change, Config, Store, Watch};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The three watches. Dropping it ends them.
pub struct Caches {
    records: Watch<Stored<Record>>,
    pods: Watch<PodView>,
    operations: Watch<Stored<Operation>>,
    changed: watch::Sender<u64>,
    namespace: String,
}

/// A workspace as the caches have it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its record.
    pub record: Arc<Stored<Record>>,
    /// Pods with its id.
    pub pods: Vec<PodView>,
}

impl Caches {
    /// Starts watching. `touched` hears the id of every workspace that something happened to.
    pub fn start(cluster: &Cluster, touched: impl Fn(&str) + Clone + Send + 'static) -> Self {
        let changed = watch::Sender::new(0);
        let bump = |changed: &watch::Sender<u64>| {
            changed.send_modify(|count| *count = count.wrapping_add(1));
        };
        let (on_record, on_pod, on_operation) = (changed.clone(), changed.clone(), changed.clone());
        let touched_by_record = touched.clone();
        let records = Watch::start(
            cluster.secrets_api(),
            Config::labels(format!("{}={}", keys::KIND, keys::KIND_RECORD)),
            |secret| {
                records::read(&secret)
                    .inspect_err(|error| tracing::warn!(%error, "unreadable record"))
                    .ok()
            },
            move |change: Change<Stored<Record>>| {
                if let Change::Applied(record) | Change::Deleted(record) = &change {
                    touched_by_record(&record.value.id);
                }
                bump(&on_record);
            },
        );
        let pods = Watch::start(
            cluster.pods_api(),
            Config::labels(keys::pods_selector()),
            |pod| PodView::from_pod(&pod).ok(),
            move |change: Change<PodView>| {
                if let Change::Applied(pod) | Change::Deleted(pod) = &change {
                    touched(&pod.workspace);
                }
                bump(&on_pod);
            },
        );
        let operations = Watch::start(
            cluster.config_maps_api(),
            Config::labels(format!("{}={}", keys::KIND, keys::KIND_OPERATION)),
            |map| {
                operations::read(&map)
                    .inspect_err(|error| tracing::warn!(%error, "unreadable operation"))
                    .ok()
            },
            move |_: Change<Stored<Operation>>| bump(&on_operation),
        );
        Self {
            records,
            pods,
            operations,
            changed,
            namespace: cluster.namespace.clone(),
        }
    }

    /// Whether all three have delivered a full list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.records.status().is_synced()
            && self.pods.status().is_synced()
            && self.operations.status().is_synced()
    }

    /// Resolves once all three have delivered a full list.
    pub async fn synced(&self) {
        tokio::join!(
            self.records.synced(),
            self.pods.synced(),
            self.operations.synced()
        );
    }

    /// Tells of every change of anything, by a count that grows.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// All workspaces that have a record, by id.
    #[must_use]
    pub fn workspaces(&self) -> Vec<Listed> {
        let mut pods: HashMap<String, Vec<PodView>> = HashMap::new();
        for pod in self.pods.store().list() {
            pods.entry(pod.workspace.clone())
                .or_default()
                .push((*pod).clone());
        }
        let mut all: Vec<Listed> = self
            .records
            .store()
            .list()
            .into_iter()
            .map(|record| Listed {
                pods: pods.remove(&record.value.id).unwrap_or_default(),
                record,
            })
            .collect();
        all.sort_by(|a, b| a.record.value.id.cmp(&b.record.value.id));
        all
    }

    /// One workspace.
    #[must_use]
    pub fn workspace(&self, id: &str) -> Option<Listed> {
        let record = self
            .records
            .store()
            .get(&self.namespace, &name::record(id))?;
        let pods = self
            .pods
            .store()
            .list()
            .into_iter()
            .filter(|pod| pod.workspace == id);
        Some(Listed {
            record,
            pods: pods.map(|pod| (*pod).clone()).collect(),
        })
    }

    /// Ids of everything that may need attention: workspaces with records.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        self.records
            .store()
            .list()
            .iter()
            .map(|record| record.value.id.clone())
            .collect()
    }

    /// Stored operations.
    #[must_use]
    pub fn operations(&self) -> Store<Stored<Operation>> {
        self.operations.store()
    }
}
