//! Where the head of an HTTP/1 request ends, and whether it is within its bounds. Pure.
//!
//! It looks at a head only as far as that needs; what a head means, and whether it is well formed, is
//! for Pingora to say, which gets exactly the bytes that came. Both end a head at the first line that
//! is empty (RFC 9112, section 2.2), so both see the same one.

use http::StatusCode;

/// Longest method that is looked at, in bytes: what is longer is no HTTP.
const METHOD: usize = 32;
/// Bytes of empty lines in front of a request that are let pass (RFC 9112, section 2.2).
const LEADING: usize = 4;
/// What stands around a target in its line: ` HTTP/1.1` and the end of the line.
const VERSION: usize = 11;

/// Bounds of one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the target, path with query.
    pub target: usize,
    /// Bytes of all header lines together.
    pub section: usize,
    /// Header lines.
    pub fields: usize,
}

/// Why a head is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// It does not begin as a request does.
    #[error("This is no HTTP request.")]
    Malformed,
    /// It asks for a tunnel (`CONNECT`). Over HTTP/1 that is refused further on.
    #[error("This method is not spoken here.")]
    Method,
    /// Its target is too long.
    #[error("The address of this request is too long.")]
    Target,
    /// Its headers are too large, or too many.
    #[error("The headers of this request are too large or too many; clear this site's cookies.")]
    Section,
}

impl Unacceptable {
    /// What it is answered with.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Target => StatusCode::URI_TOO_LONG,
            Self::Section => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }
}

/// How much follows a head before the next one may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// So many bytes.
    Bytes(u64),
    /// Chunks.
    Chunked,
    /// Nobody can tell from the head: another protocol, or something that is refused anyway.
    Open,
}

/// A head that is there as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its bytes.
    pub length: usize,
    /// What follows.
    pub body: Body,
}

/// Reads a head as it comes, looking at each byte once.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    /// Bytes looked at.
    seen: usize,
    /// Where the line begins that is looked at.
    line: usize,
    /// Where the header lines begin; `None`: the request line has not ended yet.
    section: Option<usize>,
    fields: usize,
    length: Option<u64>,
    chunked: bool,
    open: bool,
}

impl Scanner {
    /// Looks at what has come since the last time; `buffer` is all that has come.
    ///
    /// # Errors
    /// It is beyond the bounds, or is no request.
    pub fn scan(&mut self, buffer: &[u8], bounds: &Bounds) -> Result<Option<Head>, Unacceptable> {
        while let Some(at) = position(buffer, self.seen) {
            let line = buffer.get(self.line..at).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.seen = at + 1;
            match self.section {
                None if line.is_empty() => {
                    if self.seen > LEADING {
                        return Err(Unacceptable::Malformed);
                    }
                }
                None => {
                    request_line(line, bounds)?;
                    self.section = Some(self.seen);
                }
                Some(_) if line.is_empty() => {
                    return Ok(Some(Head {
                        length: self.seen,
                        body: self.body(),
                    }));
                }
                Some(section) => {
                    self.fields += 1;
                    if self.fields > bounds.fields || self.seen - section > bounds.section {
                        return Err(Unacceptable::Section);
                    }
                    self.field(line);
                }
            }
            self.line = self.seen;
        }
        self.seen = buffer.len();
        match self.section {
            None => {
                let begun = buffer.get(self.line..).unwrap_or_default();
                // Its end is still to come: no more than its bounds allow.
                begun_line(begun.strip_suffix(b"\r").unwrap_or(begun), bounds)?;
                Ok(None)
            }
            // The empty line that ends it does not count.
            Some(section) if self.seen - section > bounds.section + 1 => Err(Unacceptable::Section),
            Some(_) => Ok(None),
        }
    }

    fn field(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            self.open = true;
            return;
        };
        let (name, value) = line.split_at(colon);
        let is = |wanted: &str| name.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes());
        if is("content-length") {
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            let length = digits(value);
            self.open |= length.is_none() || self.length.is_some_and(|said| Some(said) != length);
            self.length = length;
        } else if is("transfer-encoding") {
            let last = value.rsplit(|byte| matches!(byte, b',' | b':')).next();
            let chunks = last.unwrap_or_default().trim_ascii();
            self.open |= self.chunked || !chunks.eq_ignore_ascii_case(b"chunked");
            self.chunked = true;
        } else if is("upgrade") {
            let other = value.to_ascii_lowercase();
            // Nothing else is ever switched to.
            self.open |= other.windows(9).any(|part| part == b"websocket");
        }
    }

    fn body(&self) -> Body {
        if self.open {
            Body::Open
        } else if self.chunked {
            Body::Chunked
        } else {
            Body::Bytes(self.length.unwrap_or(0))
        }
    }
}

fn position(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    let at = rest.iter().position(|byte| *byte == b'\n')?;
    Some(from + at)
}

fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A request line that has ended.
fn request_line(line: &[u8], bounds: &Bounds) -> Result<(), Unacceptable> {
    let rest = begun_line(line, bounds)?.ok_or(Unacceptable::Malformed)?;
    let space = rest.iter().rposition(|byte| *byte == b' ');
    let target = space.and_then(|at| rest.get(..at));
    let version = space.and_then(|at| rest.get(at + 1..));
    // A line without a version is HTTP/0.9.
    if !version.is_some_and(|version| version.starts_with(b"HTTP/")) {
        return Err(Unacceptable::Malformed);
    }
    let target = target.unwrap_or_default();
    // Pingora would encode what no target can hold, and so make another one of it.
    if target
        .iter()
        .any(|byte| byte.is_ascii_control() || *byte == b' ')
    {
        return Err(Unacceptable::Malformed);
    }
    if target.len() > bounds.target {
        return Err(Unacceptable::Target);
    }
    Ok(())
}

/// What follows the method of a request line, as far as that has come; `None`: the method has not
/// ended yet.
fn begun_line<'a>(line: &'a [u8], bounds: &Bounds) -> Result<Option<&'a [u8]>, Unacceptable> {
    let method = line.iter().take(METHOD).position(|byte| !is_token(*byte));
    let Some(end) = method else {
        let whole = line.len() < METHOD;
        return if whole {
            Ok(None)
        } else {
            Err(Unacceptable::Malformed)
        };
    };
    if end == 0 || line.get(end) != Some(&b' ') {
        return Err(Unacceptable::Malformed);
    }
    let rest = line.get(end + 1..).unwrap_or_default();
    if rest.len() > bounds.target.saturating_add(VERSION) {
        return Err(Unacceptable::Target);
    }
    Ok(Some(rest))
}

/// RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
