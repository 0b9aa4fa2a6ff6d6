//! Heads, paths and answers of any bytes, through the code that reads them: what is let through
//! is one thing to everybody.
//!
//! Some thousands of each, always the same, as part of the tests; with `NOGOO9_FUZZ_SECONDS`
//! (`make fuzz`) as many as fit into that time, from a new seed. A failure names the seed that finds it
//! again, as `NOGOO9_FUZZ_SEED`.

use super::message::{Message, Start};
use crate::fuzz::{Dice, number};
use http::header::{CONTENT_LENGTH, HOST, SET_COOKIE, TRANSFER_ENCODING};
use nogoo9_identity::cookie::is_ours;
use nogoo9_proxy::headers::{Mapping, from_pod};
use nogoo9_proxy::route::plain::plain;
use nogoo9_proxy::route::{Router, Target};
use nogoo9_proxy::strict;
use nogoo9_runtime::args::{Public, WorkspaceDomain};
use pingora::http::{RequestHeader, ResponseHeader};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Of each, without a time to fill.
const EACH: u64 = 5_000;

/// Runs it for seed after seed; it says whether it has looked at something.
fn fuzz(what: &str, one: impl Fn(&mut Dice) -> Result<bool, String>) {
    let seconds = number("NOGOO9_FUZZ_SECONDS").map(Duration::from_secs);
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
            << 24
    };
    let first = number("NOGOO9_FUZZ_SEED");
    let first = first.unwrap_or_else(|| if seconds.is_some() { now() } else { 0 });
    let start = Instant::now();
    let (mut tried, mut looked) = (0, 0);
    while seconds.map_or(tried < EACH, |seconds| start.elapsed() < seconds) {
        let seed = first.wrapping_add(tried);
        tried += 1;
        match one(&mut Dice::new(seed)) {
            Ok(true) => looked += 1,
            Ok(false) => {}
            Err(wrong) => panic!("{what}: {wrong}\nagain with NOGOO9_FUZZ_SEED={seed}"),
        }
    }
    println!("{what}: {tried} from seed {first}, {looked} of them let through");
    assert!(
        looked * 20 > tried,
        "{what}: only {looked} of {tried} are looked at"
    );
}

/// Pieces in a row, now and then with a byte that is not theirs.
fn text(dice: &mut Dice, pieces: &[&str], most: usize) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for _ in 0..dice.below(most + 1) {
        text.extend_from_slice(dice.one(pieces).as_bytes());
    }
    if !text.is_empty() && dice.below(4) == 0 {
        let at = dice.below(text.len());
        text[at] = u8::try_from(dice.below(256)).unwrap();
    }
    text
}

fn router() -> Router {
    Router::new(&Public {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: "http://localhost:9009/".parse().unwrap(),
        workspace_domain: WorkspaceDomain {
            host: "localhost".to_owned(),
            port: Some(9009),
        },
        path_mode: true,
        path_host: None,
    })
}

#[test]
fn a_path_that_is_let_through_is_one_place() {
    const PIECES: &[&str] = &[
        "/",
        "//",
        "\\",
        "%2f",
        "%5C",
        ".",
        "..",
        "%2e",
        "%2E%2e",
        "/../",
        "/./",
        "route",
        "r%6fute",
        "/route/dev/",
        "dev",
        "d%65v",
        "other",
        "/.nogoo9/",
        ".nogoo9",
        "%2enogoo9",
        "status",
        "a",
        ";",
        "?",
        "%",
        "%00",
        "\u{e4}",
    ];
    let router = router();
    fuzz("paths", |dice| {
        let host = dice.one(&["dev.localhost:9009", "localhost:9009"]);
        let path = text(dice, PIECES, 8);
        let path = format!("/{}", String::from_utf8_lossy(&path));
        let target = router.target(host, &path);
        if router.is_ambiguous(host, &path, &target) {
            return Ok(false);
        }
        let resolved = plain(&path).unwrap_or_else(|| path.clone());
        let same = match (&target, &router.target(host, &resolved)) {
            (Target::Workspace(one), Target::Workspace(other)) => {
                (&one.id, one.ours) == (&other.id, other.ours)
            }
            (one, other) => one == other,
        };
        if same {
            Ok(true)
        } else {
            Err(format!("{host}{path} is {resolved} as well"))
        }
    });
}

#[test]
fn a_head_that_is_let_through_is_framed_in_one_way() {
    const PIECES: &[&str] = &[
        "Content-Length: 5\r\n",
        "content-length:5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: Chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Host: dev.localhost\r\n",
        "Host: a b\r\n",
        "X-A: 1\r\n",
        "X-A: 1\n",
        "X-Content-Length: 5\r\n",
        "X: Content-Length: 5\r\n",
    ];
    fuzz("heads", |dice| {
        let line = dice.one(&[
            "GET / HTTP/1.1\r\n",
            "POST /a HTTP/1.1\r\n",
            "GET /a#b HTTP/1.1\r\n",
            "GET a HTTP/1.1\r\n",
            "GET http://dev.localhost/ HTTP/1.1\r\n",
            "\r\nGET / HTTP/1.1\r\n",
            "GET / HTTP/1.0\r\n",
        ]);
        let host = dice.one(&["", "Host: dev.localhost\r\n"]);
        let lines = text(dice, PIECES, 3);
        let head = [line.as_bytes(), host.as_bytes(), &lines, b"\r\n"].concat();
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut parsed = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = parsed.parse(&head) else {
            return Ok(false);
        };
        let target = parsed.path.unwrap().as_bytes();
        let Ok(mut request) = RequestHeader::build(parsed.method.unwrap(), target, None) else {
            return Ok(false);
        };
        if parsed.version == Some(0) {
            request.set_version(http::Version::HTTP_10);
        }
        for header in parsed.headers.iter() {
            if request
                .append_header(header.name.to_owned(), header.value)
                .is_err()
            {
                return Ok(false);
            }
        }
        // As Pingora does.
        if request.headers.contains_key(TRANSFER_ENCODING) {
            request.remove_header(&CONTENT_LENGTH);
        }
        if strict::check(&head[..length], &request).is_err() {
            return Ok(false);
        }
        let skipped = head[..length]
            .strip_prefix(b"\r\n")
            .unwrap_or(&head[..length]);
        // With a body that is enough for either.
        let with_body = [skipped, b"0\r\n\r\n"].concat();
        match Message::read(&with_body, Start::Request) {
            Ok(Some((message, _))) if message.all(HOST.as_str()).len() > 1 => Ok(false),
            Ok(_) => Ok(true),
            Err(wrong) => Err(format!("{wrong}: {:?}", String::from_utf8_lossy(&head))),
        }
    });
}

#[test]
fn an_answer_stays_inside_of_its_workspace() {
    const NAMES: &[&str] = &[
        "Set-Cookie",
        "set-cookie",
        "Location",
        "Content-Location",
        "Refresh",
        "Link",
        "Connection",
        "Keep-Alive",
        "Upgrade",
        "X-A",
        "Service-Worker-Allowed",
    ];
    const VALUES: &[&str] = &[
        "a=1",
        "; Path=/x",
        "; path=",
        "; Domain=localhost",
        "; DOMAIN",
        "nogoo9=x",
        "__Host-nogoo9-a=x",
        "=nogoo9=x",
        " ",
        "/a",
        "//localhost:9009/b",
        "http://10.0.0.1:3000/c",
        "5; url=/d",
        "</e>",
        "; rel=x",
        "x-a, ",
        "keep-alive",
        "\"",
        "\\",
        ",",
        "<",
        "\u{e4}",
    ];
    let mapping = |stripped| Mapping {
        prefix: "/route/dev",
        stripped,
        shared: true,
        host: "localhost:9009",
        pod: "10.0.0.1:3000",
    };
    fuzz("answers", |dice| {
        let mut response = ResponseHeader::build(200, None).unwrap();
        for _ in 0..dice.below(5) {
            let name = dice.one(NAMES);
            let value = text(dice, VALUES, 4);
            let value = String::from_utf8_lossy(&value).into_owned();
            if response
                .append_header(name.to_owned(), value.as_bytes())
                .is_err()
            {
                return Ok(false);
            }
        }
        let before = format!("{:?}", response.headers);
        let mode = [None, Some(mapping(true)), Some(mapping(false))][dice.below(3)];
        from_pod(&mut response, mode).map_err(|error| format!("{error}: {before}"))?;
        let wrong = |what: &str| {
            Err(format!(
                "{what}: {:?} of {before} in {mode:?}",
                response.headers
            ))
        };
        for cookie in response.headers.get_all(SET_COOKIE) {
            let text = String::from_utf8_lossy(cookie.as_bytes()).into_owned();
            let mut parts = text.split(';');
            let pair = parts.next().unwrap_or_default().trim();
            let bare = pair.strip_prefix('=').unwrap_or(pair);
            if is_ours(bare.split('=').next().unwrap_or_default().trim()) {
                return wrong("a cookie of ours");
            }
            let mut path = None;
            for part in parts {
                let (name, value) = part.split_once('=').unwrap_or((part, ""));
                match name.trim().to_ascii_lowercase().as_str() {
                    "domain" => return wrong("a domain"),
                    // The last one counts.
                    "path" => path = Some(value.trim().to_owned()),
                    _ => {}
                }
            }
            let inside =
                path.is_some_and(|path| path == "/route/dev" || path.starts_with("/route/dev/"));
            if mode.is_some() && !inside {
                return wrong("a cookie for others");
            }
        }
        for name in ["keep-alive", "upgrade"] {
            if response.headers.contains_key(name) {
                return wrong("a header of one hop");
            }
        }
        if let (Some(mode), Some(location)) = (mode, response.headers.get("location"))
            && mode.stripped
            && location.as_bytes().starts_with(b"/")
            && !location.as_bytes().starts_with(b"//")
            && !location.as_bytes().starts_with(b"/route/dev")
        {
            return wrong("a way out");
        }
        Ok(!response.headers.is_empty())
    });
}
