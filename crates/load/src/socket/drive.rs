//! The task that types into a socket and listens, until somebody ends it.

use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::{Error as WsError, ProtocolError};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;

use super::SocketOptions;
use super::dialect::Dialect;
use super::state::State;
use crate::{Close, ClosedBy};

/// Lines that may be under way; typing pauses beyond, as a person's would.
const MAX_UNDER_WAY: u64 = 256;
/// RFC 6455, section 7.1.5: the code of a close frame without one.
const NO_STATUS: u16 = 1005;

type Stream = WebSocketStream<TcpStream>;

/// Why typing ended.
enum Ended {
    /// By our own wish, with everything back.
    ByUs,
    /// The other side sent a close frame.
    ByServer,
    /// The connection is of no use any more.
    Broken(String),
}

pub(super) async fn drive(
    mut stream: Stream,
    mut dialect: impl Dialect,
    options: SocketOptions,
    state: Arc<State>,
    stop: CancellationToken,
) {
    let ended = converse(&mut stream, &mut dialect, &options, &state, &stop).await;
    match ended {
        Ended::ByUs => close(&mut stream, &mut dialect, &options, &state).await,
        Ended::ByServer => {
            // Our half of the closing handshake; the other side may be gone by now.
            let _ = timeout(options.close_timeout, stream.close(None)).await;
        }
        Ended::Broken(error) => state.fail(error),
    }
    state.end();
}

async fn converse(
    stream: &mut Stream,
    dialect: &mut impl Dialect,
    options: &SocketOptions,
    state: &State,
    stop: &CancellationToken,
) -> Ended {
    for message in dialect.hello() {
        if let Err(error) = send(stream, message, options.answer_timeout).await {
            return Ended::Broken(error);
        }
    }
    let interval = options.schedule.due(1).unwrap_or_default();
    let mut next = Instant::now();
    let mut stopping = false;
    loop {
        let outstanding = state.outstanding();
        if stopping && outstanding == 0 {
            return Ended::ByUs;
        }
        let overdue = overdue_at(state, options.answer_timeout);
        tokio::select! {
            () = stop.cancelled(), if !stopping => stopping = true,
            () = sleep_until(next), if !stopping && outstanding < MAX_UNDER_WAY => {
                let line = dialect.line(state.type_line());
                // A pause is not made up for by a burst: people do not type so.
                next = (next + interval).max(Instant::now());
                if let Err(error) = send(stream, line, options.answer_timeout).await {
                    return Ended::Broken(error);
                }
            }
            () = sleep_until(overdue), if outstanding > 0 => {
                return Ended::Broken(format!(
                    "a line did not come back within {:?}", options.answer_timeout
                ));
            }
            message = stream.next() => match heard(message, dialect, state) {
                Incoming::Open => {}
                Incoming::Closed(close) => {
                    state.close(Close { by: ClosedBy::Server, ..close });
                    return Ended::ByServer;
                }
                Incoming::Broken(error) => return Ended::Broken(error),
            },
        }
    }
}

/// The instant at which the oldest line under way is overdue.
fn overdue_at(state: &State, limit: Duration) -> Instant {
    let waited = state.oldest_under_way().map_or(Duration::ZERO, |since| {
        state.elapsed().saturating_sub(since)
    });
    Instant::now() + limit.saturating_sub(waited)
}

async fn send(stream: &mut Stream, message: Message, limit: Duration) -> Result<(), String> {
    match timeout(limit, stream.send(message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("sending: {error}")),
        Err(_) => Err(format!("sending took longer than {limit:?}")),
    }
}

enum Incoming {
    Open,
    Closed(Close),
    Broken(String),
}

fn heard(
    message: Option<Result<Message, WsError>>,
    dialect: &mut impl Dialect,
    state: &State,
) -> Incoming {
    match message {
        Some(Ok(Message::Close(frame))) => Incoming::Closed(closed(frame, ClosedBy::Server)),
        Some(Ok(message)) => {
            let mut heard = Vec::new();
            dialect.hear(&message, &mut heard);
            for heard in heard {
                state.hear(heard);
            }
            Incoming::Open
        }
        Some(Err(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => {
            Incoming::Broken("the connection ended without a close frame".to_owned())
        }
        Some(Err(error)) => Incoming::Broken(error.to_string()),
        None => Incoming::Broken("the connection ended without a close frame".to_owned()),
    }
}

fn closed(frame: Option<CloseFrame>, by: ClosedBy) -> Close {
    frame.map_or_else(
        || Close {
            by,
            code: NO_STATUS,
            reason: String::new(),
        },
        |frame| Close {
            by,
            code: frame.code.into(),
            reason: frame.reason.as_str().to_owned(),
        },
    )
}

/// Closes with 1000, and listens until the close is answered: what arrives meanwhile
/// (a duplicate, say) still counts.
async fn close(
    stream: &mut Stream,
    dialect: &mut impl Dialect,
    options: &SocketOptions,
    state: &State,
) {
    let deadline = Instant::now() + options.close_timeout;
    let frame = CloseFrame {
        code: CloseCode::Normal,
        reason: "done".into(),
    };
    state.close(Close {
        by: ClosedBy::Client,
        code: 1000,
        reason: "done".to_owned(),
    });
    match timeout_at(deadline, stream.close(Some(frame))).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return state.fail(format!("closing: {error}")),
        Err(_) => {
            return state.fail(format!(
                "closing took longer than {:?}",
                options.close_timeout
            ));
        }
    }
    loop {
        match timeout_at(deadline, stream.next()).await {
            Ok(message) => match heard(message, dialect, state) {
                Incoming::Open => {}
                Incoming::Closed(_) => return,
                Incoming::Broken(error) => return state.fail(format!("closing: {error}")),
            },
            Err(_) => {
                return state.fail(format!(
                    "the close was not answered within {:?}",
                    options.close_timeout
                ));
            }
        }
    }
}
