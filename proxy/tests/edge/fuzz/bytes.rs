//! The parsers that see a client's bytes first: heads of requests, and the PROXY protocol. Whatever
//! comes, and however it is cut, they neither fall nor keep more than their bounds, and the proxy's own
//! parser sees a head end where they do.

use super::{Dice, run};
use nogoo9_proxy::accept::head::{Bounds, Head, Scanner, Unacceptable};
use nogoo9_proxy::accept::proxy_protocol::{MOST, Malformed, Parsed, parse};

/// Inputs without a time to fill.
const INPUTS: u64 = 20_000;

const PIECES: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"POST /a?b HTTP/1.0\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET ",
    b"/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b" HTTP/1.1",
    b"Host: x\r\n",
    b"Content-Length: 10\r\n",
    b"content-length:\t18446744073709551616\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Upgrade: websocket\r\n",
    b"a: b\r\n c\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b":",
    b"\0",
    b"\x16\x03\x01\x02",
    b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
    b"PROXY TCP6 2001:db8::1 ::1 65535 0\r\n",
    b"PROXY UNKNOWN",
    b"PROXY ",
    b"\r\n\r\n\0\r\nQUIT\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24",
    b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    b"\x7f\0\0\x01\x7f\0\0\x01\0\x50\x01\xbb",
];

fn input(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + dice.below(10) {
        bytes.extend_from_slice(PIECES[dice.below(PIECES.len())]);
    }
    for _ in 0..dice.below(4) {
        let at = dice.below(bytes.len());
        bytes[at] = u8::try_from(dice.below(256)).unwrap();
    }
    bytes
}

fn bounds(dice: &mut Dice) -> Bounds {
    Bounds {
        target: 1 + dice.below(80),
        section: 1 + dice.below(200),
        fields: 1 + dice.below(6),
    }
}

/// Reads in pieces; more than these bounds allow is never kept.
fn scan(dice: &mut Dice, bytes: &[u8], bounds: &Bounds) -> Result<Option<Head>, Unacceptable> {
    let mut scanner = Scanner::default();
    let mut end = 0;
    while end < bytes.len() {
        end = (end + 1 + dice.below(20)).min(bytes.len());
        if let Some(head) = scanner.scan(&bytes[..end], bounds)? {
            assert!(head.length <= end);
            return Ok(Some(head));
        }
        // Method, version and ends of lines besides.
        assert!(
            end <= bounds.target + bounds.section + 64,
            "{end} bytes are kept"
        );
    }
    Ok(None)
}

/// Whether more empty lines stand in front than are let pass, or a longer method than there is: the
/// parser would take both.
fn begins_oddly(bytes: &[u8]) -> bool {
    let empty = bytes.iter().take_while(|byte| b"\r\n".contains(byte));
    let empty = empty.count();
    empty > 4
        || bytes[empty..]
            .iter()
            .take_while(|byte| **byte > b' ')
            .count()
            >= 32
}

#[test]
fn heads_end_where_they_end() {
    let mut whole = 0u64;
    let tried = run(INPUTS, |dice| {
        let bytes = input(dice);
        let bounds = bounds(dice);
        let verdict = scan(dice, &bytes, &bounds);
        assert_eq!(
            Scanner::default().scan(&bytes, &bounds),
            verdict,
            "{bytes:?}"
        );
        let large = Bounds {
            target: 100_000,
            section: 100_000,
            fields: 1000,
        };
        let ours = scan(dice, &bytes, &large);
        let mut headers = [httparse::EMPTY_HEADER; 256];
        let theirs = httparse::Request::new(&mut headers).parse(&bytes);
        match (ours, theirs) {
            (Err(Unacceptable::Malformed), _) if begins_oddly(&bytes) => {}
            (ours, Ok(httparse::Status::Complete(length))) => {
                assert_eq!(
                    ours.map(|head| head.map(|head| head.length)),
                    Ok(Some(length)),
                    "{bytes:?}"
                );
                whole += 1;
            }
            (Ok(Some(_)), Ok(httparse::Status::Partial)) => {
                panic!("the parser would wait for more of {bytes:?}")
            }
            _ => {}
        }
    });
    println!("heads: {tried}, {whole} whole");
    assert!(whole * 100 > tried, "only {whole} of {tried} were whole");
}

#[test]
fn headers_of_the_proxy_protocol_end_where_they_end() {
    let mut whole = 0u64;
    let tried = run(INPUTS, |dice| {
        let bytes = input(dice);
        let mut verdict: Result<Parsed, Malformed> = Ok(Parsed::More);
        for end in 0..=bytes.len() {
            let now = parse(&bytes[..end]);
            if verdict != Ok(Parsed::More) {
                assert_eq!(now, verdict, "{bytes:?}");
            } else if let Ok(Parsed::Whole { length, .. }) = now {
                assert!(length <= end && length <= MOST, "{bytes:?}");
                whole += 1;
            }
            verdict = now;
        }
    });
    println!("PROXY headers: {tried}, {whole} whole");
    assert!(whole * 100 > tried, "only {whole} of {tried} were whole");
}
