//! One direction of a socket.

use super::Side;
use crate::sessions::Entered;
use crate::tunnel::frames::Frames;
use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Smallest buffer of a direction: what an idle socket costs.
pub(super) const SMALL: usize = 2 * 1024;
/// Largest buffer, for sockets that are busy.
pub(super) const LARGE: usize = 64 * 1024;

/// Which end of a direction stopped it.
pub(super) enum Stopped {
    /// Nothing more comes.
    Source,
    /// Nothing more is taken.
    Sink,
}

/// What was read and not yet written, and where in a frame the written bytes end. Nothing is read
/// before all that was read is written: so whoever does not read stops whoever sends. Its futures may
/// be dropped at any await without losing or repeating a byte.
pub(super) struct Direction<'a> {
    /// Where the written bytes end.
    pub(super) frames: Frames,
    /// Bytes written.
    pub(super) written: u64,
    buffer: Vec<u8>,
    /// The part of `buffer` that is still to be written.
    pending: Range<usize>,
    /// Where it comes from.
    source: Side,
    session: &'a Entered,
    counted: &'a Counter,
    /// Whose Close was written first.
    closer: &'a OnceLock<Side>,
}

impl<'a> Direction<'a> {
    pub(super) fn new(
        source: Side,
        session: &'a Entered,
        counted: &'a Counter,
        closer: &'a OnceLock<Side>,
    ) -> Self {
        Self {
            frames: Frames::new(),
            written: 0,
            buffer: Vec::new(),
            pending: 0..0,
            source,
            session,
            counted,
            closer,
        }
    }

    /// Has these bytes written first.
    pub(super) fn begin_with(&mut self, early: Bytes) {
        self.pending = 0..early.len();
        self.buffer = early.into();
    }

    /// Copies until either end stops. The client's end is handed on to the pod at once; towards the
    /// client a Close may still follow.
    pub(super) async fn copy(
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
                if self.source == Side::Client {
                    let _ = to.shutdown().await;
                }
                return Stopped::Source;
            }
        }
    }

    /// Copies to the end of the frame that has begun, and not a byte further.
    pub(super) async fn finish_frame(
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
        if self.frames.is_closing() {
            // The first one counts.
            let _ = self.closer.set(self.source);
        }
        self.pending.start += written;
        self.written += written as u64;
        self.counted.inc_by(written as u64);
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
