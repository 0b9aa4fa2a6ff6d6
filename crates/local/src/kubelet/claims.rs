//! The folders of claims: made when a pod first mounts one, removed once the claim is gone.
//!
//! What a real cluster's reclaim policy `Delete` does. A folder goes only when the API server
//! says, by a complete list or by the event, that no claim of its uid exists.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Client;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

use super::agent::Agent;

/// A watch is renewed this often, so that a half-open connection is noticed.
const WATCH_SECONDS: u32 = 60;
/// Errors in a row after which the watch is set up anew.
const MAX_ERRORS: u32 = 3;

/// Follows the claims of all namespaces; never returns.
pub(crate) async fn keep(client: Client, agent: Arc<Agent>) {
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    loop {
        let api: Api<PersistentVolumeClaim> = Api::all(client.clone());
        let mut events = watcher(api, config.clone()).default_backoff().boxed();
        let mut listed = HashSet::new();
        let mut errors = 0;
        while errors < MAX_ERRORS {
            match events.next().await {
                Some(Ok(event)) => {
                    errors = 0;
                    take(&agent, event, &mut listed).await;
                }
                Some(Err(error)) => {
                    errors += 1;
                    tracing::debug!(%error, errors, "the watch on claims will be resumed");
                }
                None => break,
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// One event of the watch; `listed` collects the uids of a list until it is complete.
async fn take(
    agent: &Arc<Agent>,
    event: Event<PersistentVolumeClaim>,
    listed: &mut HashSet<String>,
) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(claim) => listed.extend(claim.metadata.uid),
        Event::InitDone => {
            let known = std::mem::take(listed);
            sweep(agent, move |uid| !known.contains(uid)).await;
        }
        Event::Apply(_) => {}
        Event::Delete(claim) => {
            let gone = claim.metadata.uid;
            sweep(agent, move |uid| gone.as_deref() == Some(uid)).await;
        }
    }
}

/// Removes the folders of claims whose uid is `gone`.
async fn sweep(agent: &Arc<Agent>, gone: impl Fn(&str) -> bool + Send + 'static) {
    let agent = Arc::clone(agent);
    let swept = tokio::task::spawn_blocking(move || {
        let found = folders(&agent.claims_dir());
        for folder in found.unwrap_or_default() {
            let uid = folder.file_name().and_then(|name| name.to_str());
            // One that a pod still holds lost its object by force: the next list finds it again.
            if uid.is_some_and(|uid| gone(uid) && !agent.claims.is_held(uid)) {
                remove(&folder, &agent.claims_dir());
            }
        }
    });
    if swept.await.is_err() {
        tracing::error!("the folders of claims could not be swept");
    }
}

/// The folders of all claims: `NS/NAME/UID`.
fn folders(claims_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut level = vec![claims_dir.to_owned()];
    for _ in 0..3 {
        let mut next = Vec::new();
        for folder in level {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    next.push(entry.path());
                }
            }
        }
        level = next;
    }
    Ok(level)
}

fn remove(folder: &Path, claims_dir: &Path) {
    match std::fs::remove_dir_all(folder) {
        Ok(()) => tracing::info!(folder = %folder.display(), "the folder of a claim was removed"),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "the folder of a claim could not be removed");
            return;
        }
    }
    // Those above it go too while nothing else is in them.
    for parent in folder.ancestors().skip(1) {
        if parent == claims_dir || std::fs::remove_dir(parent).is_err() {
            break;
        }
    }
}
