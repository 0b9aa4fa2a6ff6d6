//! What makes a request one for a WebSocket, and what is wrong with some of them (RFC 6455, section
//! 4.2.1). Pure.

use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Method, Version};
use pingora::http::RequestHeader;

/// The version that we know the frames of.
pub const VERSION: &str = "13";
/// Where a request says its version, and a refusal ours.
pub const SEC_WEBSOCKET_VERSION: &str = "sec-websocket-version";

/// Why a request for a WebSocket is none that a pod could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No key, or several.
    Key,
    /// No version, several, or another one than 13.
    Version,
    /// It announces a body: bytes of it would stand where frames are expected.
    Body,
}

/// Whether a request asks for a WebSocket and nothing else. `Upgrade: x` alone is no reason to treat
/// a request in any other way: it goes on as a request without it (RFC 9110, section 7.8).
#[must_use]
pub fn wants_websocket(request: &RequestHeader) -> bool {
    let mut upgrades = request.headers.get_all(UPGRADE).iter();
    let (Some(upgrade), None) = (upgrades.next(), upgrades.next()) else {
        return false;
    };
    request.method == Method::GET
        && request.version == Version::HTTP_11
        && upgrade.as_bytes().eq_ignore_ascii_case(b"websocket")
        && has_token(request.headers.get_all(CONNECTION).iter(), "upgrade")
}

/// What is wrong with a request that [`wants_websocket`]; `body`: whether it announces one.
#[must_use]
pub fn fault(request: &RequestHeader, body: bool) -> Option<Fault> {
    let only = |name: &str| {
        let mut values = request.headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none())
    };
    if only(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        Some(Fault::Version)
    } else if only("sec-websocket-key").is_none() {
        Some(Fault::Key)
    } else if body {
        Some(Fault::Body)
    } else {
        None
    }
}

fn has_token<'a>(mut values: impl Iterator<Item = &'a HeaderValue>, token: &str) -> bool {
    values.any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',')
                .any(|one| one.trim().eq_ignore_ascii_case(token))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: [(&str, &str); 4] = [
        ("upgrade", "WebSocket"),
        ("connection", "keep-alive, Upgrade"),
        ("sec-websocket-key", "x"),
        ("sec-websocket-version", "13"),
    ];

    fn request(headers: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/socket?x=1", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    fn with(name: &str, value: Option<&'static str>) -> RequestHeader {
        let mut headers = FULL.to_vec();
        headers.retain(|header| header.0 != name || value.is_some());
        for header in &mut headers {
            if let Some(value) = value.filter(|_| header.0 == name) {
                header.1 = value;
            }
        }
        request(&headers)
    }

    #[test]
    fn only_exactly_websocket() {
        assert!(wants_websocket(&request(&FULL)));
        for (name, value) in [
            ("upgrade", Some("x")),
            ("upgrade", Some("h2c, websocket")),
            ("upgrade", None),
            ("connection", Some("keep-alive")),
            ("connection", None),
        ] {
            assert!(!wants_websocket(&with(name, value)), "{name}: {value:?}");
        }
        let twice = [FULL[0], FULL[0], FULL[1], FULL[2], FULL[3]];
        assert!(!wants_websocket(&request(&twice)), "two of them");
        let mut other = request(&FULL);
        other.set_version(Version::HTTP_10);
        assert!(!wants_websocket(&other), "HTTP/1.0 knows no upgrade");
        let mut other = request(&FULL);
        other.set_method(Method::POST);
        assert!(!wants_websocket(&other), "POST");
    }

    #[test]
    fn faults() {
        assert_eq!(fault(&request(&FULL), false), None);
        assert_eq!(fault(&request(&FULL), true), Some(Fault::Body));
        for version in [None, Some("8"), Some("13, 8"), Some("")] {
            let request = with("sec-websocket-version", version);
            assert_eq!(fault(&request, false), Some(Fault::Version), "{version:?}");
        }
        let request_without = with("sec-websocket-key", None);
        assert_eq!(fault(&request_without, false), Some(Fault::Key));
        let twice = [FULL[0], FULL[1], FULL[2], FULL[2], FULL[3]];
        assert_eq!(fault(&request(&twice), false), Some(Fault::Key));
    }
}
