//! Uploads and downloads, checked to the byte.

use super::Person;
use crate::connection::{Connection, chunks, empty};
use crate::tally::Kind;
use data_encoding::HEXLOWER;
use futures::stream::{self, StreamExt as _};
use http_body_util::BodyExt as _;
use nogoo9_local::sample::noise::block;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use tokio::time::Instant;

/// Most blocks of one.
const BLOCKS: u64 = 24;
/// Longest time between two blocks, in milliseconds.
const PACE: u64 = 60;

fn sum(seed: u64, blocks: u64) -> String {
    let mut sum = Sha256::new();
    (0..blocks).for_each(|n| sum.update(block(seed, n)));
    HEXLOWER.encode(sum.finalize().as_slice())
}

pub(super) async fn uploads(mut person: Person) {
    while person.rests(200, 2_000).await {
        let (seed, blocks) = (person.dice.below(1 << 20), 1 + person.dice.below(BLOCKS));
        let pace = Duration::from_millis(person.dice.below(PACE));
        let parts = stream::iter(0..blocks).then(move |n| async move {
            tokio::time::sleep(pace).await;
            block(seed, n)
        });
        let proof = person.place.bearer.clone();
        let request = person
            .request(&proof, "POST", "/upload")
            .body(chunks(parts));
        let began = Instant::now();
        let (mut connection, request) = match (Connection::open(&person.doors).await, request) {
            (Ok(connection), Ok(request)) => (connection, request),
            (Err(error), _) => {
                person.tally.failed(Kind::Upload, &format!("{error:#}"));
                continue;
            }
            (_, Err(error)) => return person.tally.failed(Kind::Upload, &error.to_string()),
        };
        match connection.whole(request).await {
            Ok((head, body)) => {
                let said: Value = serde_json::from_slice(&body).unwrap_or_default();
                if head.status == 200 && said["sha256"] == sum(seed, blocks).as_str() {
                    person.tally.done(Kind::Upload, began.elapsed());
                } else {
                    let text = String::from_utf8_lossy(&body).into_owned();
                    let what = format!("{} {text:.300}", head.status);
                    person.tally.failed(Kind::Upload, &what);
                }
            }
            Err(error) => {
                let what = format!("after {:?}: {error:#}", began.elapsed());
                person.tally.broke(Kind::Upload, &connection.life, &what);
            }
        }
    }
}

pub(super) async fn downloads(mut person: Person) {
    while person.rests(200, 2_000).await {
        let (seed, blocks) = (person.dice.below(1 << 20), 1 + person.dice.below(BLOCKS));
        let chunked = person.dice.below(2) == 0;
        let pace = Duration::from_millis(person.dice.below(PACE));
        let path = format!("/download?seed={seed}&blocks={blocks}&chunked={chunked}");
        let proof = person.place.bearer.clone();
        let began = Instant::now();
        let mut connection = match Connection::open(&person.doors).await {
            Ok(connection) => connection,
            Err(error) => {
                person.tally.failed(Kind::Download, &format!("{error:#}"));
                continue;
            }
        };
        let Ok(request) = person.request(&proof, "GET", &path).body(empty()) else {
            return person.tally.failed(Kind::Download, "no request");
        };
        let arrived = async {
            let (head, mut body) = connection.ask(request).await?.into_parts();
            anyhow::ensure!(head.status == 200, "{}", head.status);
            let mut sum = Sha256::new();
            while let Some(frame) = body.frame().await {
                if let Ok(data) = frame?.into_data() {
                    sum.update(&data);
                }
                tokio::time::sleep(pace / 4).await;
            }
            Ok(HEXLOWER.encode(sum.finalize().as_slice()))
        };
        match arrived.await {
            Ok(arrived) if arrived == sum(seed, blocks) => {
                person.tally.done(Kind::Download, began.elapsed());
            }
            Ok(_) => person
                .tally
                .failed(Kind::Download, "whole, and not what was sent"),
            Err(error) => {
                let what = format!("after {:?}: {error:#}", began.elapsed());
                person.tally.broke(Kind::Download, &connection.life, &what);
            }
        }
    }
}
