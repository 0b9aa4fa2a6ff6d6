//! Who uses the workspaces, and how.

mod http;
mod streams;
mod transfers;
mod vanish;

use super::dice::Dice;
use super::doors::Doors;
use super::tally::Tally;
use ::http::Request;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Of each kind, for each workspace.
const PAGES: usize = 3;
const BROWSERS: usize = 1;
const EVENTS: usize = 3;
const SOCKETS: usize = 3;
/// Of each kind, in all, for each three workspaces.
const TRANSFERS: usize = 1;

/// What the edge takes for who somebody is.
#[derive(Debug, Clone)]
pub(super) enum Proof {
    /// A bearer token.
    Bearer(String),
    /// The cookies of a browser's session on this host, as they are now.
    Cookies(Arc<Mutex<String>>),
}

/// One workspace, and how its owner gets in.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) id: String,
    pub(super) host: String,
    pub(super) bearer: Proof,
    pub(super) browser: Proof,
}

/// One client.
struct Person {
    doors: Arc<Doors>,
    place: Place,
    dice: Dice,
    tally: Tally,
    stop: CancellationToken,
}

impl Person {
    /// A request to build upon.
    fn request(&self, proof: &Proof, method: &str, path: &str) -> ::http::request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.place.host);
        match proof {
            Proof::Bearer(token) => request.header("authorization", format!("Bearer {token}")),
            Proof::Cookies(cookies) => {
                let cookies = cookies.lock().unwrap_or_else(PoisonError::into_inner);
                let request = request.header("cookie", cookies.as_str());
                nogoo9_tests::NAVIGATION
                    .iter()
                    .fold(request, |request, (name, value)| {
                        request.header(*name, *value)
                    })
            }
        }
    }

    /// Waits for a while; false if it is time to stop.
    async fn rests(&mut self, least: u64, most: u64) -> bool {
        let rest = self.dice.between(least, most);
        tokio::select! {
            () = tokio::time::sleep(rest) => true,
            () = self.stop.cancelled() => false,
        }
    }
}

/// Everybody.
pub(super) struct People {
    all: JoinSet<()>,
    stop: CancellationToken,
}

impl People {
    /// Lets them in.
    pub(super) fn start(doors: &Arc<Doors>, places: &[Place], seed: u64, tally: &Tally) -> Self {
        let (mut all, stop) = (JoinSet::new(), CancellationToken::new());
        let mut number = 1_000;
        let mut person = |place: &Place| {
            number += 1;
            Person {
                doors: Arc::clone(doors),
                place: place.clone(),
                dice: Dice::of(seed, number),
                tally: tally.clone(),
                stop: stop.clone(),
            }
        };
        for (index, place) in places.iter().enumerate() {
            for _ in 0..PAGES {
                all.spawn(http::requests(person(place)));
            }
            for _ in 0..BROWSERS {
                all.spawn(http::pages(person(place)));
            }
            for _ in 0..EVENTS {
                all.spawn(streams::events(person(place)));
            }
            for _ in 0..SOCKETS {
                all.spawn(streams::sockets(person(place)));
            }
            for _ in 0..TRANSFERS * usize::from(index % 3 == 0) {
                all.spawn(transfers::uploads(person(place)));
                all.spawn(transfers::downloads(person(place)));
                all.spawn(vanish::again_and_again(person(place)));
            }
        }
        Self { all, stop }
    }

    /// Has everybody leave, and waits until they have.
    pub(super) async fn leave(mut self) -> anyhow::Result<()> {
        self.stop.cancel();
        while let Some(left) = self.all.join_next().await {
            left?;
        }
        Ok(())
    }
}
