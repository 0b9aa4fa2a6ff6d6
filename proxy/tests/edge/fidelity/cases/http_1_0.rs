//! Requests of HTTP/1.0, and what they are answered with.

use super::{Body, Case};

pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let get = |kind: &str| Case::new(kind, "GET", "/a");
    let post = |kind: &str| Case::new(kind, "POST", "/a");
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
