//! What a pod says instead of a 101: read as it comes, so that any length goes through.

use super::handshake::HandshakeError;
use bytes::{Buf as _, Bytes, BytesMut};
use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// Longest silence within a body.
const SILENCE: Duration = Duration::from_secs(30);
/// Longest time for a body as a whole: a refusal is no stream.
const WHOLE: Duration = Duration::from_secs(300);
/// Most bytes read at once.
const PIECE: usize = 16 * 1024;
/// Longest line between two chunks, in bytes.
const MAX_LINE: usize = 512;

/// How the end of a body is found (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// It has so many bytes left.
    Length(u64),
    /// It comes in chunks.
    Chunked(Chunk),
    /// It goes on until the connection ends.
    UntilEnd,
    /// All of it has come.
    Done,
}

/// Where in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chunk {
    /// A line with the size of the next chunk comes next.
    Size,
    /// So many bytes of a chunk are left, and their line end.
    Data(u64),
    /// The line end behind a chunk.
    End,
}

impl Framing {
    /// Of an answer with this head.
    ///
    /// # Errors
    /// Nobody can tell where it ends.
    pub fn of(head: &ResponseHeader) -> Result<Self, HandshakeError> {
        if matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        ) {
            return Ok(Self::Done);
        }
        let mut codings = head.headers.get_all(TRANSFER_ENCODING).iter();
        match (codings.next(), codings.next()) {
            (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
                return Ok(Self::Chunked(Chunk::Size));
            }
            (None, _) => {}
            _ => return Err(HandshakeError::Nonsense("a transfer coding of its own")),
        }
        let mut lengths = head.headers.get_all(CONTENT_LENGTH).iter();
        match (lengths.next(), lengths.next()) {
            (None, _) => Ok(Self::UntilEnd),
            (Some(length), None) => length
                .to_str()
                .ok()
                .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|text| text.parse().ok())
                .map(|length| match length {
                    0 => Self::Done,
                    length => Self::Length(length),
                })
                .ok_or(HandshakeError::Nonsense("a length that is none")),
            _ => Err(HandshakeError::Nonsense("several lengths")),
        }
    }

    /// Takes the next piece of the body out of what was read; `None`: more must be read first, or
    /// all has come.
    ///
    /// # Errors
    /// The chunks make no sense.
    pub fn take(&mut self, read: &mut BytesMut) -> Result<Option<Bytes>, HandshakeError> {
        loop {
            match *self {
                Self::Done => return Ok(None),
                _ if read.is_empty() => return Ok(None),
                Self::UntilEnd => return Ok(Some(read.split().freeze())),
                Self::Length(left) => {
                    let (piece, left) = take(read, left);
                    *self = if left == 0 {
                        Self::Done
                    } else {
                        Self::Length(left)
                    };
                    return Ok(Some(piece));
                }
                Self::Chunked(Chunk::Data(left)) => {
                    let (piece, left) = take(read, left);
                    *self = Self::Chunked(if left == 0 {
                        Chunk::End
                    } else {
                        Chunk::Data(left)
                    });
                    return Ok(Some(piece));
                }
                Self::Chunked(Chunk::End) => {
                    if read.len() < 2 {
                        return Ok(None);
                    }
                    if !read.starts_with(b"\r\n") {
                        return Err(HandshakeError::Nonsense("a chunk without an end"));
                    }
                    read.advance(2);
                    *self = Self::Chunked(Chunk::Size);
                }
                Self::Chunked(Chunk::Size) => {
                    let bad = |_| HandshakeError::Nonsense("a chunk without a size");
                    match httparse::parse_chunk_size(read).map_err(bad)? {
                        httparse::Status::Partial if read.len() > MAX_LINE => {
                            return Err(HandshakeError::Nonsense("a chunk's line is too long"));
                        }
                        httparse::Status::Partial => return Ok(None),
                        // What trailers say is for the hop before us.
                        httparse::Status::Complete((_, 0)) => *self = Self::Done,
                        httparse::Status::Complete((line, size)) => {
                            read.advance(line);
                            *self = Self::Chunked(Chunk::Data(size));
                        }
                    }
                }
            }
        }
    }
}

fn take(read: &mut BytesMut, left: u64) -> (Bytes, u64) {
    let most = usize::try_from(left).unwrap_or(usize::MAX);
    let piece = read.split_to(most.min(read.len())).freeze();
    let left = left - piece.len() as u64;
    (piece, left)
}

/// The body of a refusal.
#[derive(Debug)]
pub struct Body {
    pod: TcpStream,
    read: BytesMut,
    framing: Framing,
    until: Instant,
}

impl Body {
    /// `read`: what came behind the head.
    ///
    /// # Errors
    /// Nobody can tell where it ends.
    pub fn new(
        pod: TcpStream,
        head: &ResponseHeader,
        read: BytesMut,
    ) -> Result<Self, HandshakeError> {
        Ok(Self {
            pod,
            read,
            framing: Framing::of(head)?,
            until: Instant::now() + WHOLE,
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.framing == Framing::Done
    }

    /// Whether its head says how long it is, or it has none.
    #[must_use]
    pub fn has_length(&self) -> bool {
        matches!(self.framing, Framing::Length(_) | Framing::Done)
    }

    /// Its next piece; `None`: that was all.
    ///
    /// # Errors
    /// It broke off, or makes no sense.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HandshakeError> {
        loop {
            if let Some(piece) = self.framing.take(&mut self.read)? {
                return Ok(Some(piece));
            }
            if self.framing == Framing::Done {
                return Ok(None);
            }
            self.read.reserve(PIECE);
            let until = self.until.min(Instant::now() + SILENCE);
            let read = timeout_at(until, self.pod.read_buf(&mut self.read)).await;
            match read.map_err(|_| HandshakeError::Timeout)?? {
                0 if self.framing == Framing::UntilEnd => self.framing = Framing::Done,
                0 => return Err(HandshakeError::Io(std::io::ErrorKind::UnexpectedEof.into())),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(headers: &[(&'static str, &str)]) -> ResponseHeader {
        let mut head = ResponseHeader::build(403, None).unwrap();
        for (name, value) in headers {
            head.append_header(*name, *value).unwrap();
        }
        head
    }

    #[test]
    fn framings() {
        let of = |headers: &[(&'static str, &str)]| Framing::of(&head(headers)).ok();
        assert_eq!(of(&[]), Some(Framing::UntilEnd));
        assert_eq!(of(&[("content-length", "0")]), Some(Framing::Done));
        assert_eq!(of(&[("content-length", "7")]), Some(Framing::Length(7)));
        let chunked = ("transfer-encoding", "Chunked");
        let expected = Some(Framing::Chunked(Chunk::Size));
        assert_eq!(of(&[chunked]), expected);
        assert_eq!(of(&[("content-length", "7"), chunked]), expected);
        for bad in ["-7", "+7", "7, 7", "", "x", "99999999999999999999"] {
            assert_eq!(of(&[("content-length", bad)]), None, "{bad}");
        }
        let length = ("content-length", "7");
        assert_eq!(of(&[length, length]), None);
        assert_eq!(of(&[("transfer-encoding", "gzip, chunked")]), None);
        assert_eq!(of(&[chunked, chunked]), None);
        let mut none = head(&[("content-length", "7")]);
        none.set_status(304).unwrap();
        assert_eq!(Framing::of(&none).ok(), Some(Framing::Done));
    }

    #[test]
    fn chunks_that_make_no_sense() {
        for bad in ["x\r\n", "3\r\nabcd\r\n", "-1\r\n", "ffffffffffffffffff\r\n"] {
            let mut framing = Framing::Chunked(Chunk::Size);
            let mut read = BytesMut::from(bad);
            let outcome = loop {
                match framing.take(&mut read) {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert!(outcome.is_err(), "{bad:?}: {outcome:?}");
        }
        let mut framing = Framing::Chunked(Chunk::Size);
        let mut endless = BytesMut::from(format!("3;{}", "x".repeat(MAX_LINE)).as_str());
        assert!(framing.take(&mut endless).is_err());
    }

    proptest! {
        /// However it is cut, the body is what was put into chunks.
        #[test]
        fn chunked(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..6), cuts in prop::collection::vec(1usize..40, 1..20)) {
            let mut wire = Vec::new();
            for piece in &pieces {
                wire.extend_from_slice(format!("{:X};x=y\r\n", piece.len()).as_bytes());
                wire.extend_from_slice(piece);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\nX-Trailer: x\r\n\r\n");
            let mut framing = Framing::Chunked(Chunk::Size);
            let (mut read, mut got) = (BytesMut::new(), Vec::new());
            let (mut rest, mut cuts) = (wire.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (next, left) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                read.extend_from_slice(next);
                rest = left;
                while let Some(piece) = framing.take(&mut read).unwrap() {
                    got.extend_from_slice(&piece);
                }
            }
            prop_assert_eq!(framing, Framing::Done);
            prop_assert_eq!(got, pieces.concat());
        }
    }
}
