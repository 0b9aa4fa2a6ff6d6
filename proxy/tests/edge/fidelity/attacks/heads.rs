//! Heads that may be read in two ways: start lines, hosts, the lines behind them, and what `Connection`
//! makes of those.

use super::Attack;
use super::Fate::{Alone, Answered, Refused, Served};

pub(super) const ATTACKS: &[Attack] = &[
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
