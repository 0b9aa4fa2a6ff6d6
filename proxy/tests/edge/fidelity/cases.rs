//! Some three hundred requests, and what they are answered with, as tables.

use super::recorder::Script;

/// A request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) method: &'static str,
    /// As bytes, whatever their coding.
    pub(crate) target: Vec<u8>,
    pub(crate) version: &'static str,
    /// Header lines besides those that let it in.
    pub(crate) lines: Vec<String>,
    pub(crate) body: Body,
    pub(crate) script: Script,
    /// Whether HTTP/2 can say the same.
    pub(crate) h2: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Length(Vec<u8>),
    Chunks(Vec<&'static str>, &'static [&'static str]),
}

const METHODS: &[&str] = &[
    "GET",
    "POST",
    "PUT",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "HEAD",
    "PROPFIND",
    "REPORT",
    "MKCOL",
    "LOCK",
    "PURGE",
    "TRACE",
    "get",
    "BREW",
    "X-CUSTOM!",
];

/// Paths and queries that applications have.
const TARGETS: &[&str] = &[
    "/",
    "/a",
    "/a/",
    "/a/b/c.d",
    "//",
    "//a",
    "/a//b",
    "/a///",
    "/.",
    "/..",
    "/./a",
    "/../a",
    "/a/./b",
    "/a/../b",
    "/a/..",
    "/..;/a",
    "/a;b=c",
    "/a;b=c;d/e",
    "/;",
    "/a%2Fb",
    "/a%2fb",
    "/%2F",
    "/a%2F%2Fb",
    "/%2e%2e/a",
    "/%2E",
    "/a%5Cb",
    "/a\\b",
    "/\\a",
    "/a%40b",
    "/a@b",
    "/@scope%2fname",
    "/a%20b",
    "/a+b",
    "/a%2Bb",
    "/a%25b",
    "/a%2525b",
    "/a%00b",
    "/a%0d%0ab",
    "/a%zz",
    "/a%",
    "/a%C3%A4",
    "/a%c3%a4",
    "/a%FF",
    "/a:b",
    "/a,b",
    "/a!b$c&d'e(f)g*h",
    "/a~b_c-d.e",
    "/a=b",
    "/a[b]",
    "/a{b}",
    "/a|b",
    "/a^b",
    "/a\"b",
    "/a?",
    "/a??",
    "/a?b",
    "/a?b=c&d=e",
    "/a?b=c&b=d",
    "/a?b=%2F%26",
    "/a?b=/../c",
    "/a?b=http://c.example/d",
    "/a?b=c?d",
    "/a?b[]=c",
    "/a?{b}",
    "/a?b=c+d%20e",
    "/a?b='c'",
    "/a?`b`",
    "/a?b=\\c",
    "/a?;b;c",
    "/?",
    "/?a",
    "/a?%zz",
    "/.well-known/a",
    "/.git/config",
    "/a/.nogoo9/b",
    "/route/other/a",
    "/socket.io/?EIO=4&transport=polling",
    "/api/kernels/1-2?token=abc",
    "/info/refs?service=git-upload-pack",
];

/// Header lines that clients send.
const LINES: &[&str] = &[
    "Accept: */*",
    "accept: text/html",
    "ACCEPT: text/plain",
    "aCcEpT: x/y",
    "Accept-Encoding: gzip, deflate, br, zstd",
    "Accept-Encoding: identity",
    "Accept-Language: de-CH, de;q=0.9",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64)",
    "Referer: http://dev.localhost:9009/a?b#c",
    "Origin: http://dev.localhost:9009",
    "DNT: 1",
    "Cache-Control: no-cache",
    "Pragma: no-cache",
    "Authorization: Basic YTpi",
    "authorization: Digest username=\"a\", uri=\"/\"",
    "If-None-Match: \"a\", W/\"b\"",
    "If-Match: *",
    "If-Modified-Since: Sat, 28 Nov 2026 10:00:00 GMT",
    "If-Unmodified-Since: Sat, 28 Nov 2026 10:00:00 GMT",
    "If-Range: \"a\"",
    "Range: bytes=0-9",
    "Range: bytes=0-1,4-5,-3",
    "X-Requested-With: XMLHttpRequest",
    "X-CSRF-Token: abc",
    "X-Http-Method-Override: PUT",
    "Sec-Fetch-Dest: empty",
    "Sec-CH-UA: \"Chromium\";v=\"140\"",
    "Sec-WebSocket-Protocol: a, b",
    "Upgrade-Insecure-Requests: 1",
    "Priority: u=1, i",
    "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "Max-Forwards: 5",
    "From: a@b.example",
    "Via: 1.1 a.example",
    "Warning: 199 - \"x\"",
    "Date: Sat, 28 Nov 2026 10:00:00 GMT",
    "Content-Type: application/json",
    "Content-Encoding: gzip",
    "Content-Disposition: attachment; filename=\"a.b\"",
    "Destination: http://dev.localhost:9009/b",
    "Depth: infinity",
    "Overwrite: T",
    "Git-Protocol: version=2",
    "Docker-Upload-UUID: 1",
    "Grpc-Timeout: 1S",
    "X-Empty:",
    "X-Empty: ",
    "X-Spaces:    a   b   ",
    "X-Tabs:\ta\tb\t",
    "X-None:a",
    "X_Under_Score: a",
    "X.Dot: a",
    "X!#$%&'*+^`|~: a",
    "X-Quoted: \"a, b\\\"c\"",
    "X-Colon: a:b:c",
    "X-Latin: \u{e4}\u{ff}",
    "X-Percent: %41%0d%0a",
    "x-lower: a",
    "X-UPPER: A",
    "x-MiXeD: aB",
    "1: digit",
    "Cookie: theirs=1",
    "Cookie: a=\"b c\"; d",
    "X-Two: 1\r\nX-Two: 2",
    "X-Two: 1\r\nx-two: 2\r\nX-TWO: 3",
    "X-Two: 1\r\nX-Other: 2\r\nX-Two: 3",
    "X-Z: 1\r\nX-Y: 2\r\nX-X: 3\r\nX-W: 4",
    "Accept: a/b\r\nAccept: c/d",
    "TE: trailers",
    "TE: gzip",
    "Connection: keep-alive",
    "Connection: close",
    "Connection: keep-alive, X-Named\r\nX-Named: 1",
    "Keep-Alive: timeout=5",
    "Proxy-Connection: keep-alive",
    "Proxy-Authorization: Basic YTpi",
    "Proxy-Authenticate: Basic",
    "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk",
    "Upgrade: x\r\nConnection: upgrade",
    "X-Forwarded-For: 192.0.2.1",
    "X-Forwarded-Host: elsewhere.example",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Port: 1",
    "X-Forwarded-Prefix: /x",
    "Forwarded: for=192.0.2.1",
    "X-Real-IP: 192.0.2.1",
    "X-User-Sub: root",
    "Remote-User: root",
];

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

impl Case {
    fn new(kind: &str, method: &'static str, target: &str) -> Self {
        Self {
            name: format!("{kind} {method} {target}"),
            method,
            target: target.as_bytes().to_vec(),
            version: "HTTP/1.1",
            lines: Vec::new(),
            body: Body::None,
            script: Script::default(),
            h2: true,
        }
    }

    fn line(mut self, lines: &str) -> Self {
        self.name.push_str(&format!(" {lines:?}"));
        self.lines
            .extend(lines.split("\r\n").map(ToOwned::to_owned));
        self
    }

    fn body(mut self, body: Body) -> Self {
        self.name.push_str(&format!(" {body:?}"));
        self.name.truncate(120);
        self.body = body;
        self
    }

    fn answer(mut self, answer: impl AsRef<str>) -> Self {
        let answer = answer.as_ref();
        self.name.push_str(&format!(" answered {answer:?}"));
        self.script.answer = latin(answer);
        self
    }

    fn closed(mut self) -> Self {
        self.script.close = true;
        self
    }

    fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self.h2 = false;
        self
    }

    fn h1(mut self) -> Self {
        self.h2 = false;
        self
    }

    /// The request on the wire of HTTP/1.
    pub(crate) fn wire(&self, number: usize, first: &str) -> Vec<u8> {
        let mut wire = format!("{} ", self.method).into_bytes();
        wire.extend_from_slice(&self.target);
        wire.extend_from_slice(
            format!(" {}\r\n{first}X-Case: {number}\r\n", self.version).as_bytes(),
        );
        for line in &self.lines {
            wire.extend_from_slice(&latin(line));
            wire.extend_from_slice(b"\r\n");
        }
        match &self.body {
            Body::None => wire.extend_from_slice(b"\r\n"),
            Body::Length(body) => {
                wire.extend_from_slice(
                    format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(),
                );
                wire.extend_from_slice(body);
            }
            Body::Chunks(chunks, trailers) => {
                wire.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in chunks {
                    let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
                    wire.extend_from_slice(chunk.as_bytes());
                }
                wire.extend_from_slice(b"0\r\n");
                for trailer in *trailers {
                    wire.extend_from_slice(format!("{trailer}\r\n").as_bytes());
                }
                wire.extend_from_slice(b"\r\n");
            }
        }
        wire
    }
}

/// Letters below 256 as the bytes that they are.
pub(crate) fn latin(text: &str) -> Vec<u8> {
    let byte = |c| u8::try_from(u32::from(c)).unwrap();
    text.chars().map(byte).collect()
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let get = |kind: &str| Case::new(kind, "GET", "/a");
    let post = |kind: &str| Case::new(kind, "POST", "/a");
    cases.extend(
        METHODS
            .iter()
            .map(|method| Case::new("method", method, "/a")),
    );
    cases.extend(
        TARGETS
            .iter()
            .map(|target| Case::new("target", "GET", target)),
    );
    cases.push(Case::new("target", "OPTIONS", "*").h1());
    cases.push(Case::new("target", "GET", "/\u{e4}/\u{1f600}"));
    let long = format!("/{}?{}", "a".repeat(6000), "b".repeat(6000));
    let mut long = Case::new("target, long", "GET", &long);
    long.name.truncate(20);
    cases.push(long);
    cases.push(Case::new("target", "GET", "http://dev.localhost:9009/a?b").h1());
    cases.push(Case::new("target", "GET", "http://dev.localhost:9009").h1());
    for line in LINES {
        let case = get("line").line(line);
        let one_hop = [
            "TE: gzip",
            "Connection",
            "Keep-Alive",
            "Proxy-Conn",
            "Upgrade: ",
        ];
        let hop = one_hop.iter().any(|name| line.starts_with(name));
        cases.push(if hop { case.h1() } else { case });
    }
    let mut many = get("line, many");
    many.lines
        .extend((0..80).map(|n| format!("X-Many-{n}: {n}")));
    cases.push(many);
    let mut long = get("line, long");
    long.lines.push(format!("X-Long: {}", "a".repeat(20_000)));
    cases.push(long);

    let big: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    for method in [
        "POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS", "PROPFIND",
    ] {
        cases.push(Case::new("body", method, "/a").body(Body::Length(b"abc".to_vec())));
        cases.push(
            Case::new("body", method, "/a")
                .body(Body::Chunks(vec!["ab", "c"], &[]))
                .h1(),
        );
    }
    cases.push(post("body").body(Body::Length(Vec::new())));
    cases.push(post("body").body(Body::Length(big)));
    cases.push(post("body").body(Body::Chunks(vec![], &[])).h1());
    let trailers = &["X-T: 1", "X-User-Sub: root"];
    let with_trailers = Body::Chunks(vec!["abc"], trailers);
    cases.push(post("body").line("Trailer: X-T").body(with_trailers).h1());
    let expects = post("expect").line("Expect: 100-continue");
    let mut expects = expects.body(Body::Length(b"abc".to_vec())).h1();
    expects.script.at_head = b"HTTP/1.1 100 Continue\r\n\r\n".to_vec();
    cases.push(expects.clone());
    expects.body = Body::Chunks(vec!["abc"], &[]);
    cases.push(expects);

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

    for lines in [
        "",
        "Connection: keep-alive",
        "Connection: close",
        "Accept: a/b",
    ] {
        let case = get("1.0").version("HTTP/1.0");
        cases.push(if lines.is_empty() {
            case
        } else {
            case.line(lines)
        });
    }
    cases.push(
        post("1.0")
            .version("HTTP/1.0")
            .body(Body::Length(b"abc".to_vec())),
    );
    for answer in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
    ] {
        cases.push(get("1.0").version("HTTP/1.0").answer(answer));
    }
    cases
}
