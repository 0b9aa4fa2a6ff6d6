//! How far an answer of a pod goes, said in one way (RFC 9112, section 6). Pure.
//!
//! Pingora reads an answer by this, and passes on what was written. Whoever is behind us must not come
//! to see another end than Pingora does: a client, or a balancer that shares its connection among many.

use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{StatusCode, Version};
use pingora::http::ResponseHeader;

/// Leaves an answer, whose values have no white space around them, with at most one length or one
/// `chunked`, and with neither where it has no body.
///
/// # Errors
/// Why nobody can tell where it ends.
pub fn settle(answer: &mut ResponseHeader) -> Result<(), &'static str> {
    if answer.status.is_informational() || answer.status == StatusCode::NO_CONTENT {
        // RFC 9110, section 8.6, and RFC 9112, section 6.1: they are on none of these.
        answer.remove_header(&CONTENT_LENGTH);
        answer.remove_header(&TRANSFER_ENCODING);
        return Ok(());
    }
    let mut codings = answer.headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(_), _) if answer.version != Version::HTTP_11 => {
            return Err("a transfer coding, which only HTTP/1.1 has");
        }
        (Some(coding), None) if is_chunked(coding) => {
            // Chunks count; a length beside them means nothing, and is not passed on.
            answer.remove_header(&CONTENT_LENGTH);
            return Ok(());
        }
        _ => return Err("another transfer coding than chunked"),
    }
    let mut lengths = answer.headers.get_all(CONTENT_LENGTH).iter();
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => return Ok(()),
        (Some(length), None) => length.as_bytes(),
        _ => return Err("several lengths"),
    };
    if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
        return Err("a length that is none");
    }
    Ok(())
}

fn is_chunked(coding: &HeaderValue) -> bool {
    coding
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The framing that is left of an answer's.
    fn settled(
        status: u16,
        version: Version,
        lines: &[(&'static str, &str)],
    ) -> Result<Vec<String>, &'static str> {
        let mut head = ResponseHeader::build(status, None).unwrap();
        head.set_version(version);
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            head.append_header(*name, value).unwrap();
        }
        settle(&mut head)?;
        let left = head.headers.iter();
        Ok(left
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect())
    }

    #[test]
    fn one_end_or_none() {
        const LENGTH: &str = "Content-Length";
        const CODING: &str = "Transfer-Encoding";
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        for (status, version, lines, left) in [
            (200, one, &[][..], &[][..]),
            (200, one, &[(LENGTH, "5")], &["content-length: 5"]),
            (200, two, &[(LENGTH, "5")], &["content-length: 5"]),
            (304, one, &[(LENGTH, "5")], &["content-length: 5"]),
            (
                200,
                one,
                &[(CODING, "Chunked ")],
                &["transfer-encoding: Chunked "],
            ),
            (
                200,
                one,
                &[(LENGTH, "5"), (CODING, "chunked")],
                &["transfer-encoding: chunked"],
            ),
            (204, one, &[(LENGTH, "5"), (CODING, "chunked")], &[]),
            (204, two, &[(LENGTH, "5, 5")], &[]),
            (103, one, &[(LENGTH, "0")], &[]),
        ] {
            assert_eq!(
                settled(status, version, lines).unwrap(),
                left,
                "{status} {lines:?}"
            );
        }
        for (version, lines, why) in [
            (one, &[(LENGTH, "5"), (LENGTH, "5")][..], "several"),
            (one, &[(LENGTH, "5, 5")], "none"),
            (one, &[(LENGTH, "")], "none"),
            (one, &[(LENGTH, "+5")], "none"),
            (two, &[(LENGTH, "5 5")], "none"),
            (one, &[(CODING, "gzip, chunked")], "another"),
            (one, &[(CODING, "chunked, chunked")], "another"),
            (one, &[(CODING, "identity")], "another"),
            (one, &[(CODING, "")], "another"),
            (one, &[(CODING, "chunked"), (CODING, "chunked")], "another"),
            (two, &[(CODING, "chunked")], "only HTTP/1.1"),
            (Version::HTTP_10, &[(CODING, "chunked")], "only HTTP/1.1"),
        ] {
            let said = settled(200, version, lines).unwrap_err();
            assert!(said.contains(why), "{lines:?}: {said}");
        }
    }
}
