//! Clients that are gone from one moment to the next, at any point of what they do.

use super::{Person, Proof};
use crate::doors::Way;
use crate::tally::Kind;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::Instant;

/// Ways to vanish.
const WAYS: u64 = 7;

pub(super) async fn again_and_again(mut person: Person) {
    while person.rests(20, 500).await {
        let began = Instant::now();
        match person.doors.connect().await {
            Ok(way) => {
                // However far it gets.
                let _gone = vanish(&mut person, way).await;
                person.tally.done(Kind::Vanish, began.elapsed());
            }
            Err(error) => person.tally.failed(Kind::Vanish, &format!("{error:#}")),
        }
    }
}

async fn vanish(person: &mut Person, mut way: Way) -> std::io::Result<()> {
    let Proof::Bearer(token) = person.place.bearer.clone() else {
        return Ok(());
    };
    let head = |line: &str, more: &str| {
        let host = &person.place.host;
        format!("{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
    };
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let sent = match person.dice.below(WAYS) {
        0 => String::new(),
        1 => "GET /info HTT".to_owned(),
        2 => head("GET /slow?ms=20000", ""),
        3 => head("POST /upload", "Content-Length: 1000000\r\n") + "the beginning",
        4 => head("GET /download?seed=1&blocks=2000", ""),
        5 => head("GET /events", ""),
        _ => head("GET /echo", upgrade),
    };
    way.stream.write_all(sent.as_bytes()).await?;
    if person.dice.below(2) == 0 {
        let mut some = [0; 4096];
        let read = way.stream.read(&mut some);
        let _some = tokio::time::timeout(Duration::from_millis(300), read).await;
    }
    tokio::time::sleep(person.dice.between(0, 200)).await;
    if person.dice.below(2) == 0 {
        // Not even a farewell: a reset.
        way.stream.set_zero_linger()?;
    }
    Ok(())
}
