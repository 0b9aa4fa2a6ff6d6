//! Sending a browser to sign in, and back. The same for ids that exist and that do not.

use super::Gate;
use crate::reply::Reply;
use crate::route::Mode;
use http::StatusCode;
use http::header::SET_COOKIE;
use nogoo9_identity::code::{is_nonce, new_nonce, nonce_hash};
use nogoo9_identity::cookie;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pingora::http::RequestHeader;

/// Characters that stay as they are in a query value; `/` among them, for people's sake.
const QUERY_VALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');
/// How long a nonce cookie lives, in seconds: as long as a person may take to sign in.
const NONCE_LIFE: i64 = 600;

/// A query value.
pub(super) fn query(text: &str) -> String {
    utf8_percent_encode(text, QUERY_VALUE).to_string()
}

/// Path and query of a request.
pub(super) fn target(request: &RequestHeader) -> &str {
    request
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str)
}

impl Gate {
    /// Sends a browser to sign in, and then to the path `back` of `host`.
    pub(super) fn sign_in(
        &self,
        request: &RequestHeader,
        mode: Mode,
        host: &str,
        back: &str,
    ) -> Reply {
        let origin = self.console.as_str().trim_end_matches('/');
        if mode == Mode::Path {
            let to = format!("{origin}/auth/login?return={}", query(back));
            return Reply::redirect(StatusCode::FOUND, to);
        }
        let names = self.auth.names();
        let kept = cookie::values(&request.headers, names.nonce()).find(|value| is_nonce(value));
        let nonce = match kept.map(ToOwned::to_owned).map_or_else(new_nonce, Ok) {
            Ok(nonce) => nonce,
            Err(error) => {
                tracing::error!(%error, "no nonce can be made");
                return Reply::unavailable(true, "Signing in is not possible at the moment.");
            }
        };
        let to = format!(
            "{origin}/auth/open?host={}&return={}&n={}",
            query(host),
            query(back),
            nonce_hash(&nonce)
        );
        Reply::redirect(StatusCode::FOUND, to).with(
            SET_COOKIE.as_str(),
            names.set(names.nonce(), &nonce, NONCE_LIFE),
        )
    }
}
