//! The way in: a load balancer in a few lines. It sends connections in turn to the proxies that say
//! they are ready, and to the next one where none is taken; and it knows which life of which proxy a
//! connection went to, so that what a restart breaks is told from what nothing may break.

use super::{DRAIN, STOP};
use anyhow::bail;
use nogoo9_tests::Api;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

/// How often proxies are asked whether they are ready.
const LOOK: Duration = Duration::from_millis(100);
/// Longest time for a proxy to take a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest time without any proxy that takes one.
const NONE: Duration = Duration::from_secs(60);

/// One process of a proxy, from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Life {
    killed: AtomicBool,
    told: OnceLock<Instant>,
}

impl Life {
    /// It is about to be killed.
    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
    }

    /// It is about to be told to stop.
    pub(super) fn tell(&self) {
        let _first = self.told.set(Instant::now());
    }

    /// Whether it was killed.
    pub(super) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    /// Whether it was told to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.told.get().is_some()
    }

    /// Whether the time that it gives to what is in flight is over, or has but a second left, in which what
    /// waits for a pod is told to ask another one.
    pub(super) fn is_over(&self) -> bool {
        // It counts from a moment after ours.
        let given =
            Duration::from_secs(DRAIN + STOP - 1).saturating_sub(Duration::from_millis(200));
        self.told.get().is_some_and(|told| told.elapsed() >= given)
    }
}

/// A proxy.
#[derive(Debug)]
pub(super) struct Door {
    at: SocketAddr,
    ready: AtomicBool,
    life: Mutex<Arc<Life>>,
}

impl Door {
    /// Its present life.
    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It lives again.
    pub(super) fn again(&self) {
        *self.life.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }
}

/// A connection to a proxy.
pub(super) struct Way {
    pub(super) stream: TcpStream,
    pub(super) life: Arc<Life>,
}

/// All proxies.
#[derive(Debug)]
pub(super) struct Doors {
    doors: Vec<Arc<Door>>,
    turn: AtomicUsize,
    _looks: Vec<AbortOnDropHandle<()>>,
}

impl Doors {
    /// Proxies that listen there, with their admin listeners.
    pub(super) fn new(proxies: &[(SocketAddr, Url)]) -> anyhow::Result<Self> {
        let (mut doors, mut looks) = (Vec::new(), Vec::new());
        for (at, admin) in proxies {
            let door = Arc::new(Door {
                at: *at,
                ready: AtomicBool::new(true),
                life: Mutex::default(),
            });
            let (api, looked_at) = (Api::at(admin, None)?, Arc::clone(&door));
            looks.push(AbortOnDropHandle::new(tokio::spawn(look(api, looked_at))));
            doors.push(door);
        }
        Ok(Self {
            doors,
            turn: AtomicUsize::new(0),
            _looks: looks,
        })
    }

    /// One of them.
    pub(super) fn door(&self, index: usize) -> Option<&Arc<Door>> {
        self.doors.get(index)
    }

    /// Connects to the next one that takes it.
    pub(super) async fn connect(&self) -> anyhow::Result<Way> {
        let deadline = Instant::now() + NONE;
        let mut last = "none is ready".to_owned();
        while Instant::now() < deadline {
            for _ in 0..self.doors.len() {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.doors.len().max(1);
                let Some(door) = self.doors.get(turn) else {
                    continue;
                };
                if !door.ready.load(Ordering::Relaxed) {
                    continue;
                }
                let life = door.life();
                match tokio::time::timeout(CONNECT, TcpStream::connect(door.at)).await {
                    Ok(Ok(stream)) => {
                        stream.set_nodelay(true)?;
                        return Ok(Way { stream, life });
                    }
                    Ok(Err(error)) => last = error.to_string(),
                    Err(_) => last = format!("{} takes no connection", door.at),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        bail!("no proxy takes a connection: {last}")
    }
}

async fn look(api: Api, door: Arc<Door>) {
    loop {
        let ready = tokio::time::timeout(CONNECT, api.get("/readyz")).await;
        let ready = matches!(ready, Ok(Ok(reply)) if reply.status == 200);
        door.ready.store(ready, Ordering::Relaxed);
        tokio::time::sleep(LOOK).await;
    }
}
