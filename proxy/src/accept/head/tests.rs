use super::*;
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds {
    target: 20,
    section: 60,
    fields: 3,
};

fn scan(text: &[u8]) -> Result<Option<Head>, Unacceptable> {
    Scanner::default().scan(text, &BOUNDS)
}

/// Byte by byte, and how many it took.
fn drip(text: &[u8]) -> (usize, Result<Option<Head>, Unacceptable>) {
    let mut scanner = Scanner::default();
    for end in 1..=text.len() {
        let result = scanner.scan(&text[..end], &BOUNDS);
        if result != Ok(None) {
            return (end, result);
        }
    }
    (text.len(), Ok(None))
}

#[test]
fn heads_and_what_follows_them() {
    for (text, length, body) in [
        ("GET / HTTP/1.1\r\n\r\n", 18, Body::Bytes(0)),
        ("GET / HTTP/1.1\n\n", 16, Body::Bytes(0)),
        ("\r\nGET / HTTP/1.0\r\n\r\nrest", 20, Body::Bytes(0)),
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /", 27, Body::Bytes(0)),
        (
            "POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n",
            38,
            Body::Bytes(7),
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length:7 \r\n\r\n",
            38,
            Body::Bytes(7),
        ),
        (
            "P / HTTP/1.1\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\n",
            54,
            Body::Bytes(7),
        ),
        (
            "P / HTTP/1.1\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n",
            54,
            Body::Open,
        ),
        ("P / HTTP/1.1\r\nContent-Length: +7\r\n\r\n", 36, Body::Open),
        (
            "P / HTTP/1.1\r\nContent-Length: 7, 7\r\n\r\n",
            38,
            Body::Open,
        ),
        (
            "P / HTTP/1.1\r\nContent-Length : 7\r\n\r\n",
            36,
            Body::Bytes(7),
        ),
        (
            "P / HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n",
            38,
            Body::Open,
        ),
        (
            "P / HTTP/1.1\r\nTransfer-Encoding: a, Chunked \r\n\r\n",
            48,
            Body::Chunked,
        ),
        (
            "P / HTTP/1.1\r\nTransfer-Encoding:chunked\r\nContent-Length: 1\r\n\r\n",
            62,
            Body::Chunked,
        ),
        ("G / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n", 30, Body::Bytes(0)),
        ("G / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n", 36, Body::Open),
        ("G / HTTP/1.1\r\n folded\r\n\r\n", 25, Body::Open),
    ] {
        let head = Head { length, body };
        assert_eq!(scan(text.as_bytes()), Ok(Some(head)), "{text:?}");
        assert_eq!(drip(text.as_bytes()), (length, Ok(Some(head))), "{text:?}");
    }
}

#[test]
fn what_is_not_taken_and_after_how_many_bytes() {
    use Unacceptable::{Malformed, Section, Target};
    let target = "a".repeat(21);
    let long = format!("G /{target} HTTP/1.1\r\n\r\n");
    let endless = format!("G /{}", "a".repeat(100));
    let lines = "G / HTTP/1.1\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\n\r\n";
    let large = format!("G / HTTP/1.1\r\na: {}", "1".repeat(100));
    for (text, after, why) in [
        // TLS, where none is spoken.
        ("\x16\x03\x01\x02\0\x01", 1, Malformed),
        ("\r\n\r\n\0\r\nQUIT\n", 5, Malformed),
        ("\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", 6, Malformed),
        (" GET / HTTP/1.1\r\n\r\n", 1, Malformed),
        ("GET /\r\n", 7, Malformed),
        ("GET / SMTP/1.1\r\n", 16, Malformed),
        ("GET\t/ HTTP/1.1\r\n", 4, Malformed),
        ("GET /a b HTTP/1.1\r\n", 19, Malformed),
        ("GET  /a HTTP/1.1\r\n", 18, Malformed),
        ("GET /\x7f HTTP/1.1\r\n", 17, Malformed),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQ", 32, Malformed),
        (long.as_str(), 35, Target),
        (endless.as_str(), 34, Target),
        (lines, 38, Section),
        (large.as_str(), 76, Section),
    ] {
        assert_eq!(drip(text.as_bytes()), (after, Err(why)), "{text:?}");
        assert_eq!(scan(text.as_bytes()), Err(why), "{text:?}");
    }
}

#[test]
fn what_is_exactly_at_its_bounds_is_taken() {
    let target = format!("/{}", "a".repeat(BOUNDS.target - 1));
    // Three lines, sixty bytes.
    let text = format!(
        "G {target} HTTP/1.1\r\na: 1\r\nb: 2\r\nc: {}\r\n\r\n",
        "3".repeat(43)
    );
    let head = drip(text.as_bytes());
    assert_eq!(head.0, text.len());
    assert!(matches!(head.1, Ok(Some(_))), "{head:?}");
    let text = text.replace("c: ", "c: 3");
    assert_eq!(scan(text.as_bytes()), Err(Unacceptable::Section));
}

/// The most that is ever kept of a head that is not whole.
fn most() -> usize {
    LEADING + METHOD + 1 + BOUNDS.target + VERSION + 2 + BOUNDS.section + 2
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"Content-Length: 3\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"a: b\r\n".to_vec()),
        "[ -~]{0,30}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..10),
    ]
}

proptest! {
    /// However it is cut into pieces, the verdict is the same, and it comes before more is kept than
    /// the bounds allow.
    #[test]
    fn pieces_do_not_matter(
        pieces in prop::collection::vec(piece(), 0..12),
        cuts in prop::collection::vec(1usize..7, 1..200),
    ) {
        let text = pieces.concat();
        let whole = scan(&text);
        let mut scanner = Scanner::default();
        let (mut end, mut result) = (0, Ok(None));
        for cut in cuts.iter().cycle() {
            if end >= text.len() || result != Ok(None) {
                break;
            }
            end = (end + cut).min(text.len());
            result = scanner.scan(&text[..end], &BOUNDS);
            if result == Ok(None) {
                prop_assert!(end <= most(), "{end} bytes are kept");
            }
        }
        prop_assert_eq!(result, whole);
    }

    /// What the parser of the proxy takes as a whole head ends where this says it does.
    #[test]
    fn both_see_the_same_end(pieces in prop::collection::vec(piece(), 1..10)) {
        let text = [b"GET / HTTP/1.1\r\n".to_vec(), pieces.concat()].concat();
        let bounds = Bounds { target: 1000, section: 1000, fields: 100 };
        let ours = Scanner::default().scan(&text, &bounds);
        let mut headers = [httparse::EMPTY_HEADER; 256];
        let theirs = httparse::Request::new(&mut headers).parse(&text);
        if let Ok(httparse::Status::Complete(length)) = theirs {
            prop_assert_eq!(ours.map(|head| head.map(|head| head.length)), Ok(Some(length)));
        } else if let (Ok(Some(_)), Ok(theirs)) = (ours, theirs) {
            prop_assert!(!theirs.is_partial(), "the parser waits for more of {text:?}");
        }
    }
}
