//! Pages of other origins that a workspace names in `allow-origins`: whose cookies count, what their
//! preflights are answered, and what they may read.

use super::{Gate, Opened};
use crate::reply::Reply;
use crate::route::{Mode, Place};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderName, Method};
use nogoo9_identity::origin::allowed_origin;
use nogoo9_model::origins::AllowedOrigins;
use pingora::http::RequestHeader;

/// How long a browser may remember what a preflight was answered, in seconds.
const REMEMBER: &str = "600";
/// Longest list of header names that a preflight may ask for, in bytes.
const MAX_NAMES: usize = 1024;

impl Gate {
    /// Whose pages may use sessions at `place`. In path mode nobody's: there workspaces share a host.
    pub(super) fn allowed_origins(
        &self,
        request: &RequestHeader,
        place: &Place<'_>,
    ) -> AllowedOrigins {
        if place.mode == Mode::Path || !request.headers.contains_key(ORIGIN) {
            return AllowedOrigins::NONE;
        }
        let known = self.table.get(&place.id);
        known.map_or(AllowedOrigins::NONE, |workspace| {
            workspace.route().allow_origins.clone()
        })
    }

    /// The origin of another page that sent the request, if the workspace lets it read the answer.
    #[must_use]
    pub fn reader(&self, request: &RequestHeader, opened: &Opened) -> Option<String> {
        if opened.mode == Mode::Path || !request.headers.contains_key(ORIGIN) {
            return None;
        }
        let route = opened.workspace.route();
        allowed_origin(&request.headers, &route.allow_origins).map(ToOwned::to_owned)
    }
}

/// The answer to a preflight of a page of an `allowed` origin (Fetch standard, section "CORS-preflight
/// fetch"). Browsers send those without any proof of who is calling, so no pod gets to see them.
pub(super) fn preflight(request: &RequestHeader, allowed: &AllowedOrigins) -> Option<Reply> {
    if request.method != Method::OPTIONS {
        return None;
    }
    let origin = allowed_origin(&request.headers, allowed)?;
    let text = |name: &HeaderName| request.headers.get(name)?.to_str().ok();
    let method = text(&ACCESS_CONTROL_REQUEST_METHOD)?;
    let method: Method = method.parse().ok()?;
    let reply = Reply::empty()
        .with(ACCESS_CONTROL_ALLOW_ORIGIN.as_str(), origin)
        .with(ACCESS_CONTROL_ALLOW_CREDENTIALS.as_str(), "true")
        .with(ACCESS_CONTROL_ALLOW_METHODS.as_str(), method.as_str())
        .with(ACCESS_CONTROL_MAX_AGE.as_str(), REMEMBER)
        .with(
            VARY.as_str(),
            "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
        );
    let names = text(&ACCESS_CONTROL_REQUEST_HEADERS).filter(|names| are_names(names));
    Some(match names {
        Some(names) => reply.with(ACCESS_CONTROL_ALLOW_HEADERS.as_str(), names),
        None => reply,
    })
}

/// Whether that is a list of header names and nothing else.
fn are_names(list: &str) -> bool {
    let is_name = |name: &str| HeaderName::from_bytes(name.trim().as_bytes()).is_ok();
    list.len() <= MAX_NAMES && list.split(',').all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build(method, b"/", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    #[test]
    fn preflights_of_allowed_origins_alone_are_answered() {
        let allowed = AllowedOrigins::parse(Some("https://docs.example.org"));
        let docs = ("origin", "https://docs.example.org");
        let put = ("access-control-request-method", "PUT");
        let names = ("access-control-request-headers", "content-type,x-csrf");
        let answered = preflight(&request("OPTIONS", &[docs, put, names]), &allowed).unwrap();
        let header = |name: &str| {
            let found = answered.headers.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(answered.status, 200);
        for (name, value) in [
            ("access-control-allow-origin", "https://docs.example.org"),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "PUT"),
            ("access-control-allow-headers", "content-type,x-csrf"),
        ] {
            assert_eq!(header(name), Some(value));
        }
        assert!(header("vary").unwrap().starts_with("Origin"));
        for (method, headers) in [
            ("OPTIONS", vec![docs]),
            ("GET", vec![docs, put]),
            ("OPTIONS", vec![put]),
            ("OPTIONS", vec![("origin", "https://evil.example.org"), put]),
            ("OPTIONS", vec![docs, docs, put]),
            (
                "OPTIONS",
                vec![docs, ("access-control-request-method", "P T")],
            ),
        ] {
            let request = request(method, &headers);
            assert_eq!(preflight(&request, &allowed), None, "{method} {headers:?}");
        }
        let odd = ("access-control-request-headers", "a b, c");
        let answered = preflight(&request("OPTIONS", &[docs, put, odd]), &allowed).unwrap();
        assert!(!answered.headers.iter().any(|(_, value)| value == odd.1));
        let none = AllowedOrigins::NONE;
        assert_eq!(preflight(&request("OPTIONS", &[docs, put]), &none), None);
    }
}
