//! Requests over HTTP/2 that may be meant in two ways, and what becomes of each.

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// One thing to try.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) fields: Fields,
    /// Frames after the first HEADERS: flags and payload of DATA, or a block of trailers.
    pub(super) body: Vec<Part>,
    pub(super) expected: Expected,
}

pub(super) enum Part {
    Data(&'static [u8]),
    Trailers(Vec<(&'static [u8], &'static [u8])>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Nothing comes to the pod, and the client is answered so.
    Nothing(u16),
    /// Nothing comes to the pod, and the stream or connection ends with PROTOCOL_ERROR.
    Malformed,
    /// A head comes with this request line, and the connection to the pod breaks in its body.
    Cut(&'static str),
    /// One request comes, with this request line and body.
    Passed(&'static str, &'static [u8]),
}

use Expected::{Cut, Malformed, Nothing, Passed};

pub(super) struct Base {
    pub(super) host: String,
    pub(super) cookie: String,
}

impl Base {
    fn get(&self) -> Fields {
        self.with(&[])
    }

    /// A good request, with these in place of its own.
    fn with(&self, other: &[(&str, &[u8])]) -> Fields {
        let own: [(&str, &[u8]); 6] = [
            (":method", b"GET"),
            (":scheme", b"http"),
            (":path", b"/good"),
            (":authority", self.host.as_bytes()),
            ("cookie", self.cookie.as_bytes()),
            ("sec-fetch-site", b"same-origin"),
        ];
        let own = own.iter().map(|(name, value)| {
            let found = other.iter().find(|(n, _)| n == name);
            (
                name.as_bytes().to_vec(),
                found.map_or(*value, |(_, v)| v).to_vec(),
            )
        });
        own.collect()
    }

    fn without(&self, name: &str) -> Fields {
        let fields = self.get().into_iter();
        fields.filter(|(n, _)| n != name.as_bytes()).collect()
    }

    fn and(&self, more: &[(&[u8], &[u8])]) -> Fields {
        let more = more
            .iter()
            .map(|(name, value)| (name.to_vec(), value.to_vec()));
        self.get().into_iter().chain(more).collect()
    }
}

const PASSED: Expected = Passed("GET /good HTTP/1.1", b"");
const BAD: Expected = Nothing(400);

pub(super) fn cases(base: &Base) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name, fields: Fields, expected| {
        cases.push(Case {
            name,
            fields,
            body: Vec::new(),
            expected,
        });
    };
    case("a good request", base.get(), PASSED);
    // Pseudo-headers.
    for name in [":method", ":scheme", ":path", ":authority"] {
        let field = base.get().into_iter().find(|(n, _)| n == name.as_bytes());
        let (_, value) = field.unwrap();
        let mut twice = base.get();
        twice.insert(1, (name.into(), value.clone()));
        case("a pseudo-header twice", twice, Malformed);
        let mut late = base.without(name);
        late.push((name.into(), value));
        case("a pseudo-header after a header", late, Malformed);
    }
    for name in [":method", ":scheme", ":path"] {
        case("a pseudo-header left out", base.without(name), Malformed);
    }
    case("no authority and no host", base.without(":authority"), BAD);
    let mut unknown = base.get();
    unknown.insert(0, (b":nogoo9".to_vec(), b"x".to_vec()));
    case("a pseudo-header that there is not", unknown, Malformed);
    let mut answer = base.get();
    answer.insert(0, (b":status".to_vec(), b"200".to_vec()));
    case("a pseudo-header of answers", answer, Malformed);
    // Paths.
    let paths: [(&[u8], Expected); 17] = [
        (b"", Malformed),
        (b"good", Malformed),
        (b"http://evil.example/good", Malformed),
        (b"http:evil", Malformed),
        (b"*", BAD),
        (b"/a b", Malformed),
        (b"/a\r\nX-User-Sub: root", Malformed),
        (b"/a HTTP/1.1\r\nHost: evil\r\n\r\nGET /b", Malformed),
        (b"/a\nb", Malformed),
        (b"/a\0b", Malformed),
        (b"/a\tb", Malformed),
        (b"/a\x7fb", Malformed),
        (b"/a#b", Passed("GET /a HTTP/1.1", b"")),
        (
            b"//evil.example/a",
            Passed("GET //evil.example/a HTTP/1.1", b""),
        ),
        (b"/a%0d%0ab", Passed("GET /a%0d%0ab HTTP/1.1", b"")),
        (
            b"/a?b=http://c/d%20e",
            Passed("GET /a?b=http://c/d%20e HTTP/1.1", b""),
        ),
        (b"?a", BAD),
    ];
    for (path, expected) in paths {
        case("a path", base.with(&[(":path", path)]), expected);
    }
    // Methods.
    let methods: [(&[u8], Expected); 8] = [
        (b"", Malformed),
        (b"GET /x HTTP/1.1\r\nHost: evil\r\n\r\nGET", Malformed),
        (b"GE T", Malformed),
        (b"GET\r\n", Malformed),
        (b"GET\0", Malformed),
        (b"get", Passed("get /good HTTP/1.1", b"")),
        (b"PROPFIND", Passed("PROPFIND /good HTTP/1.1", b"")),
        (b"PRI", Passed("PRI /good HTTP/1.1", b"")),
    ];
    for (method, expected) in methods {
        case("a method", base.with(&[(":method", method)]), expected);
    }
    // Schemes.
    let schemes: [(&[u8], Expected); 5] = [
        (b"https", PASSED),
        (b"ftp", PASSED),
        (b"", PASSED),
        (b"http\r\nx: y", Malformed),
        (b"http://evil/?", Malformed),
    ];
    for (scheme, expected) in schemes {
        case("a scheme", base.with(&[(":scheme", scheme)]), expected);
    }
    // Whose it is.
    let host = base.host.clone().into_bytes();
    case(
        "host beside the same authority",
        base.and(&[(b"host", &host)]),
        PASSED,
    );
    case(
        "host beside another authority",
        base.and(&[(b"host", b"other.localhost:9009")]),
        BAD,
    );
    case(
        "two hosts",
        base.and(&[(b"host", &host), (b"host", &host)]),
        BAD,
    );
    let mut alone = base.without(":authority");
    alone.push((b"host".to_vec(), host.clone()));
    case("host alone", alone, PASSED);
    let user = [b"root@", host.as_slice()].concat();
    case(
        "an authority with a user",
        base.with(&[(":authority", &user)]),
        BAD,
    );
    let list = [host.as_slice(), b",evil"].concat();
    case(
        "an authority of two",
        base.with(&[(":authority", &list)]),
        Nothing(421),
    );
    let lines = [host.as_slice(), b"\r\nX: y"].concat();
    case(
        "an authority of two lines",
        base.with(&[(":authority", &lines)]),
        Malformed,
    );
    // CONNECT.
    let mut connect = base.with(&[(":method", b"CONNECT")]);
    connect.retain(|(name, _)| name != b":scheme" && name != b":path");
    case("CONNECT", connect, Nothing(405));
    let mut websocket = base.with(&[(":method", b"CONNECT")]);
    websocket.insert(1, (b":protocol".to_vec(), b"websocket".to_vec()));
    case("extended CONNECT", websocket, Malformed);
    let mut protocol = base.get();
    protocol.insert(1, (b":protocol".to_vec(), b"websocket".to_vec()));
    case(":protocol without CONNECT", protocol, Malformed);
    // Values and names.
    for value in [
        &b"a\r\nx-user-sub: root"[..],
        b"a\nb",
        b"a\rb",
        b"a\0b",
        b"a\x7fb",
    ] {
        case("a value", base.and(&[(b"x-a", value)]), Malformed);
    }
    for name in [
        &b"X-Upper"[..],
        b"x a",
        b"x:a",
        b"x-a: b\r\nx-b",
        b"x\0",
        b"",
        b"x\xff",
    ] {
        case("a name", base.and(&[(name, b"b")]), Malformed);
    }
    // What concerns one connection only.
    let connection: [(&[u8], &[u8]); 6] = [
        (b"connection", b"x-user-sub"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"websocket"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"keep-alive"),
        (b"te", b"gzip"),
    ];
    for field in connection {
        case("a field of one connection", base.and(&[field]), Malformed);
    }
    case("te: trailers", base.and(&[(b"te", b"trailers")]), PASSED);
    case(
        "http2-settings",
        base.and(&[(b"http2-settings", b"AAMAAABk")]),
        PASSED,
    );
    // Who they are.
    for name in [
        &b"x-user-sub"[..],
        b"x-user-roles",
        b"x-forwarded-user",
        b"x-user_sub",
        b"forwarded",
    ] {
        case("a claim", base.and(&[(name, b"root")]), PASSED);
    }
    bodies(base, cases)
}

fn bodies(base: &Base, mut cases: Vec<Case>) -> Vec<Case> {
    let post = |more: &[(&'static [u8], &'static [u8])]| {
        let mut fields = base.with(&[(":method", b"POST")]);
        fields.extend(
            more.iter()
                .map(|(name, value)| (name.to_vec(), value.to_vec())),
        );
        fields
    };
    let mut case = |name, more: &[(&'static [u8], &'static [u8])], body, expected| {
        cases.push(Case {
            name,
            fields: post(more),
            body,
            expected,
        });
    };
    const LINE: &str = "POST /good HTTP/1.1";
    const SMUGGLED: &[u8] = b"0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n";
    const CHUNKED: &[u8] = b"27\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n\r\n0\r\n\r\n";
    let cl =
        |value: &'static [u8]| -> (&'static [u8], &'static [u8]) { (b"content-length", value) };
    case(
        "a body of known length",
        &[cl(b"3")],
        vec![Part::Data(b"abc")],
        Passed(LINE, b"abc"),
    );
    case(
        "a body like chunks",
        &[],
        vec![Part::Data(SMUGGLED)],
        Passed(LINE, CHUNKED),
    );
    case(
        "a body like chunks, of known length",
        &[cl(b"39")],
        vec![Part::Data(SMUGGLED)],
        Passed(LINE, SMUGGLED),
    );
    case(
        "more than was said",
        &[cl(b"3")],
        vec![Part::Data(b"abcdef")],
        Cut(LINE),
    );
    case(
        "less than was said",
        &[cl(b"6")],
        vec![Part::Data(b"abc")],
        Cut(LINE),
    );
    case(
        "less, and nothing, than was said",
        &[cl(b"6")],
        vec![],
        Malformed,
    );
    case(
        "two lengths",
        &[cl(b"3"), cl(b"6")],
        vec![Part::Data(b"abc")],
        Malformed,
    );
    for length in [&b"+3"[..], b"-3", b"3, 6", b"0x3", b"3 3", b"3\t", b""] {
        case(
            "a length",
            &[cl(length)],
            vec![Part::Data(b"abc")],
            Malformed,
        );
    }
    let trailers: Vec<(&'static [u8], &'static [u8])> = vec![
        (b"content-length", b"99"),
        (b"transfer-encoding", b"chunked"),
        (b"host", b"evil"),
        (b"x-user-sub", b"root"),
        (b"x-trailer", b"yes"),
    ];
    case(
        "trailers that claim",
        &[],
        vec![Part::Data(b"abc"), Part::Trailers(trailers)],
        Cut(LINE),
    );
    case(
        "trailers that claim, and none of one connection",
        &[],
        vec![
            Part::Data(b"abc"),
            Part::Trailers(vec![(b"host", b"evil"), (b"x-user-sub", b"root")]),
        ],
        Passed(LINE, b"3\r\nabc\r\n0\r\n\r\n"),
    );
    case(
        "a pseudo-header in trailers",
        &[],
        vec![
            Part::Data(b"abc"),
            Part::Trailers(vec![(b":path", b"/evil")]),
        ],
        Passed(LINE, b"3\r\nabc\r\n0\r\n\r\n"),
    );
    cases
}
