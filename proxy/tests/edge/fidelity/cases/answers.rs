//! Answers as applications give them: heads, bodies, and what comes before.

use super::Case;

/// Answers' heads and bodies: start line, lines, body as it is on the wire.
const ANSWERS: &[(&str, &str, &str)] = &[
    ("200 OK", "Content-Length: 2", "ok"),
    ("200 Fine Indeed", "Content-Length: 2", "ok"),
    ("200", "Content-Length: 0", ""),
    ("200 ", "Content-Length: 0", ""),
    ("201 Created", "Location: /a\r\nContent-Length: 0", ""),
    ("202 Accepted", "content-length: 0", ""),
    ("204 No Content", "X-A: 1", ""),
    ("205 Reset Content", "Content-Length: 0", ""),
    (
        "206 Partial Content",
        "Content-Range: bytes 0-1/9\r\nContent-Length: 2",
        "ok",
    ),
    ("207 Multi-Status", "Content-Length: 2", "ok"),
    ("299 Other", "Content-Length: 2", "ok"),
    (
        "301 Moved Permanently",
        "Location: http://dev.localhost:9009/a?b\r\nContent-Length: 0",
        "",
    ),
    ("302 Found", "Location: /a/../b\r\nContent-Length: 0", ""),
    (
        "303 See Other",
        "Location: https://elsewhere.example/\r\nContent-Length: 0",
        "",
    ),
    ("304 Not Modified", "ETag: \"a\"", ""),
    ("304 Not Modified", "ETag: W/\"a\"\r\nContent-Length: 5", ""),
    (
        "307 Temporary Redirect",
        "Location: ?b\r\nContent-Length: 0",
        "",
    ),
    (
        "308 Permanent Redirect",
        "Location: //elsewhere.example\r\nContent-Length: 0",
        "",
    ),
    ("400 Bad Request", "Content-Length: 2", "no"),
    (
        "401 Unauthorized",
        "WWW-Authenticate: Basic realm=\"a\"\r\nContent-Length: 2",
        "no",
    ),
    ("403 Forbidden", "Content-Length: 2", "no"),
    ("404 Not Found", "Content-Length: 2", "no"),
    (
        "405 Method Not Allowed",
        "Allow: GET, HEAD\r\nContent-Length: 0",
        "",
    ),
    ("409 Conflict", "Content-Length: 0", ""),
    ("412 Precondition Failed", "Content-Length: 0", ""),
    (
        "416 Range Not Satisfiable",
        "Content-Range: bytes */9\r\nContent-Length: 0",
        "",
    ),
    ("418 I'm a teapot", "Content-Length: 0", ""),
    ("421 Misdirected Request", "Content-Length: 0", ""),
    (
        "426 Upgrade Required",
        "Upgrade: websocket\r\nContent-Length: 0",
        "",
    ),
    (
        "429 Too Many Requests",
        "Retry-After: 5\r\nContent-Length: 0",
        "",
    ),
    ("451 Unavailable", "Content-Length: 0", ""),
    ("500 Internal Server Error", "Content-Length: 2", "no"),
    ("502 Bad Gateway", "Content-Length: 2", "no"),
    (
        "503 Service Unavailable",
        "Retry-After: Sat, 28 Nov 2026 10:00:00 GMT\r\nContent-Length: 0",
        "",
    ),
    ("599 Odd", "Content-Length: 0", ""),
    ("999 Odder", "Content-Length: 0", ""),
    (
        "200 OK",
        "Transfer-Encoding: chunked",
        "2\r\nok\r\n0\r\n\r\n",
    ),
    (
        "200 OK",
        "transfer-encoding: Chunked",
        "1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
    ),
    ("200 OK", "Transfer-Encoding: chunked", "0\r\n\r\n"),
    (
        "200 OK",
        "Transfer-Encoding: chunked",
        "02;a=b\r\nok\r\n0\r\n\r\n",
    ),
    (
        "200 OK",
        "Transfer-Encoding: chunked\r\nTrailer: X-T",
        "2\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
    ),
    (
        "200 OK",
        "Content-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked",
        "9\r\ndata: a\n\n\r\n0\r\n\r\n",
    ),
    (
        "200 OK",
        "Content-Type: text/html; charset=utf-8\r\nContent-Length: 2",
        "ok",
    ),
    (
        "200 OK",
        "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\nContent-Length: 3",
        "\u{1f}\u{8b}\u{8}",
    ),
    (
        "200 OK",
        "Date: Sat, 28 Nov 2026 10:00:00 GMT\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Server: their own/1.0\r\nX-Powered-By: x\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Connection: X-Named\r\nX-Named: 1\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Upgrade: h2,h2c\r\nConnection: Upgrade\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Proxy-Connection: keep-alive\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Set-Cookie: a=b; Path=/; HttpOnly\r\nSet-Cookie: c=d; SameSite=None; Secure\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "SET-COOKIE: a=b;path=/x;;  Max-Age=5\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Set-Cookie: a=b; Domain=localhost\r\nContent-Length: 0",
        "",
    ),
    ("200 OK", "Set-Cookie: nogoo9=x\r\nContent-Length: 0", ""),
    (
        "200 OK",
        "X-B: 1\r\nX-A: 2\r\nx-c: 3\r\nX-D:\r\nContent-Length: 0",
        "",
    ),
    ("200 OK", "X-Two: 1\r\nX-Two: 2\r\nContent-Length: 0", ""),
    (
        "200 OK",
        "X-Two: 1\r\nX-O: 1\r\nX-Two: 2\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "X-Spaces:   a   b  \r\nX-None:a\r\nContent-Length: 0",
        "",
    ),
    ("200 OK", "X-Latin: \u{e4}\u{ff}\r\nContent-Length: 0", ""),
    (
        "200 OK",
        "Strict-Transport-Security: max-age=5\r\nContent-Security-Policy: default-src 'self'\r\nX-Frame-Options: DENY\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: X\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Link: </a.css>; rel=preload\r\nRefresh: 5; url=/a\r\nContent-Location: /b\r\nSourceMap: /c\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "Alt-Svc: h3=\":443\"\r\nClear-Site-Data: \"cache\"\r\nService-Worker-Allowed: /\r\nContent-Length: 0",
        "",
    ),
    (
        "200 OK",
        "ETag: \"a\"\r\nLast-Modified: Sat, 28 Nov 2026 10:00:00 GMT\r\nAge: 5\r\nExpires: 0\r\nContent-Length: 0",
        "",
    ),
    ("200 OK", "Accept-Ranges: bytes\r\nContent-Length: 0", ""),
    (
        "200 OK",
        "Via: 1.1 a\r\nX-Cache: HIT\r\nContent-Length: 0",
        "",
    ),
    ("200 OK", "Content-Length: 2\r\nConnection: close", "ok"),
];

/// What comes before an answer.
const BEFORE: &[&str] = &[
    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </c>\r\n\r\n",
    "HTTP/1.1 102 Processing\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 104 Upload Resumption Supported\r\nX-A: 1\r\n\r\n",
];

pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let get = |kind: &str| Case::new(kind, "GET", "/a");
    for (start, lines, body) in ANSWERS {
        let answer = format!("HTTP/1.1 {start}\r\n{lines}\r\n\r\n{body}");
        let closes = lines.ends_with("Connection: close");
        let case = get("answer").answer(answer);
        cases.push(if closes { case.closed() } else { case });
    }
    for (start, lines) in [
        ("200 OK", "Content-Length: 5"),
        ("200 OK", "Transfer-Encoding: chunked"),
        ("404 Not Found", "Content-Type: text/html"),
        ("304 Not Modified", "ETag: \"a\""),
    ] {
        let answer = format!("HTTP/1.1 {start}\r\n{lines}\r\n\r\n");
        cases.push(Case::new("head", "HEAD", "/a").answer(answer));
    }
    for before in BEFORE {
        let answer = format!("{before}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        cases.push(get("before").answer(answer));
    }
    let body = "x".repeat(200_000);
    let mut big = get("answer, big").answer(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    big.name.truncate(20);
    cases.push(big);
    cases.push(
        get("until close")
            .answer("HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nabc")
            .closed(),
    );
    cases.push(
        get("until close")
            .answer("HTTP/1.0 200 OK\r\n\r\nabc")
            .closed(),
    );
    cases.push(
        get("1.0")
            .answer("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .closed(),
    );
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    cases.push(get("cut").answer(cut).closed());
    let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
    cases.push(get("cut").answer(cut).closed());
    cases
}
