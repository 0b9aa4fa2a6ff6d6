//! Some three hundred requests, and what they are answered with, as tables.

mod answers;
mod http_1_0;
mod requests;

use super::recorder::Script;

/// A request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) method: &'static str,
    /// As bytes, whatever their coding.
    pub(crate) target: Vec<u8>,
    pub(crate) version: &'static str,
    /// Header lines besides those that let it in.
    pub(crate) lines: Vec<String>,
    pub(crate) body: Body,
    pub(crate) script: Script,
    /// Whether HTTP/2 can say the same.
    pub(crate) h2: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Length(Vec<u8>),
    Chunks(Vec<&'static str>, &'static [&'static str]),
}

impl Case {
    fn new(kind: &str, method: &'static str, target: &str) -> Self {
        Self {
            name: format!("{kind} {method} {target}"),
            method,
            target: target.as_bytes().to_vec(),
            version: "HTTP/1.1",
            lines: Vec::new(),
            body: Body::None,
            script: Script::default(),
            h2: true,
        }
    }

    fn line(mut self, lines: &str) -> Self {
        self.name.push_str(&format!(" {lines:?}"));
        self.lines
            .extend(lines.split("\r\n").map(ToOwned::to_owned));
        self
    }

    fn body(mut self, body: Body) -> Self {
        self.name.push_str(&format!(" {body:?}"));
        self.name.truncate(120);
        self.body = body;
        self
    }

    fn answer(mut self, answer: impl AsRef<str>) -> Self {
        let answer = answer.as_ref();
        self.name.push_str(&format!(" answered {answer:?}"));
        self.script.answer = latin(answer);
        self
    }

    fn closed(mut self) -> Self {
        self.script.close = true;
        self
    }

    fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self.h2 = false;
        self
    }

    fn h1(mut self) -> Self {
        self.h2 = false;
        self
    }

    /// The request on the wire of HTTP/1.
    pub(crate) fn wire(&self, number: usize, first: &str) -> Vec<u8> {
        let mut wire = format!("{} ", self.method).into_bytes();
        wire.extend_from_slice(&self.target);
        wire.extend_from_slice(
            format!(" {}\r\n{first}X-Case: {number}\r\n", self.version).as_bytes(),
        );
        for line in &self.lines {
            wire.extend_from_slice(&latin(line));
            wire.extend_from_slice(b"\r\n");
        }
        match &self.body {
            Body::None => wire.extend_from_slice(b"\r\n"),
            Body::Length(body) => {
                wire.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(),
                );
                wire.extend_from_slice(body);
            }
            Body::Chunks(chunks, trailers) => {
                wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in chunks {
                    let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
                    wire.extend_from_slice(chunk.as_bytes());
                }
                wire.extend_from_slice(b"0\r\n");
                for trailer in *trailers {
                    wire.extend_from_slice(format!("{trailer}\r\n").as_bytes());
                }
                wire.extend_from_slice(b"\r\n");
            }
        }
        wire
    }
}

/// Letters below 256 as the bytes that they are.
pub(crate) fn latin(text: &str) -> Vec<u8> {
    let byte = |c| u8::try_from(u32::from(c)).unwrap();
    text.chars().map(byte).collect()
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    [requests::all(), answers::all(), http_1_0::all()].concat()
}
