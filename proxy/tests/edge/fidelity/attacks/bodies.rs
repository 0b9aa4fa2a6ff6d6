//! Bodies whose end may be read in two ways: lengths, codings, chunks and trailers.

use super::Attack;
use super::Fate::{Broken, Refused, Served};

pub(super) const ATTACKS: &[Attack] = &[
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
    // Some would read on, others see an end.
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\nab\r\n0\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n\r\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n0;e\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0;e\n\r\n",
        Broken,
    ),
    (
        "POST /x HTTP/1.1\r\n{in}Transfer-Encoding: chunked\r\n\r\n0\n\r\n",
        Broken,
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
];
