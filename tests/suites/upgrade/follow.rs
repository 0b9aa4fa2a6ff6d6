//! Affinity: requests that stay with the shell of their session, until the old pod is drained.

use super::{LONG, begin, ended, text};
use nogoo9_load::{OpenSocket, Phases, ShellClient, SocketOptions};
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Observation, Site, Template, until};
use serde_json::json;
use std::sync::Arc;

/// Seconds for which the shell keeps its pod, and not longer.
const DRAIN: &str = "15";

async fn shell(edge: &Edge, id: &str) -> anyhow::Result<OpenSocket> {
    let token = edge.token().unwrap_or_default();
    let options = SocketOptions::new(&edge.address("/shell")?)?
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?
        .rate(10.0)?;
    Ok(ShellClient::open(options, 120, 30, &Phases::new("shell")).await?)
}

async fn pod(edge: &Edge, id: &str) -> anyhow::Result<String> {
    Ok(text(&edge.get(id, "/info").await?.json()?["pod"]))
}

pub(super) async fn requests_stay_with_their_shell_until_it_is_drained(
    site: Arc<Site>,
) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = Template::new("affine", "1.0")
        .annotation(keys::AFFINITY, "session")
        .annotation(keys::SETTLE, "1")
        .annotation(keys::DRAIN_TIMEOUT, DRAIN);
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = pod(&edge, &id).await?;
    let shell = shell(&edge, &id).await?;
    assert_eq!(shell.wait_pod(LONG).await?, old);

    cluster.apply(&template.version("2.0")).await?;
    let answer = begin(&alice, &id).await?;
    let (new, operation) = (text(&answer["podName"]), text(&answer["operationId"]));
    site.routed(&id, Some(&new)).await?;
    // While the shell is open on the old pod, the route is not theirs to follow.
    let mut stayed = 0;
    while cluster.pod_names(&id).await?.contains(&old) {
        let who = pod(&edge, &id).await?;
        if who != old {
            // It has begun to go since.
            assert_eq!(who, new);
            break;
        }
        stayed += 1;
    }
    assert!(stayed > 0, "requests went to {new} at once");
    until("requests to go to the new pod", LONG, || async {
        let who = pod(&edge, &id).await?;
        Ok(Observation::when(who == new, (), who))
    })
    .await?;
    assert_eq!(ended(&alice, &operation).await?["state"], "succeeded");
    cluster.only_pod(&id, &new, LONG).await?;
    let report = shell.finish().await;
    assert_eq!(report.reordered, 0, "{report:#?}");
    Ok(())
}
