//! RFC 6455 through the edge as a middle hop: each case of [`cases`] is played to the same server
//! directly and through the proxy, and must come out the same, byte for byte on both ends.

mod cases;

use crate::client::Connection;
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::raw::{RawPod, rest};
use crate::sockets::opening;
use cases::{Case, cases};
use futures::{SinkExt as _, StreamExt as _};
use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::error::{CapacityError, Error};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};

/// A stream whose incoming bytes are written down.
struct Recorded {
    stream: TcpStream,
    came: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Recorded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let came = &buf.filled()[before..];
        self.came.lock().unwrap().extend_from_slice(came);
        polled
    }
}

impl AsyncWrite for Recorded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What a server has to say of one connection.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    /// Messages, and how it ended.
    story: Vec<String>,
    /// Bytes behind the handshake up to that end.
    bytes: Vec<u8>,
}

/// Echoes messages as they come; fails a connection by a Close with the code of the reason (RFC 6455,
/// section 7.4.1), then waits for the client to end it.
async fn echo(stream: TcpStream, heard: mpsc::UnboundedSender<Heard>) {
    let came = Arc::<Mutex<Vec<u8>>>::default();
    let recorded = Recorded {
        stream,
        came: came.clone(),
    };
    let mut socket = tokio_tungstenite::accept_async(recorded).await.unwrap();
    let mut story = Vec::new();
    loop {
        let message = match socket.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => {
                let code = match &error {
                    Error::Utf8(_) => CloseCode::Invalid,
                    Error::Capacity(CapacityError::MessageTooLong { .. }) => CloseCode::Size,
                    _ => CloseCode::Protocol,
                };
                story.push(format!("{error}"));
                let close = CloseFrame {
                    code,
                    reason: Cow::Borrowed("").into_owned().into(),
                };
                let _ = socket.close(Some(close)).await;
                break;
            }
            None => break,
        };
        let what = match &message {
            Message::Text(text) => format!("text of {}", text.len()),
            Message::Binary(data) => format!("{} bytes", data.len()),
            other => format!("{other:?}"),
        };
        story.push(what);
        if matches!(message, Message::Text(_) | Message::Binary(_))
            && socket.send(message).await.is_err()
        {
            break;
        }
    }
    let bytes = came.lock().unwrap().clone();
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let bytes = bytes[head.unwrap() + 4..].to_vec();
    heard.send(Heard { story, bytes }).unwrap();
    let mut stream = socket.into_inner().stream;
    let _ = stream.shutdown().await;
    rest(&mut stream).await;
}

/// Plays a case over a connection that is open, and returns what came back.
async fn play(mut connection: Connection, case: &Case) -> Vec<u8> {
    let (mut reading, mut writing) = connection.stream.split();
    let sending = async {
        for piece in &case.pieces {
            if writing.write_all(piece).await.is_err() || writing.flush().await.is_err() {
                // The server has ended it, as some cases make it do.
                break;
            }
        }
    };
    let mut got = std::mem::take(&mut connection.buffer);
    let receiving = async {
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut got).await;
    };
    let both = async { tokio::join!(sending, receiving) };
    tokio::time::timeout(crate::PATIENCE, both)
        .await
        .unwrap_or_else(|_| panic!("{}: no end", case.name));
    got
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_comes_out_as_without_the_edge() {
    let (heard, mut hears) = mpsc::unbounded_channel();
    let pod = RawPod::start(move |stream| echo(stream, heard.clone())).await;
    let stage = Stage::start().await;
    stage.run(&Spec::new("app", "dev", 1, pod.address)).await;
    let (host, cookie) = stage.alice("dev");
    let opening = opening(&cookie, &host);
    let cases = cases(crate::is_full_size());
    let (mut echoed, mut failed) = (0, 0);
    for case in &cases {
        let mut outcomes = Vec::new();
        for address in [pod.address, stage.address] {
            let mut connection = Connection::open(address).await;
            connection.send(&opening).await;
            assert_eq!(connection.head().await.status, 101, "{}", case.name);
            let got = play(connection, case).await;
            let heard = hears.recv().await.unwrap();
            outcomes.push((got, heard));
        }
        let [(direct, heard), (through, heard_through)] = &outcomes[..] else {
            unreachable!()
        };
        assert!(
            direct == through,
            "{}: the client got\n{:x?} directly and\n{:x?} through the edge",
            case.name,
            &direct[..direct.len().min(200)],
            &through[..through.len().min(200)],
        );
        assert_eq!(heard.story, heard_through.story, "{}", case.name);
        // How much a server reads beyond the byte that makes it fail is for the network to say; but
        // nothing else than what was sent may have come.
        let sent = case.pieces.concat();
        assert!(sent.starts_with(&heard.bytes), "{}", case.name);
        assert!(sent.starts_with(&heard_through.bytes), "{}", case.name);
        if case.is_proper {
            assert!(heard_through.bytes.len() == sent.len(), "{}", case.name);
            echoed += 1;
        } else {
            failed += 1;
        }
    }
    println!(
        "{} cases: {echoed} that end in order, {failed} that a server fails",
        cases.len()
    );
    assert!(cases.len() > 200);
}
