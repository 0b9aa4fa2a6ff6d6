//! Event streams and WebSockets, left after a while.

use super::{Person, Proof};
use crate::LONG;
use crate::connection::{Connection, empty};
use crate::tally::{Kind, Why};
use anyhow::{Context as _, ensure};
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, interval};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;
use tokio_tungstenite::tungstenite::{Error, Message};

/// How long somebody stays, in milliseconds.
const STAY: (u64, u64) = (2_000, 40_000);
/// Close codes that say to come back at once: going away, service restart.
const COME_BACK: [u16; 2] = [1001, 1012];

/// How a stream or socket went that was not left.
enum End {
    /// The pod ended it properly.
    ByPod,
    /// A proxy closed it with this code.
    Closed(u16),
    /// It was never opened: a proxy answered 503, and when to come back.
    Unavailable,
}

pub(super) async fn events(mut person: Person) {
    while person.rests(50, 1_000).await {
        let mut connection = match Connection::open(&person.doors).await {
            Ok(connection) => connection,
            Err(error) => {
                person.tally.failed(Kind::Events, &format!("{error:#}"));
                continue;
            }
        };
        let stay = person.dice.between(STAY.0, STAY.1);
        let began = Instant::now();
        let heard = tokio::select! {
            heard = listen(&person, &mut connection) => Some(heard),
            () = tokio::time::sleep(stay) => None,
            () = person.stop.cancelled() => None,
        };
        match heard {
            None => person.tally.done(Kind::Events, began.elapsed()),
            Some(Ok(())) => person.tally.expected(Kind::Events, Why::Replaced),
            Some(Err(error)) => {
                let what = format!("after {:?}: {error:#}", began.elapsed());
                person.tally.broke(Kind::Events, &connection.life, &what);
            }
        }
    }
}

/// Listens until the pod ends the stream; none of its events is missing.
async fn listen(person: &Person, connection: &mut Connection) -> anyhow::Result<()> {
    let request = person.request(&person.place.bearer, "GET", "/events");
    let (head, mut body) = connection.ask(request.body(empty())?).await?.into_parts();
    ensure!(head.status == 200, "{}", head.status);
    let (mut rest, mut next) = (Vec::new(), 0_u64);
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            rest.extend_from_slice(&data);
        }
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = rest.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&event).into_owned();
            let mut lines = text.lines();
            let data = lines.find_map(|line| line.strip_prefix("data:"));
            let data: Value = serde_json::from_str(data.context("no data")?)?;
            ensure!(data["seq"] == next, "{data} instead of event {next}");
            next += 1;
        }
    }
    ensure!(rest.is_empty(), "complete amid an event");
    Ok(())
}

pub(super) async fn sockets(mut person: Person) {
    while person.rests(50, 1_000).await {
        let way = match person.doors.connect().await {
            Ok(way) => way,
            Err(error) => {
                person.tally.failed(Kind::Socket, &format!("{error:#}"));
                continue;
            }
        };
        let stay = person.dice.between(STAY.0, STAY.1);
        let began = Instant::now();
        let life = way.life;
        match talk(&person, way.stream, stay).await {
            Ok(None) => person.tally.done(Kind::Socket, began.elapsed()),
            Ok(Some(End::ByPod)) => person.tally.expected(Kind::Socket, Why::Replaced),
            Ok(Some(End::Closed(code))) if COME_BACK.contains(&code) => {
                let why = if life.is_stopping() {
                    Why::Stopped
                } else {
                    Why::Replaced
                };
                person.tally.expected(Kind::Socket, why);
            }
            // It waited for a pod, and is asked to come back as one that is open.
            Ok(Some(End::Unavailable)) if life.is_stopping() => {
                person.tally.expected(Kind::Socket, Why::Stopped);
            }
            Ok(Some(End::Unavailable)) => person.tally.failed(Kind::Socket, "refused: 503"),
            Ok(Some(End::Closed(code))) => {
                person
                    .tally
                    .failed(Kind::Socket, &format!("closed: {code}"));
            }
            Err(error) => {
                let what = format!("after {:?}: {error:#}", began.elapsed());
                person.tally.broke(Kind::Socket, &life, &what);
            }
        }
    }
}

/// Talks for a while; `None`: left in good order.
async fn talk(
    person: &Person,
    stream: tokio::net::TcpStream,
    stay: Duration,
) -> anyhow::Result<Option<End>> {
    let mut request = format!("ws://{}/echo", person.place.host).into_client_request()?;
    let Proof::Bearer(token) = &person.place.bearer else {
        anyhow::bail!("no token");
    };
    let token = format!("Bearer {token}").parse()?;
    request.headers_mut().append("authorization", token);
    let opened = tokio::time::timeout(LONG, tokio_tungstenite::client_async(request, stream));
    let (mut socket, _) = match opened.await.context("no handshake")? {
        Ok(opened) => opened,
        Err(Error::Http(answer))
            if answer.status() == StatusCode::SERVICE_UNAVAILABLE
                && answer.headers().contains_key(RETRY_AFTER) =>
        {
            return Ok(Some(End::Unavailable));
        }
        Err(Error::Http(answer)) => {
            let body = answer.body().clone().unwrap_or_default();
            let text = String::from_utf8_lossy(&body).into_owned();
            anyhow::bail!("refused: {} {text:.300}", answer.status());
        }
        Err(error) => anyhow::bail!("handshake: {error:?}"),
    };
    let message = |n: u64| Message::text(format!("{n} {:.<500}", ""));
    let mut ticks = interval(Duration::from_millis(500));
    let leave = Instant::now() + stay;
    let (mut sent, mut back, mut takes) = (0_u64, 0_u64, true);
    loop {
        let done = Instant::now() >= leave || person.stop.is_cancelled();
        if done && sent == back {
            let _closed = socket.close(None).await;
            return Ok(None);
        }
        tokio::select! {
            _ = ticks.tick(), if takes && !done && sent - back < 8 => {
                // One that is closed takes nothing; what it said is still read.
                takes = socket.send(message(sent)).await.is_ok();
                sent += u64::from(takes);
            }
            next = tokio::time::timeout(LONG, socket.next()) => {
                match next.context("nothing comes")? {
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Ok(Some(End::Closed(frame.code.into())));
                    }
                    Some(Ok(Message::Close(None))) => return Ok(Some(End::ByPod)),
                    Some(Ok(got @ (Message::Text(_) | Message::Binary(_)))) => {
                        ensure!(got == message(back), "not message {back}: {got:.20}");
                        back += 1;
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => anyhow::bail!("{back} of {sent} came back: {error}"),
                    None => anyhow::bail!("{back} of {sent} came back, then no more"),
                }
            }
        }
    }
}
