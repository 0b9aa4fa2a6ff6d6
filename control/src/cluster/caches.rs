//! What control knows without asking: records, pods and operations as the watches deliver them. For
//! lists, statuses and waking up; decisions about pods are taken on live reads.

mod index;

use super::{Cluster, Stored, operations, records};
use index::PodIndex;
use nogoo9_model::operation::Operation;
use nogoo9_model::pod::PodView;
use nogoo9_model::probe::Probe;
use nogoo9_model::record::Record;
use nogoo9_model::{keys, name};
use nogoo9_watch::{Change, Config, Store, Watch};
use std::sync::Arc;
use tokio::sync::watch;

/// The watches. Dropping it ends them.
pub struct Caches {
    records: Watch<Stored<Record>>,
    pods: Watch<PodView>,
    probes: Watch<Probe>,
    by_workspace: PodIndex,
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
    /// Its probes.
    pub probes: Vec<Probe>,
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
        let (touched_by_probe, on_probe) = (touched.clone(), changed.clone());
        let probes = Watch::start(
            cluster.pods_api(),
            Config::labels(keys::probes_selector()),
            |pod| Probe::from_pod(&pod),
            move |change: Change<Probe>| {
                if let Change::Applied(probe) | Change::Deleted(probe) = &change {
                    touched_by_probe(&probe.workspace);
                }
                bump(&on_probe);
            },
        );
        let by_workspace = PodIndex::default();
        let index = by_workspace.clone();
        let pods = Watch::start(
            cluster.pods_api(),
            Config::labels(keys::pods_selector()),
            |pod| PodView::from_pod(&pod).ok(),
            move |change: Change<PodView>| {
                index.take(&change);
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
            probes,
            by_workspace,
            operations,
            changed,
            namespace: cluster.namespace.clone(),
        }
    }

    /// Whether all have delivered a full list.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.records.status().is_synced()
            && self.pods.status().is_synced()
            && self.probes.status().is_synced()
            && self.operations.status().is_synced()
    }

    /// Resolves once all have delivered a full list.
    pub async fn synced(&self) {
        tokio::join!(
            self.records.synced(),
            self.pods.synced(),
            self.probes.synced(),
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
        let mut all: Vec<Listed> = self
            .records
            .store()
            .list()
            .into_iter()
            .filter(|record| !record.value.is_gone())
            .map(|record| Listed {
                pods: self.by_workspace.pods(&record.value.id),
                probes: self.probes(&record.value.id),
                record,
            })
            .collect();
        all.sort_by(|a, b| a.record.value.id.cmp(&b.record.value.id));
        all
    }

    /// One workspace.
    #[must_use]
    pub fn workspace(&self, id: &str) -> Option<Listed> {
        Some(Listed {
            record: self.record(id)?,
            pods: self.by_workspace.pods(id),
            probes: self.probes(id),
        })
    }

    /// Probes are few, and live for seconds.
    fn probes(&self, id: &str) -> Vec<Probe> {
        let probes = self.probes.store().list();
        let its = probes.iter().filter(|probe| probe.workspace == id);
        its.map(|probe| Probe::clone(probe)).collect()
    }

    /// All records, in no particular order.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Stored<Record>>> {
        let mut records = self.records.store().list();
        records.retain(|record| !record.value.is_gone());
        records
    }

    /// The record of a workspace.
    #[must_use]
    pub fn record(&self, id: &str) -> Option<Arc<Stored<Record>>> {
        let record = self.records.store().get(&self.namespace, &name::record(id));
        record.filter(|record| !record.value.is_gone())
    }

    /// A stored operation.
    #[must_use]
    pub fn operation(&self, id: &str) -> Option<Arc<Stored<Operation>>> {
        self.operations
            .store()
            .get(&self.namespace, &name::operation(id))
    }

    /// Ids of everything that may need attention: workspaces with records, and pods without.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let records = self.records.store().list();
        let mut ids: Vec<String> = records
            .iter()
            .map(|record| record.value.id.clone())
            .collect();
        ids.extend(
            self.pods
                .store()
                .list()
                .iter()
                .map(|pod| pod.workspace.clone()),
        );
        let probes = self.probes.store().list();
        ids.extend(probes.iter().map(|probe| probe.workspace.clone()));
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Stored operations.
    #[must_use]
    pub fn operations(&self) -> Store<Stored<Operation>> {
        self.operations.store()
    }
}
