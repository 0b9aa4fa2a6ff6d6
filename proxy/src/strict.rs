//! HTTP/1 requests that one reader takes for this and another for that. Pure.
//!
//! Pingora reads them in one of the ways; a pod, or a load balancer in front of us, might read them in
//! the other, and then bytes of one request are another request to somebody (request smuggling). What
//! RFC 9112 lets a server refuse of that kind is refused here, with a sentence that says what is wrong.
//! HTTP/2 frames its messages itself, so none of this concerns it.

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};
use pingora::http::RequestHeader;

/// What is wrong with a request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A line ends in LF alone (RFC 9112, section 2.2).
    #[error("A line of the request's head does not end in CRLF.")]
    LineEnd,
    /// The target is in none of the forms that there are (RFC 9112, section 3.2).
    #[error("The request's target is neither a path nor an http(s) address.")]
    Target,
    /// A fragment, which is a client's own, in the target.
    #[error("The request's target has a fragment (`#`).")]
    Fragment,
    /// Several lengths, or one that is no number (RFC 9112, section 6.3).
    #[error("The request must have at most one Content-Length, a plain number.")]
    Length,
    /// Both a length and a transfer coding (RFC 9112, section 6.1).
    #[error("The request has both Content-Length and Transfer-Encoding.")]
    LengthAndCoding,
    /// `Transfer-Encoding` more than once.
    #[error("The request has more than one Transfer-Encoding.")]
    Codings,
    /// A transfer coding besides `chunked`.
    #[error("The edge takes no transfer coding but chunked.")]
    Coding,
    /// A path that leads elsewhere once it is decoded and resolved: see [`crate::route::plain`].
    #[error(
        "The path leads to another place once it is decoded and its `.`, `..`, `//` and `\\\\` are resolved; spell it out."
    )]
    Path,
    /// No `Host`, or one that no host can be (RFC 9112, section 3.2).
    #[error("The request has no proper Host.")]
    Host,
}

impl Flaw {
    /// The status that it is answered with.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Coding => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Looks at a request's head as it came and as Pingora has read it.
///
/// # Errors
/// The first flaw that is found.
pub fn check(raw: &[u8], request: &RequestHeader) -> Result<(), Flaw> {
    lines(raw)?;
    target(raw, request)?;
    framing(raw, request)?;
    host(request)
}

fn lines(raw: &[u8]) -> Result<(), Flaw> {
    let mut lines = raw.split(|byte| *byte == b'\n');
    // Behind the last LF there is nothing.
    lines.next_back();
    if lines.all(|line| line.ends_with(b"\r")) {
        Ok(())
    } else {
        Err(Flaw::LineEnd)
    }
}

fn target(raw: &[u8], request: &RequestHeader) -> Result<(), Flaw> {
    // Pingora drops a fragment, so it is looked for in what came. Empty lines may come first.
    let mut lines = raw.split(|byte| *byte == b'\n');
    let line = lines.find(|line| !line.trim_ascii().is_empty());
    if line.unwrap_or_default().contains(&b'#') {
        return Err(Flaw::Fragment);
    }
    let target = request.raw_path();
    let proper = target.starts_with(b"/")
        || (target == b"*" && request.method == Method::OPTIONS)
        || [&b"http://"[..], b"https://"].iter().any(|scheme| {
            let start = target.get(..scheme.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
    if proper { Ok(()) } else { Err(Flaw::Target) }
}

fn framing(raw: &[u8], request: &RequestHeader) -> Result<(), Flaw> {
    let mut codings = request.headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        if codings.next().is_some() {
            return Err(Flaw::Codings);
        }
        // Beside a coding, Pingora has taken the length away.
        if has_length(raw) {
            return Err(Flaw::LengthAndCoding);
        }
        // What else the body is coded in would be kept from the pod.
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            return Err(Flaw::Coding);
        }
        return Ok(());
    }
    let mut lengths = request.headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(()),
        (Some(length), None) if is_number(length.as_bytes()) => Ok(()),
        _ => Err(Flaw::Length),
    }
}

fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

fn has_length(raw: &[u8]) -> bool {
    raw.split(|byte| *byte == b'\n').any(|line| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        name.trim_ascii()
            .eq_ignore_ascii_case(CONTENT_LENGTH.as_str().as_bytes())
    })
}

fn host(request: &RequestHeader) -> Result<(), Flaw> {
    match request.headers.get(HOST) {
        Some(host) if host.as_bytes().iter().all(|byte| is_host(*byte)) => Ok(()),
        // Before HTTP/1.1 there was none.
        None if request.version == Version::HTTP_10 => Ok(()),
        _ => Err(Flaw::Host),
    }
}

/// What a host with a port consists of (RFC 3986, section 3.2).
fn is_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

#[cfg(test)]
mod tests;
