//! Requests as applications get them: methods, targets, header lines, bodies.

use super::{Body, Case};

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

pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
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
    cases
}
