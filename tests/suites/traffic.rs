//! The promise itself: 20 upgrades of one workspace under steady load from 64 connections, 100,000
//! requests and more. None fails; what is open stays open; what is new goes to the new pod.

use nogoo9_load::{Answer, EchoClient, HttpLoad, OpenSocket, Phases, ShellClient, SocketOptions};
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Observation, Options, Site, Suite, Template, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Connections of the load.
const CONNECTIONS: usize = 64;
/// Upgrades in a row.
const UPGRADES: usize = 20;
/// Least number of requests.
const REQUESTS: u64 = 100_000;
/// Lines that a socket must get back before the next thing happens.
const LINES: u64 = 10;
/// Longest wait for anything.
const LONG: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    Suite::new(Options::default())
        .parallel(1)
        .limit(Duration::from_secs(1_200))
        .scenario(
            "nobody_notices_twenty_upgrades",
            nobody_notices_twenty_upgrades,
        )
        .main()
}

/// One workspace's template in its n-th version.
fn template(version: usize) -> Template {
    Template::new("busy", &format!("{version}.0"))
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "120")
        .env("MESSAGE", &format!("message {version}"))
}

/// Name of the pod that gave the answer.
fn pod_of(answer: &Answer) -> Option<String> {
    let info: Value = serde_json::from_slice(&answer.body).ok()?;
    info["pod"].as_str().map(ToOwned::to_owned)
}

fn load(edge: &Edge, id: &str) -> anyhow::Result<HttpLoad> {
    let token = edge.token().unwrap_or_default();
    Ok(HttpLoad::new(&edge.address("/info")?)?
        .connections(CONNECTIONS)
        .timeouts(LONG, LONG)
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?
        .check(
            |answer| match serde_json::from_slice::<Value>(&answer.body) {
                Ok(info) if info["workspace"] == "busy" && info["message"] != "" => Ok(()),
                _ => Err("not the sample's answer".to_owned()),
            },
        )
        .label(pod_of))
}

/// An echo socket and a shell on the workspace, both typing.
async fn sockets(edge: &Edge, id: &str, phases: &Phases) -> anyhow::Result<[OpenSocket; 2]> {
    let token = edge.token().unwrap_or_default();
    let options = |path: &str| {
        let options = SocketOptions::new(&edge.address(path)?)?
            .header("host", &edge.host(id))?
            .header("authorization", &format!("Bearer {token}"))?;
        Ok::<_, anyhow::Error>(options.rate(25.0)?)
    };
    Ok([
        EchoClient::open(options("/echo")?, phases).await?,
        ShellClient::open(options("/shell")?, 120, 30, phases).await?,
    ])
}

/// Closes sockets that were on `pod`, and checks that each got back all that was typed, in order.
async fn close_intact(sockets: [OpenSocket; 2], pod: &str) -> anyhow::Result<()> {
    for socket in sockets {
        if socket.snapshot().kind == "shell" {
            assert_eq!(socket.wait_pod(LONG).await?, pod);
        }
        assert!(socket.is_open(), "{}", socket.snapshot().ending());
        let report = socket.finish().await;
        assert!(report.kept(), "{report:#?}");
        assert_eq!(
            (report.lost, report.reordered, report.duplicated),
            (0, 0, 0)
        );
        assert!(
            report.echoed == report.sent && report.echoed >= LINES,
            "{report:#?}"
        );
    }
    Ok(())
}

async fn nobody_notices_twenty_upgrades(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let id = site.spawn(&alice, &template(0), json!({})).await?;
    let mut pods = cluster.pod_names(&id).await?;
    // Moments, on the load's clock, at which the edge was seen to route to pods[n + 1].
    let mut switched_us = Vec::new();

    let phases = Phases::new("before");
    let run = load(&edge, &id)?.start(&phases)?;
    let mut open = sockets(&edge, &id, &phases).await?;
    run.wait_for_requests(1_000, LONG).await?;
    phases.enter("during");
    for version in 1..=UPGRADES {
        for socket in &open {
            socket.wait_echoed(LINES, LONG).await?;
        }
        cluster.apply(&template(version)).await?;
        let answer = alice.upgrade(&id).await?;
        assert_eq!(answer["status"], "upgrading", "upgrade {version}: {answer}");
        let (old, pod) = (
            pods[version - 1].clone(),
            answer["podName"].as_str().unwrap_or_default().to_owned(),
        );
        site.routed(&id, Some(&pod)).await?;
        switched_us.push(u64::try_from(
            phases.mark(format!("switch {version}")).as_micros(),
        )?);

        // What is open types on, on the old pod, which is kept for it; what is new is on the new pod.
        for socket in &open {
            socket.wait_echoed(socket.echoed() + LINES, LONG).await?;
        }
        let fresh = sockets(&edge, &id, &phases).await?;
        assert_eq!(fresh[1].wait_pod(LONG).await?, pod);
        assert_eq!(cluster.pod_names(&id).await?, [old.clone(), pod.clone()]);
        close_intact(std::mem::replace(&mut open, fresh), &old).await?;

        let operation = answer["operationId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        cluster.only_pod(&id, &pod, LONG).await?;
        until("the workspace to be at rest", LONG, || async {
            let record = cluster.record(&id).await?.unwrap_or_default();
            Ok(Observation::when(record["upgrade"].is_null(), (), record))
        })
        .await?;
        until("the operation to succeed", LONG, || async {
            let seen = alice.operation(&operation).await?;
            assert_ne!(seen["state"], "failed", "upgrade {version}: {seen}");
            Ok(Observation::when(seen["state"] == "succeeded", (), seen))
        })
        .await?;
        pods.push(pod);
    }
    phases.enter("after");
    run.wait_for_requests(REQUESTS.max(run.requests() + 1_000), LONG * 4)
        .await?;
    let last = pods.last().cloned().unwrap_or_default();
    close_intact(open, &last).await?;
    let report = run.finish().await;
    assert_eq!(
        report.failures, 0,
        "{:#?}\n{:#?}",
        report.failures_by_kind, report.samples
    );
    assert_eq!(
        (report.stale_retries, report.stale_unsent),
        (0, 0),
        "no connection was closed under a request"
    );
    assert_eq!(
        report.connections_opened,
        u64::try_from(CONNECTIONS)?,
        "every connection lived through it all"
    );
    assert!(report.requests >= REQUESTS, "{}", report.requests);
    assert_eq!((report.labels.len(), report.unlabelled), (pods.len(), 0));

    // No request that was sent after a switch was answered by a pod from before it.
    for (n, switched) in switched_us.iter().enumerate() {
        let (before, after) = (report.label(&pods[n]), report.label(&pods[n + 1]));
        let before = before.map(|label| label.last_sent_us);
        assert!(
            before.is_some_and(|sent| sent < *switched),
            "switch {} at {switched}, yet {before:?}",
            n + 1
        );
        assert!(after.is_some_and(|label| label.answers > 0));
    }
    let pod = cluster.only_pod(&id, &last, LONG).await?;
    assert_eq!(
        pod.metadata.labels.unwrap_or_default()[keys::GENERATION],
        (UPGRADES + 1).to_string()
    );
    let info = edge.get(&id, "/info").await?.json()?;
    assert_eq!(
        (&info["version"], &info["message"]),
        (&json!("20.0"), &json!("message 20"))
    );
    Ok(())
}
