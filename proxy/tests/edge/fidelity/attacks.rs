//! Requests that one reader takes for this and another for that, and what becomes of each.

/// What becomes of a request.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// The client gets that status, the connection ends, the pod sees nothing.
    Refused(u16),
    /// The pod gets a request of that line, with those lines among it and that body as it is on the
    /// wire, and then the last one.
    Served(&'static str, &'static str, &'static str),
    /// As that, and nothing behind it counts: its end might be another to others.
    Alone(&'static str, &'static str, &'static str),
    /// As far as it makes sense the pod gets it, and never an end of it; the client gets 400.
    Broken,
    /// Not to the pod, but to be answered: that status, and the last one is served.
    Answered(u16),
}
use Fate::{Alone, Answered, Broken, Refused, Served};

/// `{in}` stands for the lines that let a request in, `{host}` for its host.
pub(super) const ATTACKS: &[(&str, Fate)] = &[
    // Both a length and a coding.
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}content-LENGTH: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\n{in}\r\n",
        Refused(400),
    ),
    // Codings.
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding:\tchunked \r\n\r\n2\r\nab\r\n0\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}TRANSFER-ENCODING: Chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "TRANSFER-ENCODING: Chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked;x=y\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding:\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}X: y\0Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.0\r\n{in}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    // Lengths.
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2\r\n\r\nab",
        Served("POST /x HTTP/1.1", "Content-Length: 2\r\n", "ab"),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length:   2 \t\r\n\r\nab",
        Served("POST /x HTTP/1.1", "Content-Length: 2\r\n", "ab"),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2, 2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2, 3\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: +2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: -2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 0x2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2 2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2;\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2.0\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: \"2\"\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length:\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 18446744073709551618\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 99999999999999999999999999\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length : 2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length\0: 2\r\n\r\nab",
        Refused(400),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Content-Length: 2\r\n Content-Length: 3\r\n\r\nab",
        Refused(400),
    ),
    // A body that looks like a request is a body.
    (
        "GET /x HTTP/1.1\r\n{in}Content-Length: 23\r\n\r\nGET /smuggled HTTP/1.1\n",
        Served(
            "GET /x HTTP/1.1",
            "Content-Length: 23\r\n",
            "GET /smuggled HTTP/1.1\n",
        ),
    ),
    (
        "HEAD /x HTTP/1.1\r\n{in}Content-Length: 2\r\n\r\nab",
        Served("HEAD /x HTTP/1.1", "Content-Length: 2\r\n", "ab"),
    ),
    // Without a length there is no body, and what follows is a request of its own, by nobody.
    (
        "POST /x HTTP/1.1\r\n{in}\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n",
        Served("POST /x HTTP/1.1", "", ""),
    ),
    (
        "DELETE /x HTTP/1.1\r\n{in}Transfer_Encoding: chunked\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n",
        Served("DELETE /x HTTP/1.1", "Transfer_Encoding: chunked\r\n", ""),
    ),
    // Chunks.
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0;c\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2 ;a=\"\r\nab\r\n000\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    // Read in one way, and passed on so that there is but one.
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\nab\r\n0\r\n\r\n",
        Alone(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        Alone(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "0\r\n\r\n",
        ),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nab\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\rab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n+2\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n 2\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2 2\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2_0\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\ng\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: y\r\r\n\r\n",
        Broken,
    ),
    // Trailers claim nothing.
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\nTrailer: X-User-Sub, Host\r\n\r\n2\r\nab\r\n0\r\nX-User-Sub: root\r\nHost: evil\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nCookie: a=evil\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    // Whose host?
    (
        "GET http://{host}/x HTTP/1.1\r\n{in}\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    (
        "GET HTTP://{host}?y HTTP/1.1\r\n{in}\r\n",
        Served("GET /?y HTTP/1.1", "", ""),
    ),
    (
        "GET http://other.localhost:9009/x HTTP/1.1\r\n{in}\r\n",
        Refused(400),
    ),
    (
        "GET http://localhost:9009/x HTTP/1.1\r\n{in}\r\n",
        Refused(400),
    ),
    (
        "GET http://{host}@localhost:9009/x HTTP/1.1\r\n{in}\r\n",
        Refused(400),
    ),
    ("GET http://x@{host}/x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET http:/x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET http:\\\\evil/x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET ftp://{host}/x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET ws://{host}/x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    (
        "GET http://{host}/x HTTP/1.1\r\nSec-Fetch-Site: none\r\n\r\n",
        Refused(400),
    ),
    ("GET /x HTTP/1.1\r\n{in}Host: {host}\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}Host: evil\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}hOST: evil\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nAccept: a/b\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost: evil@{host}\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost: {host}/y\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost: {host} evil\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost: \"{host}\"\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost : {host}\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n Host: {host}\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\nHost: {host}\0\r\n\r\n", Refused(400)),
    (
        "GET /x HTTP/1.1\r\nHost: {host}, evil\r\n\r\n",
        Refused(400),
    ),
    (
        "GET /x HTTP/1.1\r\nHost: {host},evil\r\n\r\n",
        Answered(421),
    ),
    (
        "GET /x HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        Answered(421),
    ),
    ("GET /x HTTP/1.1\r\nHost:\r\n\r\n", Answered(421)),
    (
        "GET /x HTTP/1.1\r\n{in}X-Forwarded-Host: evil\r\nForwarded: host=evil\r\n\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    // Lines and names.
    ("GET /x HTTP/1.1\n{in}\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X: y\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}\n", Refused(400)),
    ("\nGET /x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    (
        "\r\nGET /x HTTP/1.1\r\n{in}\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    ("GET /x HTTP/1.1\r\n{in}X: a\rb\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X: a\r\n b\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X: a\r\n\tb\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X: a\0b\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X: a\x7fb\r\n\r\n", Refused(400)),
    (
        "GET /x HTTP/1.1\r\n{in}X: a\tb\r\n\r\n",
        Served("GET /x HTTP/1.1", "X: a\tb\r\n", ""),
    ),
    ("GET /x HTTP/1.1\r\n{in}X y: a\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X(: a\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X\t: a\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}: a\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X\r\n\r\n", Refused(400)),
    ("GET /x HTTP/1.1\r\n{in}X\u{e4}: a\r\n\r\n", Refused(400)),
    // What `Connection` names goes, but for what is the edge's to say.
    (
        "GET /x HTTP/1.1\r\n{in}Connection: x-user-sub, x-user-roles, forwarded\r\n\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: x-a, x-forwarded-port\r\nX-A: 1\r\n\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Connection: content-length\r\nContent-Length: 2\r\n\r\nab",
        Served("POST /x HTTP/1.1", "", "2\r\nab\r\n0\r\n\r\n"),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        Served(
            "POST /x HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "2\r\nab\r\n0\r\n\r\n",
        ),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: x-forwarded-for\r\n\r\n",
        Refused(400),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: host\r\n\r\n",
        Refused(400),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: \"x-a\"\r\n\r\n",
        Refused(400),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: a,b,c,d,e,f,g,h,i,j,k,l\r\n\r\n",
        Refused(400),
    ),
    // Upgrades to what the edge does not speak are none.
    (
        "GET /x HTTP/1.1\r\n{in}Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nab",
        Served("POST /x HTTP/1.1", "Content-Length: 2\r\n", "ab"),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
        Served("GET /x HTTP/1.1", "", ""),
    ),
    (
        "GET /x HTTP/1.1\r\n{in}Upgrade: websocket\r\n\r\n",
        Alone("GET /x HTTP/1.1", "", ""),
    ),
    // Start lines.
    ("GET /x\r\n", Refused(400)),
    ("GET /x HTTP/0.9\r\n{in}\r\n", Refused(400)),
    ("GET /x HTTP/1.2\r\n{in}\r\n", Refused(400)),
    ("GET /x HTTP/2.0\r\n{in}\r\n", Refused(400)),
    ("GET /x HTTP/1.1x\r\n{in}\r\n", Refused(400)),
    ("GET /x http/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /x\tHTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET  /x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /x  HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /x HTTP/1.1 HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /x\r HTTP/1.1\r\n{in}\r\n", Refused(400)),
    (" GET /x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("G(T /x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    (
        "get /x HTTP/1.1\r\n{in}\r\n",
        Served("get /x HTTP/1.1", "", ""),
    ),
    ("GET /x#y HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET ?x HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET * HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /a`b HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /\u{e4} HTTP/1.1\r\n{in}\r\n", Refused(400)),
    ("GET /a<b> HTTP/1.1\r\n{in}\r\n", Refused(400)),
    (
        "OPTIONS * HTTP/1.1\r\n{in}\r\n",
        Served("OPTIONS * HTTP/1.1", "", ""),
    ),
    ("CONNECT {host} HTTP/1.1\r\n{in}\r\n", Refused(405)),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refused(400)),
    // Where to?
    ("GET /%2enogoo9/status HTTP/1.1\r\n{in}\r\n", Answered(400)),
    (
        "GET /a/../.nogoo9/status HTTP/1.1\r\n{in}\r\n",
        Answered(400),
    ),
    ("GET /.nogoo9\\status HTTP/1.1\r\n{in}\r\n", Answered(400)),
    (
        "GET /a%2F..%2F..//b HTTP/1.1\r\n{in}\r\n",
        Served("GET /a%2F..%2F..//b HTTP/1.1", "", ""),
    ),
];
