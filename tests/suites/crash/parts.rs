//! One blow for seven upgrades at once.

use super::LONG;
use super::fleet::Fleet;
use nogoo9_load::{HttpLoad, HttpRun, Phases};
use nogoo9_tests::{Edge, Site};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;

/// Steady requests to a workspace, from a few connections.
fn load(edge: &Edge, id: &str) -> anyhow::Result<HttpRun> {
    let token = edge.token().unwrap_or_default();
    let load = HttpLoad::new(&edge.address("/info")?)?
        .connections(4)
        .timeouts(LONG, LONG)
        .header("host", &edge.host(id))?
        .header("authorization", &format!("Bearer {token}"))?;
    Ok(load.start(&Phases::new("all"))?)
}

/// Kills a part that requests do not pass through: not one of them fails, and what is open stays so.
async fn behind_the_scenes(site: &Site, part: &'static str) -> anyhow::Result<()> {
    let mut fleet = Fleet::under_way(site, part).await?;
    let edge = site.edge("alice").await?;
    let runs = fleet
        .ships
        .iter()
        .map(|ship| load(&edge, &ship.id))
        .collect::<anyhow::Result<Vec<_>>>()?;
    site.kill(part).await?;
    for socket in fleet
        .ships
        .iter_mut()
        .filter_map(|ship| ship.socket.as_mut())
    {
        socket.send(Message::text("after")).await?;
        assert_eq!(socket.next().await?, Message::text("after"));
    }
    fleet
        .ends_well_before(site, async || {
            for run in runs {
                let report = run.finish().await;
                assert!(report.requests > 0);
                assert_eq!(report.failures, 0, "{:#?}", report.samples);
            }
        })
        .await
}

pub(super) async fn control(site: Arc<Site>) -> anyhow::Result<()> {
    behind_the_scenes(&site, "control").await
}

pub(super) async fn api_server(site: Arc<Site>) -> anyhow::Result<()> {
    behind_the_scenes(&site, "apiserver").await
}

pub(super) async fn proxy(site: Arc<Site>) -> anyhow::Result<()> {
    let fleet = Fleet::under_way(&site, "proxy").await?;
    site.kill("proxy").await?;
    fleet.ends_well(&site).await
}

pub(super) async fn everything(site: Arc<Site>) -> anyhow::Result<()> {
    let fleet = Fleet::under_way(&site, "all").await?;
    site.kill_all_and_restart().await?;
    fleet.ends_well(&site).await
}
