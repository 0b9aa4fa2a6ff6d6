//! A node that the API server has lost, whose pods serve on: nobody who reaches them notices, and nobody
//! takes them for dead.

use super::LONG;
use super::cases::{OWNER, beside, only, says, unchanged, write};
use super::stage::{begin, ended, offer, served, text, tidy};
use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use nogoo9_load::{EchoClient, HttpLoad, OpenSocket, Phases, SocketOptions};
use nogoo9_model::keys;
use nogoo9_tests::faults::Fault;
use nogoo9_tests::proxies::{self, Running};
use nogoo9_tests::{Edge, Target};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Requests a second to each workspace.
const RATE: f64 = 5.0;
/// Lines that a socket must get back to count as alive.
const LINES: u64 = 10;
/// Longest request: longer than a proxy holds one while a workspace is recreated.
const REQUEST: Duration = Duration::from_secs(150);

fn address(proxy: &Running, path: &str) -> anyhow::Result<Url> {
    Ok(Url::parse(&format!("http://{}{path}", proxy.address()?))?)
}

fn load(edge: &Edge, proxy: &Running, id: &str) -> anyhow::Result<HttpLoad> {
    let token = edge.token().unwrap_or_default();
    Ok(HttpLoad::new(&address(proxy, "/info")?)?
        .connections(1)
        .rate(RATE)?
        .timeouts(Duration::from_secs(5), REQUEST)
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?)
}

async fn socket(
    edge: &Edge,
    proxy: &Running,
    id: &str,
    phases: &Phases,
) -> anyhow::Result<OpenSocket> {
    let token = edge.token().unwrap_or_default();
    let options = SocketOptions::new(&address(proxy, "/echo")?)?
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?;
    Ok(EchoClient::open(options, phases).await?)
}

/// The pod as it was, and nobody has told it to go.
fn untouched(before: &Pod, now: &Pod) -> anyhow::Result<()> {
    let state = |pod: &Pod| pod.labels().get(keys::UPGRADE_STATE).cloned();
    ensure!(
        now.uid() == before.uid()
            && now.metadata.deletion_timestamp.is_none()
            && state(now) == state(before),
        "{now:?}"
    );
    Ok(())
}

pub(super) async fn a_node_cut_off_serves_on_and_its_recreate_waits(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    let free = target.template("cut-free", "1.0");
    let held = target.template_with_claim("cut-held", "1.0");
    let place = beside(&target, &[&free, &held]).await?;
    write(&target, held.name()).await?;
    let before = only(&target, held.name()).await?;
    offer(&target, &held.clone().version("2.0")).await?;

    // One proxy is on the node, and loses the API server with it; the other sees pods taken for lost.
    let both = proxies::one_on_each_node(&target).await?;
    let (there, elsewhere): (Vec<_>, Vec<_>) =
        both.into_iter().partition(|proxy| proxy.node == place);
    let there = there.first().context("a proxy on that node")?;
    let elsewhere = elsewhere.first().context("a proxy on the other")?;
    let (edge, phases) = (target.edge(OWNER).await?, Phases::new("all"));
    let run = HttpLoad::start_all(
        [
            load(&edge, there, free.name())?,
            load(&edge, there, held.name())?,
        ],
        &phases,
    )?;
    let sockets = [
        socket(&edge, there, free.name(), &phases).await?,
        socket(&edge, elsewhere, free.name(), &phases).await?,
    ];
    for socket in &sockets {
        socket.wait_echoed(LINES, LONG).await?;
    }

    let cut = async {
        let answer = begin(&target, OWNER, held.name()).await?;
        ensure!(answer["mode"] == "recreate", "{answer}");
        proxies::missed(&target, "proxy", there).await?;
        says(&target, held.name(), "NodeNotReady").await?;
        untouched(&before, &only(&target, held.name()).await?)?;
        run.wait_for_requests(run.requests() + 20, LONG).await?;
        for socket in &sockets {
            socket.wait_echoed(socket.echoed() + LINES, LONG).await?;
        }
        ensure!(run.failures() == 0, "{:#?}", run.snapshot().samples);
        Ok(text(&answer["operationId"]))
    };
    let operation = Fault::CutApi.during(&place, cut).await?;

    // It is back: what had to wait goes on.
    let operation = ended(&target, OWNER, &operation).await?;
    assert_eq!(operation["state"], "succeeded", "{operation}");
    assert_eq!(served(&target, OWNER, held.name()).await?.0, "2.0");
    unchanged(&target, held.name()).await?;
    for socket in sockets {
        socket.wait_echoed(socket.echoed() + LINES, LONG).await?;
        let report = socket.finish().await;
        assert!(report.kept(), "{report:#?}");
    }
    run.wait_for_requests(run.requests() + 20, LONG).await?;
    let report = run.finish().await;
    assert_eq!(report.failures, 0, "{:#?}", report.samples);
    tidy(&target, &[free.name(), held.name()], &[&free, &held]).await
}
