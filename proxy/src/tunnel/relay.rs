//! Relaying an open socket, byte for byte, until one side ends or we end it.

use super::frames::{Frames, close};
use crate::sessions::{End, Entered};
use bytes::Bytes;
use std::io;
use std::ops::Range;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Smallest buffer of a direction: what an idle socket costs.
const SMALL: usize = 2 * 1024;
/// Largest buffer, for sockets that are busy.
const LARGE: usize = 64 * 1024;
/// How long a frame that has begun may take to end, once the socket is to be ended.
const LAST_FRAME: Duration = Duration::from_secs(2);
/// How long a client may take to read our Close, and the other side's end to arrive.
const LINGER: Duration = Duration::from_secs(2);

/// How a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The pod or its application ended it.
    ByPod,
    /// The client ended it.
    ByClient,
    /// We ended it.
    ByUs(End),
}

/// Relays between `client` and `pod` until the socket ends. `early` came from the pod behind its 101.
/// The client gets a Close frame, at a frame boundary, if the socket ends without one: because we end
/// it, or because the pod is gone.
pub async fn relay<C, P>(client: C, pod: P, early: Bytes, session: &Entered) -> Outcome
where
    C: AsyncRead + AsyncWrite + Unpin,
    P: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_pod, mut to_pod) = tokio::io::split(pod);
    let mut down = Direction::new(session, false);
    let mut up = Direction::new(session, true);
    let outcome = {
        let downward = down.until_ended(&mut from_pod, &mut to_client, early);
        let upward = up.copy(&mut from_client, &mut to_pod);
        let (mut downward, mut upward) = (std::pin::pin!(downward), std::pin::pin!(upward));
        tokio::select! {
            outcome = &mut downward => outcome,
            stopped = &mut upward => match stopped {
                // The client has said all it will say; the pod may still answer.
                Stopped::Source => {
                    let _ = tokio::time::timeout(LINGER, &mut downward).await;
                    Outcome::ByClient
                }
                // The pod takes nothing any more; what it has sent is still delivered.
                Stopped::Sink => {
                    tokio::time::timeout(LAST_FRAME, &mut downward).await.unwrap_or(Outcome::ByPod)
                }
            },
        }
    };
    let code = match outcome {
        Outcome::ByUs(End::Expired) => Some(1008),
        Outcome::ByUs(End::Restart) | Outcome::ByPod => Some(1012),
        Outcome::ByClient => None,
    };
    let ended_already = down.frames.is_closing() || up.frames.is_closing();
    if let Some(code) = code
        && down.frames.at_boundary()
        && !ended_already
    {
        let _ = tokio::time::timeout(LINGER, to_client.write_all(&close(code))).await;
    }
    let ending = async {
        let _ = to_client.flush().await;
        let _ = to_client.shutdown().await;
        let _ = to_pod.shutdown().await;
        // Reading until the client's end keeps the system from resetting the connection, which
        // would take our last bytes away from the client.
        let mut rest = [0; 512];
        while from_client.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    };
    let _ = tokio::time::timeout(LINGER, ending).await;
    outcome
}

/// Which end of a direction stopped it.
enum Stopped {
    /// Nothing more comes.
    Source,
    /// Nothing more is taken.
    Sink,
}

/// One direction: what was read and not yet written, and where in a frame the written bytes end. Its
/// futures may be dropped at any await without losing or repeating a byte.
struct Direction<'a> {
    frames: Frames,
    buffer: Vec<u8>,
    /// The part of `buffer` that is still to be written.
    pending: Range<usize>,
    /// Whether the source's end is handed on at once; towards the client a Close may still follow.
    ends_sink: bool,
    session: &'a Entered,
}

impl<'a> Direction<'a> {
    fn new(session: &'a Entered, ends_sink: bool) -> Self {
        Self {
            frames: Frames::new(),
            buffer: Vec::new(),
            pending: 0..0,
            ends_sink,
            session,
        }
    }

    /// Copies until the pod, the client or we end it; when it is us, up to the end of a frame.
    async fn until_ended(
        &mut self,
        from_pod: &mut (impl AsyncRead + Unpin),
        to_client: &mut (impl AsyncWrite + Unpin),
        early: Bytes,
    ) -> Outcome {
        let by_whom = |stopped| match stopped {
            Stopped::Source => Outcome::ByPod,
            Stopped::Sink => Outcome::ByClient,
        };
        self.buffer = early.to_vec();
        self.pending = 0..early.len();
        drop(early);
        let session = self.session;
        let why = tokio::select! {
            biased;
            why = session.ended() => why,
            stopped = self.copy(from_pod, to_client) => return by_whom(stopped),
        };
        match tokio::time::timeout(LAST_FRAME, self.finish_frame(from_pod, to_client)).await {
            Ok(Err(stopped)) => by_whom(stopped),
            Ok(Ok(())) | Err(_) => Outcome::ByUs(why),
        }
    }

    /// Copies until either end stops.
    async fn copy(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Stopped {
        loop {
            while !self.pending.is_empty() {
                if self.write(to, usize::MAX).await.is_err() {
                    return Stopped::Sink;
                }
            }
            if to.flush().await.is_err() {
                return Stopped::Sink;
            }
            if self.read(from).await.is_err() {
                if self.ends_sink {
                    let _ = to.shutdown().await;
                }
                return Stopped::Source;
            }
        }
    }

    /// Copies to the end of the frame that has begun, and not a byte further.
    async fn finish_frame(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Stopped> {
        while !self.frames.at_boundary() {
            if self.pending.is_empty() {
                self.read(from).await.map_err(|_| Stopped::Source)?;
            }
            let rest = self.buffer.get(self.pending.clone()).unwrap_or_default();
            let to_boundary = self.frames.clone().advance(rest);
            self.write(to, to_boundary)
                .await
                .map_err(|_| Stopped::Sink)?;
        }
        Ok(())
    }

    /// Writes some of what is pending, `most` bytes at most.
    async fn write(&mut self, to: &mut (impl AsyncWrite + Unpin), most: usize) -> io::Result<()> {
        let pending = self.buffer.get(self.pending.clone()).unwrap_or_default();
        let chunk = pending.get(..most.min(pending.len())).unwrap_or_default();
        let written = to.write(chunk).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.frames.feed(chunk.get(..written).unwrap_or_default());
        self.pending.start += written;
        self.session.data();
        Ok(())
    }

    /// Reads something; the end of the source is an error. The buffer grows while it is filled, and
    /// shrinks again, so that an idle socket costs little.
    async fn read(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        let last = self.pending.end;
        let size = match self.buffer.len() {
            0 => SMALL,
            full if last == full => (full * 2).clamp(SMALL, LARGE),
            len if last < len / 4 => (len / 2).max(SMALL),
            len => len,
        };
        if size != self.buffer.len() {
            self.buffer = vec![0; size];
        }
        self.pending = 0..0;
        let read = from.read(&mut self.buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.pending = 0..read;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
