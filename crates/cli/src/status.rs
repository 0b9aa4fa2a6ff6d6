//! `nogoo9 status`: the parts of a local instance and its workspaces.

use std::{collections::BTreeMap, io::Write as _, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};
use nogoo9_local::supervisor::{Ready, WORKSPACES_NAMESPACE};
use nogoo9_model::{
    keys,
    pod::{Phase, PodView},
    select,
};
use nogoo9_runtime::kube::{Retry, connect};

use crate::DataDirArg;

/// Longest wait for one answer.
const ASK: Duration = Duration::from_secs(5);

/// Flags of `nogoo9 status`.
#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    data_dir: DataDirArg,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let dir = args.data_dir.resolve()?;
    let Some(ready) = Ready::read(&dir)?.filter(|ready| ready.pids.up_is_alive()) else {
        anyhow::bail!(
            "--data-dir {}: nothing runs here; start it with: nogoo9 up --data-dir {0}",
            dir.display()
        );
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?
        .block_on(report(&ready))
}

async fn report(ready: &Ready) -> anyhow::Result<()> {
    let http = reqwest::Client::builder()
        .no_proxy()
        .timeout(ASK)
        .build()
        .context("cannot make an HTTP client")?;
    let (cluster_health, workspaces) = match cluster(ready).await {
        Ok(workspaces) => ("ready".to_owned(), workspaces),
        Err(error) => (format!("{error:#}"), BTreeMap::new()),
    };
    let control = health(&http, &ready.admin_control).await;
    let proxy = health(&http, &ready.admin_proxy).await;
    let mut text = format!("{}\n\nPART              PID  HEALTH\n", ready.url);
    for (name, pid, health) in [
        ("up", Some(ready.pids.up), "runs"),
        ("apiserver", ready.pids.apiserver, &cluster_health),
        ("control", ready.pids.control, &control),
        ("proxy", ready.pids.proxy, &proxy),
    ] {
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        text.push_str(&format!("{name:<12} {pid:>8}  {health}\n"));
    }
    text.push_str(&table(&workspaces));
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(())
}

async fn health(http: &reqwest::Client, admin: &str) -> String {
    match http.get(format!("{admin}/readyz")).send().await {
        Ok(reply) if reply.status().is_success() => "ready".to_owned(),
        Ok(reply) => {
            let reasons = reply.text().await.unwrap_or_default();
            format!("not ready: {}", reasons.trim().replace('\n', "; "))
        }
        Err(error) if error.is_connect() => "down".to_owned(),
        Err(error) => error.without_url().to_string(),
    }
}

/// The pods of each workspace, read from the cluster: this works without control too.
async fn cluster(ready: &Ready) -> anyhow::Result<BTreeMap<String, Vec<PodView>>> {
    let connection = connect(Some(&ready.kubeconfig), Retry::Off).await?;
    connection.check(WORKSPACES_NAMESPACE).await?;
    let api: Api<Pod> = Api::namespaced(connection.client, WORKSPACES_NAMESPACE);
    let params = ListParams::default().labels(&format!("{}={}", keys::TYPE, keys::TYPE_WORKSPACE));
    let pods = tokio::time::timeout(ASK, api.list(&params))
        .await
        .context("no reply within 5 s")?
        .context("does not answer")?;
    let mut workspaces = BTreeMap::<String, Vec<PodView>>::new();
    for pod in pods.iter().filter_map(|pod| PodView::from_pod(pod).ok()) {
        workspaces
            .entry(pod.workspace.clone())
            .or_default()
            .push(pod);
    }
    Ok(workspaces)
}

fn table(workspaces: &BTreeMap<String, Vec<PodView>>) -> String {
    if workspaces.is_empty() {
        return "\nNo workspaces.\n".to_owned();
    }
    let mut text = row("\nWORKSPACE", "OWNER", "STATE", "POD");
    for (id, pods) in workspaces {
        // The rule that the proxy routes by.
        let active = select::active(select::claimants(pods).holder);
        for pod in pods {
            let serves = active.is_some_and(|active| active.uid == pod.uid);
            text.push_str(&row(id, &pod.owner, state(pod, serves), &pod.name));
        }
    }
    text
}

fn row(workspace: &str, owner: &str, state: &str, pod: &str) -> String {
    format!("{workspace:<20} {owner:<16} {state:<12} {pod}\n")
}

fn state(pod: &PodView, serves: bool) -> &'static str {
    match (serves, pod.deleting, pod.phase) {
        (true, ..) => "serving",
        (_, true, _) => "stopping",
        (_, _, Phase::Failed) => "failed",
        (_, _, Phase::Succeeded) => "ended",
        _ if pod.gated => "held back",
        (_, _, Phase::Running) if pod.ready.is => "draining",
        _ => "starting",
    }
}
