//! gRPC: streams both ways over HTTP/2 to a pod that speaks it, many on one connection.

use super::{LONG, begin, succeeded, template};
use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use futures::future::{join_all, try_join_all};
use futures::stream::{self, BoxStream, StreamExt as _};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::ResourceExt as _;
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Site};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Streams on one connection.
const STREAMS: usize = 40;
/// Messages of each before and after an upgrade.
const MESSAGES: u64 = 20;

/// A body whose parts come out of a channel.
type Parts = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

fn parts(from: mpsc::Receiver<Bytes>) -> Parts {
    let next = |mut from: mpsc::Receiver<Bytes>| async {
        let part = from.recv().await?;
        Some((Ok(Frame::data(part)), from))
    };
    StreamBody::new(stream::unfold(from, next).boxed())
}

/// A connection that many streams share.
struct Connection {
    sender: SendRequest<Parts>,
    host: String,
    token: String,
    driver: AbortOnDropHandle<hyper::Result<()>>,
}

/// One stream.
struct Call {
    pod: String,
    to: mpsc::Sender<Bytes>,
    from: Incoming,
    sent: u64,
    rest: Vec<u8>,
}

/// A message as gRPC frames it: not compressed, four bytes of length, the message.
fn message(n: u64) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 8];
    bytes.extend_from_slice(&n.to_be_bytes());
    bytes.into()
}

impl Connection {
    async fn open(edge: &Edge, id: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(edge.address("/")?.authority()).await?;
        stream.set_nodelay(true)?;
        let (sender, driver) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        Ok(Self {
            sender,
            host: edge.host(id),
            token: edge.token().unwrap_or_default().to_owned(),
            driver: AbortOnDropHandle::new(tokio::spawn(driver)),
        })
    }

    async fn call(&self) -> anyhow::Result<Call> {
        let (to, said) = mpsc::channel(4);
        let request = Request::post(format!("http://{}/grpc", self.host))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("authorization", format!("Bearer {}", self.token))
            .body(parts(said))?;
        let mut sender = self.sender.clone();
        sender.ready().await?;
        let answer = tokio::time::timeout(LONG, sender.send_request(request));
        let (head, from) = answer.await.context("no answer")??.into_parts();
        ensure!(head.status == 200, "{head:?}");
        let pod = head.headers.get("x-pod").context("no pod")?.to_str()?;
        Ok(Call {
            pod: pod.to_owned(),
            to,
            from,
            sent: 0,
            rest: Vec::new(),
        })
    }
}

impl Call {
    /// Sends messages one by one; each comes back before the next is sent.
    async fn talk(&mut self, messages: u64) -> anyhow::Result<()> {
        for _ in 0..messages {
            let sent = message(self.sent);
            self.to.send(sent.clone()).await?;
            while self.rest.len() < sent.len() {
                let frame = tokio::time::timeout(LONG, self.from.frame()).await;
                let frame = frame.context("nothing comes back")?.context("it ended")??;
                match frame.into_data() {
                    Ok(data) => self.rest.extend_from_slice(&data),
                    Err(other) => bail!("{other:?}"),
                }
            }
            ensure!(
                self.rest == sent,
                "not message {}: {:?}",
                self.sent,
                self.rest
            );
            self.rest.clear();
            self.sent += 1;
        }
        Ok(())
    }

    /// Says that nothing more comes; returns the trailers.
    async fn end(self) -> anyhow::Result<HeaderMap> {
        drop(self.to);
        let rest = tokio::time::timeout(LONG, self.from.collect()).await;
        let rest = rest.context("it does not end")??;
        rest.trailers().cloned().context("no trailers")
    }

    /// Waits until it is ended in the middle: with an error, not as if it were complete.
    async fn broken(mut self) -> anyhow::Result<()> {
        match tokio::time::timeout(LONG, self.from.frame()).await {
            Ok(Some(Err(_))) => Ok(()),
            other => bail!("it looks complete: {other:?}"),
        }
    }
}

async fn calls(connection: &Connection, pod: &str) -> anyhow::Result<Vec<Call>> {
    let mut calls = try_join_all((0..STREAMS).map(|_| connection.call())).await?;
    try_join_all(calls.iter_mut().map(|call| call.talk(MESSAGES))).await?;
    for call in &calls {
        assert_eq!(call.pod, pod);
    }
    Ok(calls)
}

pub(super) async fn streams_flow_on(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = template("grpc")
        .annotation(keys::WORKSPACE_PROTOCOL, "h2c")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "3600");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let connection = Connection::open(&edge, &id).await?;
    let mut streams = calls(&connection, &old).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    // What is open goes on with the old pod, what is new on the same connection is with the new one.
    try_join_all(streams.iter_mut().map(|call| call.talk(MESSAGES))).await?;
    let fresh = calls(&connection, &new).await?;
    assert_eq!(alice.operation(&operation).await?["state"], "running");
    for call in streams.into_iter().chain(fresh) {
        assert_eq!(call.end().await?["grpc-status"], "0");
    }
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &new, LONG).await?;
    calls(&connection, &new).await?;
    assert!(!connection.driver.is_finished());
    Ok(())
}

pub(super) async fn streams_are_reset_at_the_bound(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let template = template("grpc-bound")
        .annotation(keys::WORKSPACE_PROTOCOL, "h2c")
        .env("ABRUPT", "1")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "3");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let connection = Connection::open(&edge, &id).await?;
    let streams = calls(&connection, &old).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    for ended in join_all(streams.into_iter().map(Call::broken)).await {
        ended?;
    }
    for pod in cluster.pods(&id).await? {
        let kept = pod.name_any() == old && pod.metadata.deletion_timestamp.is_none();
        assert!(!kept, "streams ended while {old} was kept");
    }
    // The streams alone: their connection lives on.
    calls(&connection, &new).await?;
    assert!(!connection.driver.is_finished());
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &new, LONG).await?;
    Ok(())
}
