//! What dies, and what nobody may notice of it.

use super::bulk;
use super::fleet::Fleet;
use super::load::{Excuse, Load};
use anyhow::Context as _;
use nogoo9_tests::Target;
use nogoo9_tests::faults::{Fault, Part, kill_container};
use nogoo9_tests::proxies::{self, Running};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// An outage that is none of a moment: longer than requests, watches and leases last.
const OUTAGE: Duration = Duration::from_secs(120);

/// The fleet is everybody's, since it takes a while to come up: each case brings it to the next version.
static FLEET: Mutex<Option<Fleet>> = Mutex::const_new(None);

/// Who dies.
#[derive(Debug, Clone, Copy)]
enum Victim {
    Part(Part),
    /// The API server, for two minutes.
    Outage,
    Control,
    Proxy,
    /// The node where control is not: who drives the bulk goes on, and must cope.
    Node,
}

impl Victim {
    /// Kills it, and waits until it is back. Says whose requests may have failed by that.
    async fn dies(
        self,
        target: &Target,
        proxies: &[Running],
        load: &Load,
    ) -> anyhow::Result<Excuse> {
        match self {
            Self::Part(part) => part.kill().await.map(|()| Excuse::None),
            Self::Outage => {
                Part::ApiServer
                    .away(async {
                        sleep(OUTAGE).await;
                        Ok(())
                    })
                    .await?;
                Ok(Excuse::Recreated)
            }
            Self::Control => {
                let control = proxies::control(target).await?;
                kill_container(&control.node, &control.container).await?;
                proxies::back(target, "control", &control).await?;
                Ok(Excuse::None)
            }
            Self::Proxy => {
                let proxy = proxies.first().context("a proxy")?;
                let killed = load.phases.elapsed();
                kill_container(&proxy.node, &proxy.container).await?;
                proxies::back(target, "proxy", proxy).await?;
                Ok(Excuse::Proxy {
                    name: proxy.name.clone(),
                    killed,
                    back: load.phases.elapsed(),
                })
            }
            Self::Node => {
                let control = proxies::control(target).await?;
                let mut there = proxies.iter().filter(|proxy| proxy.node != control.node);
                let proxy = there.next().context("a proxy on the other node")?;
                let missed = proxies::missed(target, "proxy", proxy);
                Fault::PowerCut.during(&proxy.node, missed).await?;
                proxies::back(target, "proxy", proxy).await?;
                Ok(Excuse::Node(proxy.node.clone()))
            }
        }
    }
}

/// Upgrades the whole fleet under load, lets this die in the middle, and holds everybody to their
/// promises.
#[allow(clippy::print_stdout, reason = "the report of a test program")]
async fn amid_a_bulk(target: &Target, victim: Victim) -> anyhow::Result<()> {
    let mut fleet = FLEET.lock().await;
    let proxies = proxies::one_on_each_node(target).await?;
    if fleet.is_none() {
        *fleet = Some(Fleet::up(target).await?);
    }
    let fleet = fleet.as_mut().context("fleet")?;
    let load = Load::on(target, fleet, &proxies).await?;
    let old = fleet.offer_next(target).await?;
    let begin = Instant::now();
    let operation = bulk::begin(target, fleet.workspaces.len()).await?;
    bulk::middle(target, &operation).await?;
    let excuse = victim.dies(target, &proxies, &load).await?;
    let ended = bulk::end(target, &operation).await?;
    let took = begin.elapsed();
    let renewed = fleet.converges(target, &old, &ended).await?;
    let (answered, failed) = load.end(&excuse).await?;
    let of = fleet.workspaces.len();
    println!(
        "{victim:?}: {renewed} of {of} workspaces upgraded in {took:.1?}; {answered} requests answered, {failed} failed"
    );
    Ok(())
}

pub(super) async fn the_api_server_is_killed(target: Arc<Target>) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Part(Part::ApiServer)).await
}

pub(super) async fn etcd_is_killed(target: Arc<Target>) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Part(Part::Etcd)).await
}

pub(super) async fn control_is_killed(target: Arc<Target>) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Control).await
}

pub(super) async fn a_proxy_is_killed(target: Arc<Target>) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Proxy).await
}

pub(super) async fn a_node_loses_power(target: Arc<Target>) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Node).await
}

pub(super) async fn the_api_server_is_away_for_two_minutes(
    target: Arc<Target>,
) -> anyhow::Result<()> {
    amid_a_bulk(&target, Victim::Outage).await
}

/// The fleet goes, and nothing of it is left.
pub(super) async fn it_all_goes_away_in_order(target: Arc<Target>) -> anyhow::Result<()> {
    match FLEET.lock().await.take() {
        Some(fleet) => fleet.down(&target).await,
        None => Ok(()),
    }
}
