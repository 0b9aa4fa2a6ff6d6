//! What the proxy adds: the same load through it and straight to the pod, at the same time and on
//! the same machine, since only the ratio of the two means something elsewhere.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api as KubeApi;
use nogoo9_load::{HttpLoad, HttpReport, Phases};
use nogoo9_local::supervisor::WORKSPACES_NAMESPACE;
use nogoo9_model::keys;
use reqwest::Url;
use serde::Serialize;

use super::act::{Desk, is_of};
use super::report::failures;
use super::say;
use super::stage::Stage;

/// How long both loads run beside each other.
const BESIDE: Duration = Duration::from_secs(10);
/// How long each has the machine for itself, as often as [`TURNS`].
const TURN: Duration = Duration::from_secs(3);
const TURNS: u32 = 2;
/// Longest wait for one answer of the API server.
const CALL_BOUND: Duration = Duration::from_secs(15);

/// Both ways to the pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EdgeReport {
    /// Requests a second on each way, while they run beside each other; 0: as many as possible.
    pub(super) rate: u32,
    /// Straight to the pod.
    pub(super) straight: PathReport,
    /// Through the proxy.
    pub(super) proxied: PathReport,
}

/// One way to the pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PathReport {
    /// At the set rate, beside the other.
    pub(super) http: HttpReport,
    /// Requests a second with the machine for itself.
    pub(super) most_per_second: u64,
}

impl EdgeReport {
    /// What went wrong.
    pub(super) fn problems(&self) -> Vec<String> {
        let of = |name: &str, path: &PathReport| {
            let all = failures(&path.http).into_iter();
            all.map(|problem| format!("{name}: {problem}"))
                .collect::<Vec<_>>()
        };
        [of("straight", &self.straight), of("proxied", &self.proxied)].concat()
    }
}

pub(super) async fn play(stage: &Stage<'_>, desk: &Desk) -> anyhow::Result<EdgeReport> {
    let straight = pod_address(stage, desk).await?;
    let rate = stage.args.rate.div_ceil(2);
    let connections = usize::from(stage.args.connections).div_ceil(2);
    let load = |address: &Url| -> anyhow::Result<HttpLoad> {
        let id = desk.id.clone();
        let load = HttpLoad::new(&address.join("info")?)?
            .connections(connections)
            .check(move |answer| is_of(answer, &id));
        // The pod must not see the token.
        if *address == straight {
            return Ok(load);
        }
        Ok(load.header("Authorization", &format!("Bearer {}", desk.owner.token))?)
    };
    say(&format!(
        "{rate} requests a second through the proxy, and as many straight to {straight}"
    ));
    let at_rate = |address: &Url| -> anyhow::Result<_> {
        let load = load(address)?;
        let load = if rate == 0 {
            load
        } else {
            load.rate(f64::from(rate))?
        };
        Ok(load.start(&Phases::new("beside"))?)
    };
    let (one, other) = (at_rate(&straight)?, at_rate(&desk.address)?);
    tokio::time::sleep(BESIDE).await;
    let (straight_http, proxied_http) = tokio::join!(one.finish(), other.finish());

    say("as many requests as possible, by turns");
    let mut most = [0, 0];
    for _ in 0..TURNS {
        for (sum, address) in most.iter_mut().zip([&straight, &desk.address]) {
            let run = load(address)?.start(&Phases::new("alone"))?;
            tokio::time::sleep(TURN).await;
            let report = run.finish().await;
            *sum += (report.requests - report.failures).saturating_mul(1_000_000)
                / (report.ended_us - report.started_us).max(1);
        }
    }
    let [straight_most, proxied_most] = most.map(|sum| sum / u64::from(TURNS));
    Ok(EdgeReport {
        rate,
        straight: PathReport {
            http: straight_http,
            most_per_second: straight_most,
        },
        proxied: PathReport {
            http: proxied_http,
            most_per_second: proxied_most,
        },
    })
}

/// Where the pod itself listens.
async fn pod_address(stage: &Stage<'_>, desk: &Desk) -> anyhow::Result<Url> {
    let pods: KubeApi<Pod> = KubeApi::namespaced(stage.cluster.clone(), WORKSPACES_NAMESPACE);
    let pod = tokio::time::timeout(CALL_BOUND, pods.get(&desk.pod)).await;
    let pod = pod
        .context("the API server does not answer")?
        .with_context(|| format!("pod {} cannot be read", desk.pod))?;
    let ip: IpAddr = pod
        .status
        .and_then(|status| status.pod_ip)
        .and_then(|ip| ip.parse().ok())
        .with_context(|| format!("pod {} has no address", desk.pod))?;
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let port = annotations.get(keys::WORKSPACE_PORT);
    let port = port
        .and_then(|port| port.parse().ok())
        .unwrap_or(keys::DEFAULT_PORT);
    let address = std::net::SocketAddr::new(ip, port);
    Url::parse(&format!("http://{address}/")).context("the pod's address is no URL")
}
