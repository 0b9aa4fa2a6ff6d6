//! When a cookie may speak for its user.
//!
//! A browser attaches cookies by itself, whoever caused the request. Workspaces are siblings under
//! one domain, thus "same-site" to each other, and `SameSite=Lax` does not part them: a page in one
//! workspace could reach into another. So the cookie counts only where the browser vouches that the
//! request came from the host's own pages, or is a person's navigation.

use http::header::{HOST, HeaderName, ORIGIN, UPGRADE};
use http::{HeaderMap, Method};
use nogoo9_model::origins::AllowedOrigins;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Whether the cookie of a request to `host` (with its port, as in `Host`) counts.
///
/// - `Sec-Fetch-Site: same-origin` or `none`: yes.
/// - Any other `Sec-Fetch-Site`: only a GET or HEAD that navigates to a document.
/// - Without it (old browsers, plain-http hosts, programs): an `Origin`, if there is one, must be
///   this host's, and upgrades and unsafe methods must have one.
#[must_use]
pub fn cookie_counts(method: &Method, headers: &HeaderMap, host: &str) -> bool {
    let safe = matches!(*method, Method::GET | Method::HEAD);
    let upgrade = headers.contains_key(UPGRADE) || *method == Method::CONNECT;
    if headers.contains_key(SEC_FETCH_SITE) {
        return match only(headers, &SEC_FETCH_SITE) {
            Some("same-origin" | "none") => true,
            _ => {
                safe && !upgrade
                    && only(headers, &SEC_FETCH_MODE) == Some("navigate")
                    && only(headers, &SEC_FETCH_DEST) == Some("document")
            }
        };
    }
    if headers.contains_key(ORIGIN) {
        return only(headers, &ORIGIN).is_some_and(|origin| is_origin_of(origin, host));
    }
    (safe || *method == Method::OPTIONS) && !upgrade
}

/// The origin that the request names, if it is one of `allowed`. For such a page the cookie counts as
/// for the host's own: the browser writes `Origin`, and no page can change it.
#[must_use]
pub fn allowed_origin<'a>(headers: &'a HeaderMap, allowed: &AllowedOrigins) -> Option<&'a str> {
    if allowed.is_empty() {
        return None;
    }
    named_origin(headers).filter(|origin| allowed.contains(origin))
}

/// The `Origin` header, if there is exactly one.
#[must_use]
pub fn named_origin(headers: &HeaderMap) -> Option<&str> {
    only(headers, &ORIGIN)
}

/// The `Host` header, if there is exactly one.
#[must_use]
pub fn host(headers: &HeaderMap) -> Option<&str> {
    only(headers, &HOST)
}

/// Whether an `Origin` header's value is a page of `host`.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let rest = origin
        .strip_prefix("https://")
        .or_else(|| origin.strip_prefix("http://"));
    rest.is_some_and(|authority| !authority.is_empty() && authority.eq_ignore_ascii_case(host))
}

/// A header's value if it occurs once; an ambiguous request is nobody's.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    if all.next().is_some() {
        None
    } else {
        first.to_str().ok()
    }
}

#[cfg(test)]
mod tests;
