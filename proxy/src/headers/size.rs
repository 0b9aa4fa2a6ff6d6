//! How large the head of an answer may be, and what its values begin and end with. Several requests share an
//! HTTP/2 connection, and clients end all of it for one head that they do not take.

use super::rewrite::rewrite;
use http::{HeaderMap, HeaderValue};
use pingora::http::ResponseHeader;

/// Bytes of names and values, and [`OVERHEAD`] for each line. Common clients take 64 KiB: what the edge adds
/// of its own has room, too.
const LARGEST: usize = 60 * 1024;
/// What HTTP/2 counts a line beyond its name and value (RFC 9113, section 6.5.2).
const OVERHEAD: usize = 32;

/// Makes the head of an answer one that every client takes; whether it can be.
pub fn fit(response: &mut ResponseHeader) -> pingora::Result<bool> {
    if size(&response.headers) > LARGEST {
        return Ok(false);
    }
    if response.headers.values().all(is_trimmed) {
        return Ok(true);
    }
    // Over HTTP/1 white space around a value means nothing; over HTTP/2 there may be none (RFC 9113, section
    // 8.2.1).
    rewrite(response, |_, value| Some(trimmed(value)))?;
    Ok(true)
}

/// Likewise, what stands behind an answer.
pub fn fit_trailers(trailers: &mut HeaderMap) -> bool {
    for value in trailers.values_mut() {
        if !is_trimmed(value) {
            *value = trimmed(value);
        }
    }
    size(trailers) <= LARGEST
}

fn size(headers: &HeaderMap) -> usize {
    let lines = headers.iter();
    let lines = lines.map(|(name, value)| name.as_str().len() + value.len() + OVERHEAD);
    lines.sum()
}

fn is_trimmed(value: &HeaderValue) -> bool {
    let ends = [value.as_bytes().first(), value.as_bytes().last()];
    !ends
        .iter()
        .flatten()
        .any(|byte| matches!(byte, b' ' | b'\t'))
}

fn trimmed(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes().trim_ascii()).unwrap_or_else(|_| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_trimmed_and_all_else_stays() {
        let mut head = ResponseHeader::build(299, None).unwrap();
        head.set_reason_phrase(Some("Quite")).unwrap();
        for (name, value) in [
            ("X-One", " a b\t"),
            ("x-TWO", ""),
            ("X-One", "\t"),
            ("b", "c"),
        ] {
            head.append_header(name, value).unwrap();
        }
        assert!(fit(&mut head).unwrap());
        let lines: Vec<_> = head.case_header_iter().collect();
        let lines = lines
            .iter()
            .map(|(case, value)| (case.as_slice(), value.as_bytes()));
        let wanted: [(&[u8], &[u8]); 4] = [
            (b"X-One", b"a b"),
            (b"X-One", b""),
            (b"x-TWO", b""),
            (b"b", b"c"),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), wanted);
        assert_eq!(
            (head.status.as_u16(), head.get_reason_phrase()),
            (299, Some("Quite"))
        );
    }

    #[test]
    fn lines_count_too() {
        let mut head = ResponseHeader::build(200, None).unwrap();
        let line = "x".repeat(1024 - OVERHEAD - 1);
        for _ in 0..60 {
            assert!(fit(&mut head).unwrap());
            head.append_header("a", line.as_str()).unwrap();
        }
        let mut trailers = head.headers.clone();
        assert!(fit(&mut head).unwrap() && fit_trailers(&mut trailers));
        head.append_header("a", "").unwrap();
        trailers.append("a", HeaderValue::from_static(""));
        assert!(!fit(&mut head).unwrap() && !fit_trailers(&mut trailers));
    }
}
