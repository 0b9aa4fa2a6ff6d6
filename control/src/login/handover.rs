//! Hand-over of a session from the console's host to a workspace's.
//!
//! The proxy meets a browser without a session on a workspace's host, gives it a nonce cookie there
//! and sends it to `/auth/open` with the nonce's hash. There, on the console's host, the session is
//! known; it goes back with a code that is good for a minute, that host, and that nonce.

use super::page::Trouble;
use super::params::Params;
use super::renew::Kept;
use super::return_path::{MAX_LEN, safe_workspace_return};
use super::start::{again, encode};
use super::{Login, reply};
use crate::audit;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::Response;
use data_encoding::BASE64URL_NOPAD;
use nogoo9_identity::TokenError;
use nogoo9_identity::code::{Code, is_nonce};
use nogoo9_identity::cookie;
use nogoo9_identity::origin::cookie_counts;
use nogoo9_identity::session::{Freshness, Session};
use nogoo9_runtime::audit::{Outcome, What};
use std::sync::Arc;

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// `GET /auth/open?host=HOST&return=/path&n=HASH`, on the console's host.
pub(super) async fn open(
    State(login): State<Arc<Login>>,
    ask: Params,
    headers: HeaderMap,
) -> Response {
    let host = ask.get("host").unwrap_or_default();
    let hash = ask.get("n").unwrap_or_default();
    let return_to = safe_workspace_return(ask.get("return"));
    if !login.config.is_workspace_host(host) || !is_hash(hash) {
        return Trouble {
            title: "This link leads nowhere",
            what: "It names no address that a workspace can have here.",
            todo: "Open the workspace from the list on the console.",
            detail: None,
            again: "/",
        }
        .answer(StatusCode::BAD_REQUEST, &[]);
    }
    let Some((session, cookie)) = signed_in(&login, &headers).await else {
        let mut back = open_path(host, return_to, hash);
        if back.len() > MAX_LEN {
            back = open_path(host, "/", hash);
        }
        return reply::redirect(&again(&back), &[]);
    };
    let code = Code {
        host: host.to_owned(),
        nonce_hash: hash.to_owned(),
        session,
    };
    match login.signer().sign_code(&code, login.now()) {
        Ok(code) => {
            let scheme = login.config.public_url.scheme();
            let return_to = encode(return_to);
            let cookies: Vec<String> = cookie.into_iter().collect();
            reply::redirect(
                &format!("{scheme}://{host}/.nogoo9/login?code={code}&return={return_to}"),
                &cookies,
            )
        }
        Err(error) => {
            tracing::error!(%error, "hand-over code not signed");
            unmade(&error.to_string())
        }
    }
}

/// `GET /.nogoo9/login?code=…&return=/path`, on the workspace's host; the proxy, which alone can
/// reach us, says which in `X-Forwarded-Host`.
pub(super) async fn redeem(
    State(login): State<Arc<Login>>,
    ask: Params,
    headers: HeaderMap,
) -> Response {
    let return_to = safe_workspace_return(ask.get("return"));
    let code = ask.get("code").unwrap_or_default();
    let names = login.config.cookies();
    let now = login.now();
    let Some(host) = workspace_host(&login, &headers) else {
        return start_over(return_to);
    };
    let mut verdict = Err(TokenError::WrongNonce);
    for nonce in cookie::values(&headers, names.nonce()) {
        verdict = login.codes.redeem(code, host, nonce, now);
        if verdict.is_ok() {
            break;
        }
    }
    let session = match verdict {
        Ok(session) => session,
        // Another tab was faster: it used up the nonce that both share, and the session is there.
        Err(_) if on_host(&login, &headers, host) => return reply::redirect(return_to, &[]),
        // Tabs that began at the same instant were each given a nonce, and the browser kept the last:
        // this one begins anew, with that. A browser that keeps none would do so for ever.
        Err(TokenError::WrongNonce) if has_nonce(&headers, names.nonce()) => {
            return reply::redirect(return_to, &[]);
        }
        Err(error) => {
            let refused = Outcome::Refused(error.reason());
            audit::write(What::HandOver, None, Some(host), refused);
            return start_over(return_to);
        }
    };
    match login.cookie(&session, host) {
        Ok(cookie) => {
            audit::write(What::HandOver, Some(&session.sub), Some(host), Outcome::Ok);
            reply::redirect(return_to, &[cookie, names.delete(names.nonce())])
        }
        Err(error) => {
            tracing::error!(%error, "session not signed");
            unmade(&error.to_string())
        }
    }
}

/// The console's session as it may be handed over, and the cookie of its successor where it was
/// renewed: a workspace gets no token that counts for longer than one for the console would.
async fn signed_in(login: &Arc<Login>, headers: &HeaderMap) -> Option<(Session, Option<String>)> {
    let host = login.config.console_host();
    if !cookie_counts(&Method::GET, headers, host) {
        return None;
    }
    for token in cookie::values(headers, login.config.cookies().session()) {
        let Ok(found) = login.verify(token, host) else {
            continue;
        };
        let Some(sid) = found.sid.clone() else {
            continue;
        };
        let Kept::Counts {
            renewed, cookie, ..
        } = login.keep(&found).await
        else {
            continue;
        };
        let session = renewed.unwrap_or_else(|| Session {
            sub: found.caller.sub.clone(),
            roles: found.caller.roles.clone(),
            sid,
            expires: found.expires,
            fresh_until: found.fresh_until,
        });
        return Some((session, cookie));
    }
    None
}

/// Whether the browser has a session on this workspace's host already.
fn on_host(login: &Login, headers: &HeaderMap, host: &str) -> bool {
    let now = login.now();
    let counts = |token| {
        let found = login.sessions.verify(token, host, now).ok();
        found.is_some_and(|found| found.freshness(now) != Freshness::Stale)
    };
    cookie::values(headers, login.config.cookies().session()).any(counts)
}

/// Whether the browser has a nonce, whichever.
fn has_nonce(headers: &HeaderMap, name: &str) -> bool {
    cookie::values(headers, name).any(is_nonce)
}

/// The host that the browser asked, if it can be a workspace's.
fn workspace_host<'a>(login: &Login, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = if headers.contains_key(FORWARDED_HOST) {
        FORWARDED_HOST
    } else {
        header::HOST
    };
    let mut all = headers.get_all(name).iter();
    let (first, second) = (all.next()?, all.next());
    let host = first.to_str().ok().filter(|_| second.is_none())?;
    login
        .config
        .is_workspace_host(&host.to_ascii_lowercase())
        .then_some(host)
}

fn open_path(host: &str, return_to: &str, hash: &str) -> String {
    format!(
        "/auth/open?host={}&return={}&n={hash}",
        encode(host),
        encode(return_to)
    )
}

/// Base64url of a SHA-256.
fn is_hash(text: &str) -> bool {
    BASE64URL_NOPAD
        .decode(text.as_bytes())
        .is_ok_and(|bytes| bytes.len() == 32)
}

/// A page on the workspace's own host, so its link leads back to the page that was wanted, where the
/// proxy begins anew.
fn start_over(return_to: &str) -> Response {
    Trouble {
        title: "Opening the workspace took too long",
        what: "The link that signs you in here is good for one minute, once, and only in the \
               browser it was made for.",
        todo: "Start again. Cookies must be allowed for this site.",
        detail: None,
        again: return_to,
    }
    .answer(StatusCode::BAD_REQUEST, &[])
}

fn unmade(detail: &str) -> Response {
    Trouble {
        title: "Opening the workspace did not work",
        what: "Your session could not be handed over to it.",
        todo: "Try again. If it happens again, tell your administrator what stands below.",
        detail: Some(detail),
        again: "/",
    }
    .answer(StatusCode::INTERNAL_SERVER_ERROR, &[])
}
