//! An HTTP/2 client that sends exactly the frames it is told to (RFC 9113), with headers as literals
//! that nobody indexes (RFC 7541, section 6.2.2).

use crate::PATIENCE;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// What became of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was answered, with what status.
    Answered(u16),
    /// It was reset, with what code.
    Reset(u32),
    /// The whole connection ended, with what code.
    Gone(u32),
    /// It broke.
    Broken,
}

/// Bytes of one frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block of these fields, as they are.
pub(crate) fn block(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            number(&mut block, text.len());
            block.extend(*text);
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, section 5.1), of a string that is not compressed.
fn number(block: &mut Vec<u8>, mut n: usize) {
    if n < 127 {
        block.push(n as u8);
        return;
    }
    block.push(127);
    n -= 127;
    while n >= 128 {
        block.push((n % 128) as u8 | 128);
        n /= 128;
    }
    block.push(n as u8);
}

/// A connection.
pub(crate) struct Http2<S = TcpStream> {
    stream: S,
    buffer: Vec<u8>,
    next: u32,
    /// What came, so far.
    pub(crate) seen: Vec<Frame>,
}

impl Http2 {
    /// One on which both sides have said what they want.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self::over(stream, &[]).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2<S> {
    /// Likewise, over a stream that is there, with these settings.
    pub(crate) async fn over(stream: S, settings: &[(u16, u32)]) -> Self {
        let mut this = Self {
            stream,
            buffer: Vec::new(),
            next: 1,
            seen: Vec::new(),
        };
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &payload)].concat();
        assert!(this.send(&begin).await);
        while !this
            .seen
            .iter()
            .any(|f| f.kind == SETTINGS && f.flags == ACK)
        {
            assert!(this.read().await.is_some(), "the connection ended at once");
        }
        assert!(this.send(&frame(SETTINGS, ACK, 0, &[])).await);
        this
    }

    /// Sends bytes; whether somebody took them.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = tokio::time::timeout(PATIENCE, self.stream.write_all(bytes)).await;
        sent.expect("nobody reads").is_ok()
    }

    /// The number of the next stream.
    pub(crate) fn stream(&mut self) -> u32 {
        let stream = self.next;
        self.next += 2;
        stream
    }

    /// Begins a request with these fields; the number of its stream.
    pub(crate) async fn request(&mut self, fields: &[(&[u8], &[u8])], flags: u8) -> u32 {
        let stream = self.stream();
        let block = block(fields);
        self.send(&frame(HEADERS, flags | END_HEADERS, stream, &block))
            .await;
        stream
    }

    /// The next frame; `None`: the connection ended.
    pub(crate) async fn read(&mut self) -> Option<Frame> {
        let frame = loop {
            if let Some(frame) = self.whole() {
                break frame;
            }
            let read = self.stream.read_buf(&mut self.buffer);
            let read = tokio::time::timeout(PATIENCE, read).await;
            if read.expect("no frame came").unwrap_or(0) == 0 {
                return None;
            }
        };
        self.seen.push(frame.clone());
        Some(frame)
    }

    fn whole(&mut self) -> Option<Frame> {
        let head: [u8; 9] = *self.buffer.first_chunk()?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if self.buffer.len() < 9 + length {
            return None;
        }
        let payload = self.buffer.drain(..9 + length).skip(9).collect();
        Some(Frame {
            kind,
            flags,
            stream: u32::from_be_bytes(stream),
            payload,
        })
    }

    /// What becomes of a stream: what is known of it, else what comes next.
    pub(crate) async fn fate(&mut self, stream: u32) -> Fate {
        let mut at = 0;
        loop {
            while let Some(frame) = self.seen.get(at) {
                at += 1;
                match frame.kind {
                    HEADERS if frame.stream == stream => {
                        return Fate::Answered(status(&frame.payload));
                    }
                    RESET if frame.stream == stream => return Fate::Reset(code(frame, 0)),
                    GOAWAY if code(frame, 4) != 0 => return Fate::Gone(code(frame, 4)),
                    _ => {}
                }
            }
            if self.read().await.is_none() {
                return Fate::Broken;
            }
        }
    }

    /// Reads to the end of the connection, and the code of the GOAWAY in front of it.
    pub(crate) async fn end(&mut self) -> Option<u32> {
        while self.read().await.is_some() {}
        let last = self.seen.iter().rev().find(|frame| frame.kind == GOAWAY)?;
        Some(code(last, 4))
    }

    /// Bytes of data that came on a stream.
    pub(crate) fn body(&self, stream: u32) -> Vec<u8> {
        let data = self.seen.iter();
        let data = data.filter(|frame| frame.kind == DATA && frame.stream == stream);
        data.flat_map(|frame| frame.payload.clone()).collect()
    }
}

fn code(frame: &Frame, at: usize) -> u32 {
    u32::from_be_bytes(*frame.payload[at..].first_chunk().unwrap())
}

/// The status that a header block begins with, as `h2` writes it: in the static table, else as digits,
/// which are compressed (RFC 7541, appendices A and B).
fn status(block: &[u8]) -> u16 {
    match block {
        // It may tell first that its table is smaller.
        [size, rest @ ..] if size & 0xe0 == 0x20 => status(rest),
        [indexed, ..] if indexed & 0x80 != 0 => match indexed & 0x7f {
            8 => 200,
            9 => 204,
            10 => 206,
            11 => 304,
            12 => 400,
            13 => 404,
            14 => 500,
            other => panic!("not a status of the static table: {other}"),
        },
        [_, length, digits @ ..] if length & 0x80 != 0 => {
            let length = usize::from(length & 0x7f);
            let bits = digits[..length]
                .iter()
                .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
            let bits: Vec<u8> = bits.collect();
            let mut bits = bits.as_slice();
            let mut status = 0;
            for _ in 0..3 {
                let take = |count: usize| bits[..count].iter().fold(0, |n, bit| n << 1 | bit);
                let (digit, used) = match take(5) {
                    short @ 0..=2 => (short, 5),
                    _ => (take(6) - 0b01_1001 + 3, 6),
                };
                status = status * 10 + u16::from(digit);
                bits = &bits[used..];
            }
            status
        }
        [_, 3, digits @ ..] => std::str::from_utf8(&digits[..3]).unwrap().parse().unwrap(),
        other => panic!("no status: {other:?}"),
    }
}
