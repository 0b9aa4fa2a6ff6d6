//! Proxies and controls that are told to stop, or killed, at random; and are started again.

use super::dice::Dice;
use super::doors::Doors;
use anyhow::Context as _;
use nix::sys::signal::Signal;
use nogoo9_tests::peer::Peer;
use nogoo9_tests::{Observation, Process, Site, until};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

use super::LONG;

/// Between two of them, in milliseconds.
const REST: (u64, u64) = (6_000, 14_000);

/// How many there were.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    pub(super) proxies_stopped: u64,
    pub(super) proxies_killed: u64,
    pub(super) controls_stopped: u64,
    pub(super) controls_killed: u64,
}

/// Restarts until it is to stop; returns once everything runs again. The first of the doors is left
/// alone, as are peers' controls.
pub(super) async fn go_on(
    site: Arc<Site>,
    doors: Arc<Doors>,
    mut peers: Vec<Peer>,
    mut dice: Dice,
    stop: CancellationToken,
) -> anyhow::Result<(Restarts, Vec<Peer>)> {
    let mut seen = Restarts::default();
    loop {
        let rest = dice.between(REST.0, REST.1);
        tokio::select! {
            () = tokio::time::sleep(rest) => {}
            () = stop.cancelled() => return Ok((seen, peers)),
        }
        let signal = if dice.below(2) == 0 {
            Signal::SIGTERM
        } else {
            Signal::SIGKILL
        };
        let whom = usize::try_from(dice.below(3))?;
        match peers.get_mut(whom) {
            Some(peer) => {
                let door = doors.door(whom + 1).context("a door")?;
                if signal == Signal::SIGKILL {
                    door.life().kill();
                    seen.proxies_killed += 1;
                } else {
                    door.life().tell();
                    seen.proxies_stopped += 1;
                }
                peer.signal(signal)?;
                peer.gone().await?;
                door.again();
                peer.again(&site).await?;
            }
            None => {
                control(&site, signal).await?;
                if signal == Signal::SIGKILL {
                    seen.controls_killed += 1;
                } else {
                    seen.controls_stopped += 1;
                }
            }
        }
    }
}

/// The one that proxies send requests to. The site starts it again.
async fn control(site: &Site, signal: Signal) -> anyhow::Result<()> {
    let old = site.process("control")?;
    old.signal(signal)?;
    until("another control", LONG, || async {
        let now = site.pid("control")?.and_then(Process::of);
        let another = now.as_ref().is_some_and(|now| *now != old);
        Ok(Observation::when(another, (), now))
    })
    .await
}
