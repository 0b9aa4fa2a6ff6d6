//! Many clients of one workspace: event streams and WebSockets, each of which notes whether anything
//! is missing, and how it ended.

use super::LONG;
use anyhow::{Context as _, bail, ensure};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use nogoo9_tests::{Edge, Observation, Received, Socket, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Clients that open at once.
const OPENING: usize = 32;
/// Messages of a talker that may be under way.
const UNDER_WAY: u64 = 4;
/// Between two messages of a talker.
const PACE: Duration = Duration::from_secs(1);
/// Characters that follow a message's number.
const FILLER: usize = 2_000;

/// How a client's stream or socket ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client left.
    Left,
    /// With its proper end.
    Complete,
    /// In the middle.
    Broken(String),
    /// With a Close frame of that code.
    Closed(u16),
}

/// What one client saw: everything in order and nothing missing, or it fails.
#[derive(Debug)]
pub(super) struct Story {
    /// Events heard, or messages that came back.
    pub(super) seen: u64,
    /// The pod that sent events; sockets do not say.
    pub(super) pod: String,
    pub(super) ended: Ended,
}

struct Client {
    seen: Arc<AtomicU64>,
    task: AbortOnDropHandle<anyhow::Result<Story>>,
}

/// The clients.
pub(super) struct Crowd {
    listeners: Vec<Client>,
    talkers: Vec<Client>,
    leave: CancellationToken,
    ended: watch::Sender<usize>,
}

impl Crowd {
    /// Opens that many event streams and that many WebSockets; each has got something then.
    pub(super) async fn open(edge: &Edge, id: &str, count: usize) -> anyhow::Result<Self> {
        let (leave, ended) = (CancellationToken::new(), watch::Sender::new(0));
        let listeners = (0..count).map(|_| listener(edge, id, &leave, &ended));
        let listeners = stream::iter(listeners).buffer_unordered(OPENING);
        let listeners: Vec<Client> = listeners.try_collect().await.context("event streams")?;
        let talkers = (0..count).map(|_| talker(edge, id, &leave, &ended));
        let talkers = stream::iter(talkers).buffer_unordered(OPENING);
        let talkers = talkers.try_collect().await.context("WebSockets")?;
        let crowd = Self {
            listeners,
            talkers,
            leave,
            ended,
        };
        crowd.goes_on(1).await?;
        Ok(crowd)
    }

    /// Waits until every one of them has got that many more.
    pub(super) async fn goes_on(&self, more: u64) -> anyhow::Result<()> {
        let all = || self.listeners.iter().chain(&self.talkers);
        let seen = |client: &Client| client.seen.load(Ordering::Relaxed);
        let wanted: Vec<u64> = all().map(|client| seen(client) + more).collect();
        until("every stream and socket to go on", LONG, || async {
            let late = all()
                .zip(&wanted)
                .filter(|(client, wanted)| seen(client) < **wanted);
            let (late, ended) = (late.count(), *self.ended.borrow());
            if ended > 0 {
                bail!("{ended} ended before their time");
            }
            Ok(Observation::when(late == 0, (), late))
        })
        .await
    }

    /// Waits until the first one ends.
    pub(super) async fn first_end(&self) -> anyhow::Result<()> {
        let mut ended = self.ended.subscribe();
        let first = tokio::time::timeout(LONG, ended.wait_for(|ended| *ended > 0));
        first.await.context("none ends")??;
        Ok(())
    }

    /// Has those that are left leave; returns what listeners, and what talkers saw.
    pub(super) async fn leave(self) -> anyhow::Result<(Vec<Story>, Vec<Story>)> {
        self.leave.cancel();
        Ok((stories(self.listeners).await?, stories(self.talkers).await?))
    }

    /// Waits until all have ended; returns what listeners, and what talkers saw.
    pub(super) async fn all_end(self) -> anyhow::Result<(Vec<Story>, Vec<Story>)> {
        Ok((stories(self.listeners).await?, stories(self.talkers).await?))
    }
}

async fn stories(clients: Vec<Client>) -> anyhow::Result<Vec<Story>> {
    let mut stories = Vec::new();
    for client in clients {
        let story = tokio::time::timeout(LONG, client.task).await;
        stories.push(story.context("it does not end")???);
    }
    Ok(stories)
}

async fn listener(
    edge: &Edge,
    id: &str,
    leave: &CancellationToken,
    ended: &watch::Sender<usize>,
) -> anyhow::Result<Client> {
    let request = edge.request(Method::GET, &edge.host(id), "/events")?;
    let response = request.timeout(4 * LONG).send().await?;
    ensure!(response.status() == 200, "{}", response.status());
    let (seen, leave, ended) = (Arc::default(), leave.clone(), ended.clone());
    let counted = Arc::clone(&seen);
    let task = tokio::spawn(async move {
        let story = listen(response, &counted, &leave).await;
        ended.send_modify(|ended| *ended += usize::from(!leave.is_cancelled()));
        story
    });
    Ok(Client {
        seen,
        task: AbortOnDropHandle::new(task),
    })
}

async fn listen(
    mut response: reqwest::Response,
    seen: &AtomicU64,
    leave: &CancellationToken,
) -> anyhow::Result<Story> {
    let (mut rest, mut pod) = (Vec::new(), None);
    let ended = loop {
        let chunk = tokio::select! {
            () = leave.cancelled() => break Ended::Left,
            chunk = response.chunk() => chunk,
        };
        match chunk {
            Ok(Some(chunk)) => rest.extend_from_slice(&chunk),
            Ok(None) => {
                ensure!(rest.is_empty(), "a stream is complete amid an event");
                break Ended::Complete;
            }
            Err(error) => break Ended::Broken(format!("{error:?}")),
        }
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = rest.drain(..end + 2).collect();
            let data = data(&event)?;
            let expected = seen.load(Ordering::Relaxed);
            ensure!(
                data["seq"] == expected,
                "{data} instead of event {expected}"
            );
            let from = data["pod"].as_str().unwrap_or_default();
            let pod = pod.get_or_insert_with(|| from.to_owned());
            ensure!(pod == from, "{data} in a stream of {pod}");
            seen.store(expected + 1, Ordering::Relaxed);
        }
    };
    Ok(Story {
        seen: seen.load(Ordering::Relaxed),
        pod: pod.unwrap_or_default(),
        ended,
    })
}

/// JSON of an event's data.
fn data(event: &[u8]) -> anyhow::Result<Value> {
    let text = std::str::from_utf8(event).context("an event is no text")?;
    let data: String = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .collect();
    serde_json::from_str(&data).with_context(|| text.to_owned())
}

async fn talker(
    edge: &Edge,
    id: &str,
    leave: &CancellationToken,
    ended: &watch::Sender<usize>,
) -> anyhow::Result<Client> {
    let socket = Socket::open(edge, &edge.host(id), "/echo", &[]).await?;
    let (seen, leave, ended) = (Arc::default(), leave.clone(), ended.clone());
    let counted = Arc::clone(&seen);
    let task = tokio::spawn(async move {
        let story = talk(socket, &counted, &leave).await;
        ended.send_modify(|ended| *ended += usize::from(!leave.is_cancelled()));
        story
    });
    Ok(Client {
        seen,
        task: AbortOnDropHandle::new(task),
    })
}

fn message(n: u64) -> Message {
    Message::text(format!("{n} {:.<FILLER$}", ""))
}

async fn talk(
    mut socket: Socket,
    seen: &AtomicU64,
    leave: &CancellationToken,
) -> anyhow::Result<Story> {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sent, mut back, mut takes) = (0, 0, true);
    let ended = loop {
        tokio::select! {
            () = leave.cancelled() => {
                socket.close().await;
                break Ended::Left;
            }
            _ = ticks.tick(), if takes && sent - back < UNDER_WAY => {
                // One that is closed takes nothing, but there may be something to read.
                takes = socket.send(message(sent)).await.is_ok();
                sent += 1;
            }
            received = socket.receive() => match received {
                Ok(Received::Message(got)) => {
                    ensure!(got == message(back), "not message {back}: {got:.20}");
                    back += 1;
                    seen.store(back, Ordering::Relaxed);
                }
                Ok(Received::Closed(code)) => break Ended::Closed(code),
                Err(error) => break Ended::Broken(format!("{error:#}")),
            },
        }
    };
    Ok(Story {
        seen: back,
        pod: String::new(),
        ended,
    })
}
