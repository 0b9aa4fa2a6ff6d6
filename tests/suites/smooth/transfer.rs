//! Large bodies, which pause in the middle until they are told to go on.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use futures::stream::{self, StreamExt as _};
use http::{Method, StatusCode};
use nogoo9_local::sample::noise::{BLOCK, block};
use nogoo9_tests::Edge;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::convert::Infallible;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::LONG;

/// What became of it.
#[derive(Debug)]
pub(super) enum Arrived {
    /// An answer that is complete.
    Answer(StatusCode, Value),
    /// The connection ended in the middle; so many bytes had come down.
    Broken(u64, String),
}

/// A transfer that is half done.
pub(super) struct Transfer {
    go_on: oneshot::Sender<()>,
    task: AbortOnDropHandle<anyhow::Result<Arrived>>,
}

/// What a whole transfer of that seed comes to: the pod says so of an upload, the client of a
/// download.
pub(super) fn whole(seed: u64, blocks: u64) -> Value {
    let mut sum = Sha256::new();
    (0..blocks).for_each(|n| sum.update(block(seed, n)));
    json!({"sha256": HEXLOWER.encode(sum.finalize().as_slice()), "bytes": blocks * BLOCK as u64})
}

impl Transfer {
    /// Sends the first half, in chunks.
    pub(super) async fn upload(
        edge: &Edge,
        id: &str,
        seed: u64,
        blocks: u64,
    ) -> anyhow::Result<Self> {
        let (go_on, told) = oneshot::channel();
        let (half, reached) = oneshot::channel();
        let part = move |from: u64, to: u64| stream::iter((from..to).map(move |n| block(seed, n)));
        let pause = stream::once(async move {
            let _ = half.send(());
            let _ = told.await;
            Bytes::new()
        })
        .filter(|_| std::future::ready(false));
        let body = part(0, blocks / 2)
            .chain(pause)
            .chain(part(blocks / 2, blocks));
        let request = edge
            .request(Method::POST, &edge.host(id), "/upload")?
            .timeout(4 * LONG)
            .body(reqwest::Body::wrap_stream(body.map(Ok::<_, Infallible>)));
        let task = tokio::spawn(async move {
            Ok(match Edge::send(request).await {
                Ok(answer) => {
                    let body = serde_json::from_slice(&answer.body);
                    Arrived::Answer(answer.status, body.unwrap_or_default())
                }
                Err(error) => Arrived::Broken(0, format!("{error:#}")),
            })
        });
        let transfer = Self {
            go_on,
            task: AbortOnDropHandle::new(task),
        };
        reached.await.context("the upload does not get half way")?;
        Ok(transfer)
    }

    /// Reads the first of so many blocks, and then no more.
    pub(super) async fn download(
        edge: &Edge,
        id: &str,
        seed: u64,
        (first, blocks): (u64, u64),
        chunked: bool,
    ) -> anyhow::Result<Self> {
        let path = format!("/download?seed={seed}&blocks={blocks}&chunked={chunked}");
        let request = edge
            .request(Method::GET, &edge.host(id), &path)?
            .timeout(4 * LONG);
        let mut response = request.send().await?;
        ensure!(response.status() == 200, "{}", response.status());
        let (mut sum, mut bytes) = (Sha256::new(), 0_u64);
        while bytes < first * BLOCK as u64 {
            let chunk = response.chunk().await?.context("part of a download")?;
            sum.update(&chunk);
            bytes += chunk.len() as u64;
        }
        let (go_on, told) = oneshot::channel();
        let task = tokio::spawn(async move {
            let _ = told.await;
            let status = response.status();
            loop {
                match response.chunk().await {
                    Ok(Some(chunk)) => {
                        sum.update(&chunk);
                        bytes += chunk.len() as u64;
                    }
                    Ok(None) => break,
                    Err(error) => return Ok(Arrived::Broken(bytes, format!("{error:?}"))),
                }
            }
            let sum = HEXLOWER.encode(sum.finalize().as_slice());
            Ok(Arrived::Answer(
                status,
                json!({"sha256": sum, "bytes": bytes}),
            ))
        });
        Ok(Self {
            go_on,
            task: AbortOnDropHandle::new(task),
        })
    }

    /// Whether it has ended, without having been told to go on.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Lets it go on; returns what becomes of it.
    pub(super) async fn ends(self) -> anyhow::Result<Arrived> {
        // It may have ended already.
        let _ = self.go_on.send(());
        let ended = tokio::time::timeout(4 * LONG, self.task).await;
        ended.context("a transfer does not end")??
    }

    /// Lets it go on, to a proper end.
    pub(super) async fn arrives(self, expected: &Value) -> anyhow::Result<()> {
        match self.ends().await? {
            Arrived::Answer(status, arrived) => {
                assert_eq!((status.as_u16(), &arrived), (200, expected));
                Ok(())
            }
            broken => anyhow::bail!("{broken:?}"),
        }
    }
}
