//! Pages of other origins that may call a workspace in their reader's name: those that it names in
//! `allow-origins`, and on the hosts of its extra ports those of its own host. Whose cookies count, what
//! their preflights are answered, and what they may read.

use super::{Extra, Gate, Opened, host_of, may_open};
use crate::reply::Reply;
use crate::route::{Mode, Place, Target};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderName, Method};
use nogoo9_identity::Authenticated;
use nogoo9_identity::origin::{allowed_origin, named_origin};
use nogoo9_model::UnixSeconds;
use nogoo9_model::origins::AllowedOrigins;
use pingora::http::RequestHeader;

/// How long a browser may remember what a preflight was answered, in seconds.
const REMEMBER: &str = "600";
/// Longest list of header names that a preflight may ask for, in bytes.
const MAX_NAMES: usize = 1024;

impl Gate {
    /// Who the session of a page of the workspace's own host belongs to, on the host of one of its extra
    /// ports. Since the rule looks at names alone, it tells nothing of what there is.
    pub(super) fn by_own_origin(
        &self,
        request: &RequestHeader,
        place: &Place<'_>,
        host: &str,
        now: UnixSeconds,
    ) -> Option<Authenticated> {
        let origin = self.own_origin(request, place.port.as_deref(), &place.id)?;
        let own = AllowedOrigins::parse(Some(origin));
        let proof = self
            .auth
            .authenticate_for(&request.method, &request.headers, host, &own, now);
        proof.ok().flatten()
    }

    /// The origin that a request to a host of an extra port names, if it is the workspace's own. The other
    /// way round, and between two ports, it is none: what runs on a port, a preview say, is not to drive the
    /// workspace, nor what other people may open.
    fn own_origin<'a>(
        &self,
        request: &'a RequestHeader,
        port: Option<&str>,
        id: &str,
    ) -> Option<&'a str> {
        port?;
        named_origin(&request.headers).filter(|origin| self.router.is_origin_of(origin, id))
    }

    /// Who the session of a page elsewhere belongs to that the workspace at `place` names, if they may
    /// open it. To whoever may not, the workspace is not there, and so is what it names. In path mode,
    /// where workspaces share a host, no page elsewhere is named.
    pub(super) fn by_named_origin(
        &self,
        request: &RequestHeader,
        place: &Place<'_>,
        host: &str,
        now: UnixSeconds,
    ) -> Option<Authenticated> {
        if place.mode == Mode::Path || !request.headers.contains_key(ORIGIN) {
            return None;
        }
        let route = self.table.get(&place.id)?.route();
        let proof = self.auth.authenticate_for(
            &request.method,
            &request.headers,
            host,
            &route.allow_origins,
            now,
        );
        let proof = proof.ok().flatten()?;
        let extra = Extra::find(&route, place.port.as_deref(), place.path).ok()?;
        may_open(&proof.verified, &route, place.mode, extra.as_ref()).then_some(proof)
    }

    /// The answer to a preflight (Fetch standard, section "CORS-preflight fetch") of a page that any
    /// workspace names, or, on the host of an extra port, of the workspace's own. Browsers send those
    /// without any proof of who is calling, so all places answer alike, whether or not there is a
    /// workspace, and no pod gets to see them. It lets a browser send the request itself, which is judged
    /// as any is, and whose answer no page can read by this.
    pub(super) fn preflight(&self, request: &RequestHeader, place: &Place<'_>) -> Option<Reply> {
        if place.mode == Mode::Path || request.method != Method::OPTIONS {
            return None;
        }
        preflight(request, self.any_reader(request, place)?)
    }

    /// The origin of another page that may read what the edge itself answers: that it is to sign in, or to
    /// come again. The rule is that of preflights, since the answer comes before it is known whether there
    /// is such a workspace, and must not tell.
    #[must_use]
    pub fn reader_of_ours<'a>(&self, request: &'a RequestHeader) -> Option<&'a str> {
        // First what costs nothing: most requests name none.
        if !request.headers.contains_key(ORIGIN) {
            return None;
        }
        match self.router.target(host_of(request), request.uri.path()) {
            Target::Workspace(place) if place.mode == Mode::Host => {
                self.any_reader(request, &place)
            }
            _ => None,
        }
    }

    /// The origin that a request names, if it is one that any workspace names, or, on the host of an extra
    /// port, that of the workspace's own.
    fn any_reader<'a>(&self, request: &'a RequestHeader, place: &Place<'_>) -> Option<&'a str> {
        let origin = named_origin(&request.headers)?;
        let own = self.own_origin(request, place.port.as_deref(), &place.id);
        (own.is_some() || self.table.names_origin(origin)).then_some(origin)
    }

    /// The origin of another page that sent the request, if the workspace lets it read the answer.
    #[must_use]
    pub fn reader(&self, request: &RequestHeader, opened: &Opened) -> Option<String> {
        if opened.mode == Mode::Path || !request.headers.contains_key(ORIGIN) {
            return None;
        }
        let by_host = opened.extra.as_ref().filter(|extra| extra.path.is_none());
        let port = by_host.map(|extra| &*extra.name);
        let route = opened.workspace.route();
        self.own_origin(request, port, &opened.workspace.id)
            .or_else(|| allowed_origin(&request.headers, &route.allow_origins))
            .map(ToOwned::to_owned)
    }
}

/// What a page of `origin` is answered, if that is a preflight.
fn preflight(request: &RequestHeader, origin: &str) -> Option<Reply> {
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
    fn what_a_preflight_is_answered() {
        const DOCS: &str = "https://docs.example.org";
        let docs = ("origin", DOCS);
        let put = ("access-control-request-method", "PUT");
        let names = ("access-control-request-headers", "content-type,x-csrf");
        let answered = preflight(&request("OPTIONS", &[docs, put, names]), DOCS).unwrap();
        let header = |name: &str| {
            let found = answered.headers.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(answered.status, 200);
        for (name, value) in [
            ("access-control-allow-origin", DOCS),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "PUT"),
            ("access-control-allow-headers", "content-type,x-csrf"),
        ] {
            assert_eq!(header(name), Some(value));
        }
        assert!(header("vary").unwrap().starts_with("Origin"));
        for headers in [
            vec![docs],
            vec![docs, ("access-control-request-method", "P T")],
        ] {
            let request = request("OPTIONS", &headers);
            assert_eq!(preflight(&request, DOCS), None, "{headers:?}");
        }
        let odd = ("access-control-request-headers", "a b, c");
        let answered = preflight(&request("OPTIONS", &[docs, put, odd]), DOCS).unwrap();
        assert!(!answered.headers.iter().any(|(_, value)| value == odd.1));
    }
}
