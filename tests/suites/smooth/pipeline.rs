//! A client that sends requests without waiting for the answers to those before them, as RFC 9112,
//! section 9.3.2 lets it: one connection, answers in the order of the requests.

use super::LONG;
use anyhow::{Context as _, ensure};
use nogoo9_tests::{Edge, Observation, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Requests that are under way.
const DEPTH: u64 = 8;
/// After each answer: what a client can ask at most would keep the machine from everything else.
const PACE: Duration = Duration::from_millis(5);

/// The client, on one connection for as long as it lives.
pub(super) struct Pipeline {
    answered: Arc<AtomicU64>,
    stop: CancellationToken,
    task: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Pipeline {
    /// Begins to ask.
    pub(super) async fn start(edge: &Edge, id: &str) -> anyhow::Result<Self> {
        let (answered, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let stream = TcpStream::connect(edge.address("/")?.authority()).await?;
        let head = format!(
            "GET /headers HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nX-Number: ",
            edge.host(id),
            edge.token().unwrap_or_default()
        );
        let task = tokio::spawn(ask(stream, head, Arc::clone(&answered), stop.clone()));
        let pipeline = Self {
            answered,
            stop,
            task: AbortOnDropHandle::new(task),
        };
        pipeline.goes_on().await?;
        Ok(pipeline)
    }

    /// How many answers there were.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits until a request that is sent from now on is answered.
    pub(super) async fn goes_on(&self) -> anyhow::Result<()> {
        let wanted = self.answered() + DEPTH + 1;
        until("pipelined requests to be answered", LONG, || async {
            ensure!(!self.task.is_finished(), "the pipeline ended");
            let answered = self.answered();
            Ok(Observation::when(answered >= wanted, (), answered))
        })
        .await
    }

    /// Lets it end: every request has got its answer, in order, on the one connection, or it fails.
    pub(super) async fn end(self) -> anyhow::Result<u64> {
        self.stop.cancel();
        let ended = tokio::time::timeout(LONG, self.task).await;
        ended
            .context("answers are missing")??
            .context("the pipeline")?;
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

async fn ask(
    stream: TcpStream,
    head: String,
    answered: Arc<AtomicU64>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    let request = |n: u64| format!("{head}{n}\r\n\r\n");
    let first: String = (0..DEPTH).map(request).collect();
    to.write_all(first.as_bytes()).await?;
    let (mut sent, mut next) = (DEPTH, 0);
    while next < sent {
        answer(&mut from, next)
            .await
            .with_context(|| format!("answer {next}"))?;
        next += 1;
        answered.store(next, Ordering::Relaxed);
        if !stop.is_cancelled() {
            to.write_all(request(sent).as_bytes()).await?;
            sent += 1;
            tokio::time::sleep(PACE).await;
        }
    }
    Ok(())
}

/// Reads the answer to request number `n`.
async fn answer(from: &mut (impl AsyncBufRead + Unpin), n: u64) -> anyhow::Result<()> {
    let (mut head, mut length) = (String::new(), None);
    loop {
        let mut line = String::new();
        ensure!(from.read_line(&mut line).await? > 0, "closed: {head}");
        if line == "\r\n" {
            break;
        }
        let said = line.split_once(':').filter(|(name, _)| {
            // Answers of the sample's have it; others would be the edge's own.
            name.eq_ignore_ascii_case("content-length")
        });
        if let Some((_, value)) = said {
            length = Some(value.trim().parse::<usize>()?);
        }
        head += &line;
    }
    ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut body = vec![0; length.with_context(|| head.clone())?];
    from.read_exact(&mut body).await?;
    let body: Value = serde_json::from_slice(&body)?;
    ensure!(
        body["x-number"] == serde_json::json!([n.to_string()]),
        "not the answer to request {n}: {body}"
    );
    Ok(())
}
