//! A message of HTTP/1 as it is on the wire, read by the letter: whatever is not as RFC 9112 has it is
//! an error.

/// What a message is, as that decides how its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Request,
    /// An answer, to a `HEAD` or not.
    Answer {
        head: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Message {
    /// The start line.
    pub(crate) line: String,
    /// Lines of the head as they came, without their ends.
    pub(crate) lines: Vec<String>,
    /// The body, decoded.
    pub(crate) body: Vec<u8>,
    /// Sizes of chunk after chunk, where it came in chunks.
    pub(crate) chunks: Option<Vec<usize>>,
    pub(crate) trailers: Vec<String>,
    /// Whether its end was the connection's.
    pub(crate) until_end: bool,
}

impl Message {
    /// The first message of what came, and its length; `None`: there is more to come.
    pub(crate) fn read(got: &[u8], start: Start) -> Result<Option<(Self, usize)>, String> {
        let Some(end) = got.windows(4).position(|w| w == b"\r\n\r\n") else {
            return Ok(None);
        };
        // Letters as they come, whatever their coding.
        let head: String = got[..end].iter().map(|byte| char::from(*byte)).collect();
        let mut lines = head.split("\r\n").map(ToOwned::to_owned);
        let mut message = Self {
            line: lines.next().unwrap_or_default(),
            lines: lines.collect(),
            ..Self::default()
        };
        if head.replace("\r\n", "").contains(['\r', '\n', '\0']) {
            return Err("a bare CR, LF or NUL".to_owned());
        }
        for line in &message.lines {
            let name = line.split_once(':').map(|(name, _)| name);
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if !name.is_some_and(|name| !name.is_empty() && name.chars().all(token)) {
                return Err(format!("no header: {line:?}"));
            }
        }
        let body = &got[end + 4..];
        let status = message.line.split(' ').nth(1).unwrap_or_default();
        let bodiless = match start {
            Start::Request => false,
            Start::Answer { head } => {
                head || status == "204" || status == "304" || status.starts_with('1')
            }
        };
        let lengths = message.all("content-length");
        let codings = message.all("transfer-encoding");
        let length = match (lengths.as_slice(), codings.as_slice()) {
            _ if bodiless => 0,
            ([], []) if start == Start::Request => 0,
            ([], []) => {
                message.until_end = true;
                message.body = body.to_vec();
                return Ok(Some((message, got.len())));
            }
            ([length], []) => {
                let length = length.parse().map_err(|_| format!("no length: {length}"))?;
                if body.len() < length {
                    return Ok(None);
                }
                message.body = body[..length].to_vec();
                length
            }
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => {
                match message.read_chunks(body, start)? {
                    Some(length) => length,
                    None => return Ok(None),
                }
            }
            _ => return Err("framing that is none".to_owned()),
        };
        Ok(Some((message, end + 4 + length)))
    }

    fn read_chunks(&mut self, body: &[u8], start: Start) -> Result<Option<usize>, String> {
        let mut at = 0;
        let mut sizes = Vec::new();
        let line = |at: usize| -> Option<String> {
            let rest = body.get(at..)?;
            let end = rest.windows(2).position(|w| w == b"\r\n")?;
            Some(rest[..end].iter().map(|byte| char::from(*byte)).collect())
        };
        loop {
            let Some(text) = line(at) else {
                return Ok(None);
            };
            // No sign, no space; to a pod no extension.
            let digits = match start {
                Start::Request => text.as_str(),
                Start::Answer { .. } => text.split(';').next().unwrap_or_default(),
            };
            let hex = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
            let size = usize::from_str_radix(digits, 16).ok().filter(|_| hex);
            let size = size.ok_or_else(|| format!("no chunk size: {text:?}"))?;
            at += text.len() + 2;
            if size == 0 {
                break;
            }
            let Some(chunk) = body.get(at..at + size + 2) else {
                return Ok(None);
            };
            if !chunk.ends_with(b"\r\n") {
                return Err("a chunk without an end".to_owned());
            }
            self.body.extend_from_slice(&chunk[..size]);
            sizes.push(size);
            at += size + 2;
        }
        loop {
            let Some(text) = line(at) else {
                return Ok(None);
            };
            at += text.len() + 2;
            if text.is_empty() {
                self.chunks = Some(sizes);
                return Ok(Some(at));
            }
            self.trailers.push(text);
        }
    }

    /// Names and values, in order; names in their own letters.
    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        let split = self.lines.iter().filter_map(|line| line.split_once(':'));
        split
            .map(|(name, value)| (name, value.trim_matches([' ', '\t'])))
            .collect()
    }

    /// Values of a header, by its name in lower case.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let headers = self.headers().into_iter();
        let found = headers.filter(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.to_owned()).collect()
    }
}

#[test]
fn read_by_the_letter() {
    let whole = |text: &str| Message::read(text.as_bytes(), Start::Request);
    let (message, length) = whole(
        "POST /x HTTP/1.1\r\nA: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: 1\r\n\r\nmore",
    )
    .unwrap()
    .unwrap();
    assert_eq!(
        (message.body.as_slice(), length),
        (&b"abc"[..], 73),
        "{message:?}"
    );
    assert_eq!(message.chunks, Some(vec![3]));
    assert_eq!(message.trailers, ["T: 1"]);
    for text in [
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab",
    ] {
        assert_eq!(whole(text).unwrap(), None, "{text:?}");
    }
    for text in [
        "GET / HTTP/1.1\r\nA: 1\nB: 2\r\n\r\n",
        "GET / HTTP/1.1\r\nA : 1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    ] {
        whole(text).unwrap_err();
    }
}
