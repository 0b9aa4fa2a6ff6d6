//! Follows the cluster's pods: keeps the table, ends sockets whose pod is gone, counts and logs.

use crate::args::Settings;
use crate::lines::Lines;
use crate::metrics::Metrics;
use crate::sessions::{End, Sessions};
use crate::table::{Noted, Table, Writer};
use k8s_openapi::api::core::v1::Pod;
use nogoo9_model::keys;
use nogoo9_model::pod::PodView;
use nogoo9_runtime::kube::{KubeError, Retry, connect};
use nogoo9_watch::{Change, Config, Watch};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often workspaces without pods are looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Starts to follow. The watch ends with the handle.
///
/// # Errors
/// There is no usable way to the cluster; that it does not answer is none.
pub async fn pods(
    settings: &Settings,
    table: &Table,
    sessions: &Sessions,
    lines: &Lines,
    metrics: &Metrics,
) -> Result<Watch<PodView>, KubeError> {
    let kube = &settings.common.kube;
    let connection = connect(kube.kubeconfig.as_deref(), Retry::Off).await?;
    let api: kube::Api<Pod> = kube::Api::namespaced(connection.client, &kube.workspaces_namespace);
    let writer = Arc::new(Mutex::new(Writer::new(
        table.clone(),
        settings.hold.timeout,
    )));
    tokio::spawn(sweep(writer.clone()));
    let (sessions, metrics, table) = (sessions.clone(), metrics.clone(), table.clone());
    let lines = lines.clone();
    let sink = move |change: Change<PodView>| {
        let now = Instant::now();
        match change {
            Change::Applied(pod) => {
                for noted in lock(&writer).applied(pod, now) {
                    note(&noted, &metrics);
                }
            }
            Change::Deleted(pod) => {
                for noted in lock(&writer).deleted(&pod.uid, now) {
                    note(&noted, &metrics);
                }
                lines.end_soon(&pod.uid);
                let ended = sessions.end_pod(&pod.workspace, &pod.uid, End::Restart);
                if ended > 0 {
                    tracing::info!(
                        pod = pod.name,
                        sockets = ended,
                        "pod is gone; its sockets were ended"
                    );
                }
            }
            Change::Synced => {
                table.complete();
                tracing::debug!(workspaces = table.len(), "all pods were listed");
            }
        }
    };
    let config = Config {
        // An address that a pod had once may be another's by now.
        distrust_restored: true,
        ..Config::labels(keys::pods_selector())
    };
    Ok(Watch::start(
        api,
        config,
        |pod: Pod| PodView::from_pod(&pod).ok(),
        sink,
    ))
}

async fn sweep(writer: Arc<Mutex<Writer>>) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        lock(&writer).sweep(Instant::now());
    }
}

fn lock(writer: &Mutex<Writer>) -> std::sync::MutexGuard<'_, Writer> {
    // Whoever panicked left whole entries behind.
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(noted: &Noted, metrics: &Metrics) {
    if let Some((workspace, pod)) = &noted.switched {
        metrics.switches.inc();
        tracing::info!(workspace = &**workspace, pod, "route changed");
    }
    if !noted.ignored.is_empty() {
        metrics.conflicts.inc_by(noted.ignored.len() as u64);
        tracing::warn!(pods = ?noted.ignored, "pods claim a workspace id that is another's; they are ignored");
    }
    if !noted.contested.is_empty() {
        tracing::warn!(pods = ?noted.contested, "pods at an address that another pod has, too, are not routed to");
    }
    if noted.bad_generation {
        metrics.bad_generations.inc();
    }
}
