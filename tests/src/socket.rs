//! One WebSocket through the edge, frame by frame.

use crate::Edge;
use anyhow::{Context as _, bail};
use futures::{SinkExt as _, StreamExt as _};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

/// Longest time between two frames that are waited for.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What came over a WebSocket.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A text or binary message.
    Message(Message),
    /// A Close frame of that code.
    Closed(u16),
}

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    /// Opens `path` on `host`, with the token of `edge` and more headers.
    ///
    /// # Errors
    /// No WebSocket came about; [`Self::refused`] tells with which status.
    pub async fn open(
        edge: &Edge,
        host: &str,
        path: &str,
        more: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let address = edge.address(path).map_err(|_| Error::AttackAttempt)?;
        let authority = address.authority().to_owned();
        let mut request = format!("ws://{host}{path}").into_client_request()?;
        let token = edge
            .token()
            .map(|token| ("authorization".to_owned(), format!("Bearer {token}")));
        let more = more
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        for (name, value) in token.into_iter().chain(more) {
            let name = http::HeaderName::try_from(name).map_err(|_| Error::AttackAttempt)?;
            let value = http::HeaderValue::try_from(value).map_err(|_| Error::AttackAttempt)?;
            request.headers_mut().append(name, value);
        }
        let stream = TcpStream::connect(authority).await?;
        let opened =
            tokio::time::timeout(TIMEOUT, tokio_tungstenite::client_async(request, stream));
        let (socket, _) = opened.await.map_err(|_| Error::ConnectionClosed)??;
        Ok(Self(socket))
    }

    /// Status of the answer that refused a WebSocket.
    #[must_use]
    pub fn refused(error: &Error) -> Option<u16> {
        match error {
            Error::Http(response) => Some(response.status().as_u16()),
            _ => None,
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// It is closed.
    pub async fn send(&mut self, message: Message) -> anyhow::Result<()> {
        self.0.send(message).await.context("send")
    }

    /// The next text or binary message.
    ///
    /// # Errors
    /// None comes.
    pub async fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await;
            match next.context("no message")?.context("the socket ended")?? {
                message @ (Message::Text(_) | Message::Binary(_)) => return Ok(message),
                Message::Close(frame) => bail!("closed: {frame:?}"),
                _ => {}
            }
        }
    }

    /// The next message or Close frame; may be dropped at any time without losing one.
    ///
    /// # Errors
    /// None comes, the socket ends without one, or with one that has no code.
    pub async fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await;
            match next.context("no message")?.context("no Close frame")?? {
                message @ (Message::Text(_) | Message::Binary(_)) => {
                    return Ok(Received::Message(message));
                }
                Message::Close(Some(frame)) => return Ok(Received::Closed(frame.code.into())),
                Message::Close(None) => bail!("closed without a code"),
                _ => {}
            }
        }
    }

    /// Reads until the other side closes; returns the code of its Close frame and how many messages
    /// came before.
    ///
    /// # Errors
    /// It ends without a Close frame, or not at all.
    pub async fn closed(&mut self) -> anyhow::Result<(u16, usize)> {
        let mut messages = 0;
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await;
            match next.context("it stays open")?.context("no Close frame")?? {
                Message::Close(Some(frame)) => return Ok((frame.code.into(), messages)),
                Message::Close(None) => bail!("closed without a code"),
                Message::Text(_) | Message::Binary(_) => messages += 1,
                _ => {}
            }
        }
    }

    /// Closes it.
    pub async fn close(mut self) {
        // The other side may have been quicker.
        let _closed = self.0.close(None).await;
    }
}
