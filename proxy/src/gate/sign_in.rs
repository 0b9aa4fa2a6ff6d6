//! Sending a browser to sign in, and back. The same for ids that exist and that do not.

use super::Gate;
use crate::reply::{Html, Reply};
use crate::route::{Mode, Place};
use http::StatusCode;
use http::header::{SET_COOKIE, VARY, WWW_AUTHENTICATE};
use nogoo9_identity::code::{is_nonce, new_nonce, nonce_hash};
use nogoo9_identity::{TokenError, challenge, cookie};
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
pub(crate) fn target(request: &RequestHeader) -> &str {
    request
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str)
}

/// What decides between a redirect to sign in, a 401 and an answer.
const VARIES: &str = "Accept, Authorization, Cookie, Origin, Sec-Fetch-Dest, Sec-Fetch-Mode, \
                      Sec-Fetch-Site, Upgrade, X-Requested-With";

impl Gate {
    /// What whoever does not navigate is told: scripts of pages, WebSockets, programs. A page that is
    /// told so leads its person to `signIn`, which comes back to the workspace; a redirect there
    /// would show the script a page of HTML in place of its answer.
    pub(super) fn unauthorized(
        &self,
        refused: Option<TokenError>,
        place: &Place<'_>,
        host: &str,
    ) -> Reply {
        let message = refused.map_or_else(
            || format!("Sign in at {} first, or send a bearer token.", self.console),
            |error| format!("The bearer token was refused: {error}."),
        );
        let sign_in = self.workspace_page(place, host);
        let body = serde_json::json!({
            "code": "unauthenticated", "message": message, "signIn": sign_in,
        });
        Reply::json(StatusCode::UNAUTHORIZED, &body)
            .with(
                WWW_AUTHENTICATE.as_str(),
                challenge::challenge(&self.challenge_at, refused, self.scope),
            )
            .with(VARY.as_str(), VARIES)
    }

    /// What a person is told who has sent a form and is not signed in: what was sent is not sent again by
    /// itself, and a redirect would lose it without a word.
    pub(super) fn signed_out(&self, place: &Place<'_>, host: &str) -> Reply {
        let reply = Reply::signed_out(&self.workspace_page(place, host));
        reply
            .with(
                WWW_AUTHENTICATE.as_str(),
                challenge::challenge(&self.challenge_at, None, self.scope),
            )
            .with(VARY.as_str(), VARIES)
    }

    /// The workspace's first page, which leads to sign in and back.
    fn workspace_page(&self, place: &Place<'_>, host: &str) -> String {
        let scheme = self.console.scheme();
        match place.mode {
            Mode::Host => format!("{scheme}://{host}/"),
            Mode::Path => format!("{scheme}://{host}/route/{}/", query(&place.id)),
        }
    }

    /// Sends a browser to sign in, and then to the path `back` of `host`.
    pub(super) fn sign_in(
        &self,
        request: &RequestHeader,
        mode: Mode,
        host: &str,
        back: &str,
    ) -> Reply {
        let origin = self.console.as_str().trim_end_matches('/');
        if !self.router.hands_over(mode) {
            let to = format!("{origin}/auth/login?return={}", query(back));
            return Reply::redirect(StatusCode::FOUND, to).with(VARY.as_str(), VARIES);
        }
        let names = self.auth.names();
        let kept = cookie::values(&request.headers, names.nonce()).find(|value| is_nonce(value));
        let nonce = match kept.map(ToOwned::to_owned).map_or_else(new_nonce, Ok) {
            Ok(nonce) => nonce,
            Err(error) => {
                tracing::error!(%error, "no nonce can be made");
                return Reply::unavailable(Html::Page, "Signing in is not possible at the moment.");
            }
        };
        let to = format!(
            "{origin}/auth/open?host={}&return={}&n={}",
            query(host),
            query(back),
            nonce_hash(&nonce)
        );
        let nonce = names.set(names.nonce(), &nonce, NONCE_LIFE);
        Reply::redirect(StatusCode::FOUND, to)
            .with(SET_COOKIE.as_str(), nonce)
            .with(VARY.as_str(), VARIES)
    }
}
