//! What the sample's WebSockets share: they are tracked, and end politely.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures::{Sink, SinkExt, Stream, StreamExt};
use tokio::time::timeout;

use super::Sample;

/// How long a peer may take to answer a close.
const CLOSE_BOUND: Duration = Duration::from_secs(1);

/// Sends every text and binary frame back as it came.
pub(super) async fn echo(State(sample): State<Arc<Sample>>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| {
        let tracked = sample.sockets.clone();
        tracked.track_future(async move { echo_all(socket, &sample).await })
    })
}

async fn echo_all(mut socket: WebSocket, sample: &Sample) {
    loop {
        tokio::select! {
            message = socket.recv() => match message {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    if socket.send(message).await.is_err() {
                        return;
                    }
                }
                // Reading on is what answers a close; then comes the end.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Close(_))) => {}
                Some(Err(_)) | None => return,
            },
            () = sample.closing.cancelled() => {
                let (mut sink, mut stream) = socket.split();
                return restarting(&mut sink, &mut stream).await;
            }
        }
    }
}

/// Closes with 1012, as a pod that is replaced should.
pub(super) async fn restarting<E>(
    sink: &mut (impl Sink<Message> + Unpin),
    stream: &mut (impl Stream<Item = Result<Message, E>> + Unpin),
) {
    close(
        sink,
        stream,
        close_code::RESTART,
        "the workspace is restarting",
    )
    .await;
}

/// Sends a close and waits for the peer's, so that nothing in flight is cut off.
pub(super) async fn close<E>(
    sink: &mut (impl Sink<Message> + Unpin),
    stream: &mut (impl Stream<Item = Result<Message, E>> + Unpin),
    code: u16,
    reason: &'static str,
) {
    let frame = Message::Close(Some(CloseFrame {
        code,
        reason: reason.into(),
    }));
    let _ = timeout(CLOSE_BOUND, async {
        if sink.send(frame).await.is_ok() {
            while let Some(Ok(_)) = stream.next().await {}
        }
    })
    .await;
}
