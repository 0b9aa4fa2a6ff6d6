//! Relaying an open socket, byte for byte, until one side ends or we end it.

mod direction;

use super::frames::{close, masked_close};
use crate::sessions::{End, Entered};
use bytes::Bytes;
use direction::{Direction, Stopped};
use prometheus_client::metrics::counter::Counter;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// How long a frame that has begun may take to end, once the socket is to be ended.
const LAST_FRAME: Duration = Duration::from_secs(2);
/// How long a side may take to read our Close, and its end to arrive.
const LINGER: Duration = Duration::from_secs(2);
/// How long a pod may go on sending to a client that has said all it will say. Without a Close the
/// client is gone most likely; whoever asks something and shuts down its side is answered by then.
const HALF_CLOSED: Duration = Duration::from_secs(10);

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The pod, or its application.
    Pod,
}

/// Who ended a socket: whose Close came first, and where there was none, whose connection ended
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The pod or its application ended it.
    ByPod,
    /// The client ended it.
    ByClient,
    /// We ended it.
    ByUs(End),
}

/// What there is to say of a socket that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// By whom.
    pub outcome: Outcome,
    /// Status code of the first Close; `None`: there was none, or it had none.
    pub code: Option<u16>,
    /// Bytes that went to the pod, handshake apart.
    pub up: u64,
    /// Bytes that went to the client, handshake apart.
    pub down: u64,
}

impl Ended {
    /// The client went before it had the 101.
    pub const NEVER_BEGUN: Self = Self {
        outcome: Outcome::ByClient,
        code: None,
        up: 0,
        down: 0,
    };
}

/// What a socket is relayed by.
#[derive(Debug)]
pub struct Terms<'a> {
    /// Its place among what is open.
    pub session: &'a Entered,
    /// How long nothing may flow, either way; `None`: for as long as it likes. Pings count as flow.
    pub idle: Option<Duration>,
    /// Counts bytes to the pod.
    pub up: &'a Counter,
    /// Counts bytes to the client.
    pub down: &'a Counter,
    /// Makes the mask of our Close to the pod: as unpredictable as RFC 6455, section 5.3, wants it.
    pub mask: fn() -> [u8; 4],
}

/// Why relaying stopped.
enum Stop {
    By(Side),
    Us(End),
}

/// Relays between `client` and `pod` until the socket ends. `early` came from the pod behind its 101.
///
/// A socket that we end is closed towards both sides, at a frame boundary of each; a frame that does
/// not end in time is broken off, without a Close. If the pod is gone without a Close, the client
/// gets one with 1012.
pub async fn relay<C, P>(client: C, pod: P, early: Bytes, terms: &Terms<'_>) -> Ended
where
    C: AsyncRead + AsyncWrite + Unpin,
    P: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_pod, mut to_pod) = tokio::io::split(pod);
    let closer = OnceLock::new();
    let session = terms.session;
    let mut down = Direction::new(Side::Pod, session, terms.down, &closer);
    let mut up = Direction::new(Side::Client, session, terms.up, &closer);
    down.begin_with(early);
    let stop = {
        let mut ending = pin!(ending(terms));
        let mut downward = pin!(down.copy(&mut from_pod, &mut to_client));
        let mut upward = pin!(up.copy(&mut from_client, &mut to_pod));
        tokio::select! {
            biased;
            why = &mut ending => Stop::Us(why),
            stopped = &mut downward => Stop::By(match stopped {
                Stopped::Source => Side::Pod,
                Stopped::Sink => Side::Client,
            }),
            stopped = &mut upward => {
                // The client has said all it will say, and may still be answered; or the pod takes
                // nothing any more, and what it has sent is still delivered.
                let (side, rest) = match stopped {
                    Stopped::Source => (Side::Client, HALF_CLOSED),
                    Stopped::Sink => (Side::Pod, LAST_FRAME),
                };
                tokio::select! {
                    biased;
                    why = &mut ending => Stop::Us(why),
                    _ = timeout(rest, &mut downward) => Stop::By(side),
                }
            }
        }
    };
    if let Stop::Us(_) = stop {
        let _ = tokio::join!(
            timeout(LAST_FRAME, down.finish_frame(&mut from_pod, &mut to_client)),
            timeout(LAST_FRAME, up.finish_frame(&mut from_client, &mut to_pod)),
        );
    }
    let (closed_down, closed_up) = (down.frames.is_closing(), up.frames.is_closing());
    let (tell_client, tell_pod) = match stop {
        Stop::Us(why) => (
            (!closed_down).then_some(why.code()),
            (!closed_up).then_some(why.code()),
        ),
        Stop::By(Side::Pod) if !closed_down && !closed_up => (Some(End::Restart.code()), None),
        Stop::By(_) => (None, None),
    };
    let tell_client = tell_client.filter(|_| down.frames.at_boundary()).map(close);
    let masked = |code| masked_close(code, (terms.mask)());
    let tell_pod = tell_pod.filter(|_| up.frames.at_boundary()).map(masked);
    let _ = timeout(LINGER, async {
        tokio::join!(
            farewell(
                &mut from_client,
                &mut to_client,
                tell_client.as_ref().map(<[u8; 4]>::as_slice)
            ),
            farewell(
                &mut from_pod,
                &mut to_pod,
                tell_pod.as_ref().map(<[u8; 8]>::as_slice)
            ),
        )
    })
    .await;
    let first = match closer.get() {
        Some(Side::Pod) => down.frames.close_code(),
        Some(Side::Client) => up.frames.close_code(),
        None => None,
    };
    let (outcome, code) = match stop {
        Stop::Us(why) => (Outcome::ByUs(why), Some(why.code())),
        Stop::By(side) => match closer.get().unwrap_or(&side) {
            Side::Pod => (Outcome::ByPod, first),
            Side::Client => (Outcome::ByClient, first),
        },
    };
    Ended {
        outcome,
        code,
        up: up.written,
        down: down.written,
    }
}

/// Resolves when the socket is to be ended by us.
async fn ending(terms: &Terms<'_>) -> End {
    tokio::select! {
        biased;
        why = terms.session.ended() => why,
        () = idle(terms) => End::Idle,
    }
}

async fn idle(terms: &Terms<'_>) {
    let Some(most) = terms.idle else {
        return std::future::pending().await;
    };
    loop {
        let left = most.saturating_sub(terms.session.silent());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

/// Says the last word to one side, and reads until that side ends: it keeps the system from resetting
/// the connection, which would take our last bytes away from it.
async fn farewell(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    word: Option<&[u8]>,
) {
    if let Some(word) = word
        && to.write_all(word).await.is_err()
    {
        return;
    }
    if to.flush().await.is_err() || to.shutdown().await.is_err() {
        return;
    }
    let mut rest = [0; 512];
    while from.read(&mut rest).await.is_ok_and(|n| n > 0) {}
}

#[cfg(test)]
mod tests;
