use super::*;
use proptest::prelude::*;

/// Reads a head in the way that Pingora does, and checks it.
fn checked(head: &str) -> Result<(), Flaw> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut parsed = httparse::Request::new(&mut headers);
    parsed.parse(head.as_bytes()).unwrap();
    let target = parsed.path.unwrap().as_bytes();
    let mut request = RequestHeader::build(parsed.method.unwrap(), target, None).unwrap();
    request.set_version(match parsed.version {
        Some(0) => Version::HTTP_10,
        _ => Version::HTTP_11,
    });
    for header in parsed.headers.iter() {
        request
            .append_header(header.name.to_owned(), header.value)
            .unwrap();
    }
    if request.headers.contains_key(TRANSFER_ENCODING) {
        request.remove_header(&CONTENT_LENGTH);
    }
    check(head.as_bytes(), &request)
}

fn with(lines: &str) -> Result<(), Flaw> {
    checked(&format!(
        "POST /x HTTP/1.1\r\nHost: dev.example\r\n{lines}\r\n"
    ))
}

#[test]
fn framing_says_one_thing() {
    for (lines, expected) in [
        ("", Ok(())),
        ("Content-Length: 5\r\n", Ok(())),
        ("content-length: 0\r\n", Ok(())),
        ("Transfer-Encoding: chunked\r\n", Ok(())),
        ("Transfer-Encoding: CHUNKED\r\n", Ok(())),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            Err(Flaw::Length),
        ),
        (
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            Err(Flaw::Length),
        ),
        ("Content-Length: 5, 5\r\n", Err(Flaw::Length)),
        ("Content-Length: +5\r\n", Err(Flaw::Length)),
        ("Content-Length: \t\r\n", Err(Flaw::Length)),
        ("Content-Length:\r\n", Err(Flaw::Length)),
        ("Content-Length: 5 5\r\n", Err(Flaw::Length)),
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            Err(Flaw::LengthAndCoding),
        ),
        (
            "Transfer-Encoding: chunked\r\ncontent-LENGTH: 5\r\n",
            Err(Flaw::LengthAndCoding),
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Err(Flaw::Codings),
        ),
        (
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
            Err(Flaw::Codings),
        ),
        ("Transfer-Encoding: gzip, chunked\r\n", Err(Flaw::Coding)),
        ("Transfer-Encoding: chunked, chunked\r\n", Err(Flaw::Coding)),
    ] {
        assert_eq!(with(lines), expected, "{lines:?}");
    }
    assert_eq!(Flaw::Coding.status(), StatusCode::NOT_IMPLEMENTED);
}

#[test]
fn targets_and_lines() {
    let request = |line: &str| checked(&format!("{line}\r\nHost: dev.example\r\n\r\n"));
    for (line, expected) in [
        ("GET / HTTP/1.1", Ok(())),
        ("GET //a;b/%2F\\?x HTTP/1.1", Ok(())),
        ("GET HTTP://dev.example/x HTTP/1.1", Ok(())),
        ("OPTIONS * HTTP/1.1", Ok(())),
        ("\r\nGET / HTTP/1.1", Ok(())),
        ("GET * HTTP/1.1", Err(Flaw::Target)),
        ("GET x HTTP/1.1", Err(Flaw::Target)),
        ("GET ?x HTTP/1.1", Err(Flaw::Target)),
        ("GET ftp://dev.example/x HTTP/1.1", Err(Flaw::Target)),
        ("GET http:x HTTP/1.1", Err(Flaw::Target)),
        ("GET /x#y HTTP/1.1", Err(Flaw::Fragment)),
        ("\r\nGET /x#y HTTP/1.1", Err(Flaw::Fragment)),
    ] {
        assert_eq!(request(line), expected, "{line:?}");
    }
    for head in [
        "GET / HTTP/1.1\nHost: dev.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: dev.example\n\r\n",
        "GET / HTTP/1.1\r\nHost: dev.example\r\n\n",
        "\nGET / HTTP/1.1\r\nHost: dev.example\r\n\r\n",
    ] {
        assert_eq!(checked(head), Err(Flaw::LineEnd), "{head:?}");
    }
}

#[test]
fn hosts() {
    let host = |lines: &str| checked(&format!("GET / HTTP/1.1\r\n{lines}\r\n"));
    for (lines, expected) in [
        ("Host: dev.example:80\r\n", Ok(())),
        ("Host: [::1]:9009\r\n", Ok(())),
        ("Host:\r\n", Ok(())),
        ("", Err(Flaw::Host)),
        ("Host: a b\r\n", Err(Flaw::Host)),
        ("Host: dev.example/x\r\n", Err(Flaw::Host)),
        ("Host: dev.example\t\x2fx\r\n", Err(Flaw::Host)),
        ("Host: \u{e4}.example\r\n", Err(Flaw::Host)),
    ] {
        assert_eq!(host(lines), expected, "{lines:?}");
    }
    assert_eq!(checked("GET / HTTP/1.0\r\n\r\n"), Ok(()));
}

proptest! {
    /// Whatever its case and the order of its lines: a length beside a coding is seen.
    #[test]
    fn no_length_hides_beside_a_coding(cases in any::<u32>(), first in any::<bool>(), before in "[a-z]{1,8}") {
        let name: String = "content-length".chars().enumerate().map(|(n, c)| {
            if cases >> n & 1 == 1 { c.to_ascii_uppercase() } else { c }
        }).collect();
        let (coding, length) = ("Transfer-Encoding: chunked\r\n", format!("{name}: 5\r\n"));
        let (one, two) = if first { (coding, length.as_str()) } else { (length.as_str(), coding) };
        prop_assert_eq!(with(&format!("x-{before}: 1\r\n{one}{two}")), Err(Flaw::LengthAndCoding));
    }
}
