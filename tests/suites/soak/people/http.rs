//! Requests and pages, on connections that are kept for a while.

use super::{Person, Proof};
use crate::connection::{Connection, empty};
use crate::tally::{Kind, Why};
use bytes::Bytes;
use serde_json::Value;
use std::sync::PoisonError;
use tokio::time::Instant;

/// Requests on one connection.
const REUSE: u32 = 20;
/// Least pause between two of them, in milliseconds, and the longest: beyond the time for which pods
/// keep unused connections, now and then.
const REST: (u64, u64) = (50, 400);
/// Reloads of a waiting page before it is given up.
const RELOADS: u32 = 150;

/// What an answer must be.
type Check = fn(&Person, &http::response::Parts, &Bytes) -> Result<Verdict, String>;

enum Verdict {
    Good,
    /// It says to come back in a moment.
    Later,
}

/// Asks for small things by a bearer token.
pub(super) async fn requests(person: Person) {
    let proof = person.place.bearer.clone();
    again_and_again(person, Kind::Page, proof, "/info", |person, head, body| {
        let info: Value = serde_json::from_slice(body).unwrap_or_default();
        if head.status == 200 && info["workspace"] == person.place.id.as_str() {
            Ok(Verdict::Good)
        } else {
            Err(format!("{} {}", head.status, start(body)))
        }
    })
    .await;
}

/// Opens the workspace's page in a session, as a browser does.
pub(super) async fn pages(person: Person) {
    let proof = person.place.browser.clone();
    again_and_again(person, Kind::Browser, proof, "/", |_, head, body| {
        let waits = head.status == 503 && is_page(body);
        if head.status == 200 {
            Ok(Verdict::Good)
        } else if waits {
            Ok(Verdict::Later)
        } else {
            let location = head.headers.get("location");
            Err(format!("{} {location:?} {}", head.status, start(body)))
        }
    })
    .await;
}

fn is_page(body: &Bytes) -> bool {
    let begins = b"<!doctype html>";
    let start = body.get(..begins.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(begins))
}

fn start(body: &Bytes) -> String {
    String::from_utf8_lossy(body.get(..300).unwrap_or(body)).into_owned()
}

async fn again_and_again(
    mut person: Person,
    kind: Kind,
    proof: Proof,
    path: &'static str,
    check: Check,
) {
    let (mut kept, mut reloads) = (None::<Connection>, 0);
    while person.rests(REST.0, REST.1).await {
        let usable = match &mut kept {
            Some(connection) => connection.used < REUSE && connection.is_open().await,
            None => false,
        };
        let mut connection = match kept.take() {
            Some(connection) if usable => connection,
            _ => match Connection::open(&person.doors).await {
                Ok(connection) => connection,
                Err(error) => {
                    person.tally.failed(kind, &format!("{error:#}"));
                    continue;
                }
            },
        };
        let Ok(request) = person.request(&proof, "GET", path).body(empty()) else {
            return person.tally.failed(kind, "no request");
        };
        let (began, reused) = (Instant::now(), connection.used > 0);
        match connection.whole(request).await {
            Ok((head, body)) => {
                keep_cookies(&proof, &head);
                match check(&person, &head, &body) {
                    Ok(Verdict::Good) => {
                        reloads = 0;
                        person.tally.done(kind, began.elapsed());
                    }
                    Ok(Verdict::Later) if reloads < RELOADS => {
                        reloads += 1;
                        person.tally.expected(kind, Why::Waited);
                        if !person.rests(1_000, 1_000).await {
                            return;
                        }
                    }
                    Ok(Verdict::Later) => {
                        reloads = 0;
                        person.tally.failed(kind, "it waits for ever");
                    }
                    // No pod has come while its proxy could wait for one.
                    Err(_) if head.status == 503 && connection.life.is_over() => {
                        person.tally.expected(kind, Why::Stopped);
                    }
                    Err(what) => person.tally.failed(kind, &what),
                }
                kept = Some(connection);
            }
            // A connection that was idle may be closed at any time. A client asks again then.
            Err(error) if reused && error.to_string().starts_with("no answer: ") => {
                if connection.life.is_killed() || connection.life.is_stopping() {
                    person.tally.expected(kind, Why::Stale);
                } else {
                    let life = &connection.life;
                    person
                        .tally
                        .broke(kind, life, &format!("reused: {error:#}"));
                }
            }
            Err(error) => person
                .tally
                .broke(kind, &connection.life, &format!("{error:#}")),
        }
    }
}

/// Keeps what a browser would: an answer may bring the session's next token.
fn keep_cookies(proof: &Proof, head: &http::response::Parts) {
    let Proof::Cookies(cookies) = proof else {
        return;
    };
    for value in head.headers.get_all("set-cookie") {
        let Some((name, value)) = value
            .to_str()
            .ok()
            .and_then(|text| text.split(';').next()?.split_once('='))
        else {
            continue;
        };
        let mut kept = cookies.lock().unwrap_or_else(PoisonError::into_inner);
        let others = kept
            .split("; ")
            .filter(|pair| pair.split_once('=').is_some_and(|(other, _)| other != name));
        let mut all: Vec<String> = others.map(ToOwned::to_owned).collect();
        all.push(format!("{name}={value}"));
        *kept = all.join("; ");
    }
}
