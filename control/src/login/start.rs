//! The beginning of a login: to the provider, with what must be remembered in a cookie.

use super::Login;
use super::page::Trouble;
use super::params::Params;
use super::provider::ProviderError;
use super::reply;
use super::return_path::safe_return;
use crate::audit;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use nogoo9_identity::code::LOGIN_TTL;
use nogoo9_identity::cookie::{self, CookieNames};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Room for the cookies of logins begun and not ended, in bytes. Beyond it the oldest are given up,
/// lest the `Cookie` header outgrow what servers on the way accept (8 KiB with many).
const LOGINS_ROOM: usize = 6 * 1024;

/// `GET /auth/login?return=/path`
pub(super) async fn login(
    State(login): State<Arc<Login>>,
    params: Params,
    headers: HeaderMap,
) -> Response {
    let return_to = safe_return(params.get("return"));
    let departure = match login.provider.depart(return_to.to_owned()).await {
        Ok(departure) => departure,
        Err(error) => {
            audit::not_signed_in(error.outcome());
            return trouble(&error, &again(return_to), &[]);
        }
    };
    let names = login.config.cookies();
    let token = match login.signer().sign_login(&departure.state, login.now()) {
        Ok(token) => token,
        Err(error) => {
            tracing::error!(%error, "login state not signed");
            return trouble(&ProviderError::Setup(error.to_string()), &again("/"), &[]);
        }
    };
    let begun = names.set(
        &cookie_name(&login, &departure.state.state),
        &token,
        LOGIN_TTL,
    );
    let mut cookies = give_up_oldest(names, &headers, begun.len());
    cookies.push(begun);
    reply::redirect(departure.to.as_str(), &cookies)
}

/// The name of the cookie of the login with this `state`: one each, so that logins in parallel tabs
/// do not disturb each other.
pub(super) fn cookie_name(login: &Login, state: &str) -> String {
    let hash = Sha256::digest(state.as_bytes());
    let short = data_encoding::HEXLOWER.encode(hash.get(..8).unwrap_or_default());
    format!("{}{short}", login.config.cookies().login_prefix())
}

/// Where a login that leads to `return_to` begins.
pub(super) fn again(return_to: &str) -> String {
    format!("/auth/login?return={}", encode(return_to))
}

/// As a query value.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The page for a provider that was of no help.
pub(super) fn trouble(error: &ProviderError, again: &str, cookies: &[String]) -> Response {
    let detail = error.to_string();
    let (status, title, what, todo) = match error {
        ProviderError::Unreachable(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Signing in is not possible right now",
            "The identity provider does not answer. Workspaces that are open keep working.",
            "Wait a moment and try again.",
        ),
        ProviderError::Refused(_) => (
            StatusCode::BAD_GATEWAY,
            "The identity provider refused this sign-in",
            "It did not accept the code that it gave your browser.",
            "Try again. If it happens again, tell your administrator what stands below.",
        ),
        ProviderError::Unverified(_) => (
            StatusCode::BAD_GATEWAY,
            "This sign-in cannot be verified",
            "The identity provider's answer does not prove who you are.",
            "Try again. If it happens again, tell your administrator what stands below.",
        ),
        ProviderError::Setup(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Signing in is not set up correctly",
            "The settings of this installation do not fit the identity provider.",
            "Tell your administrator what stands below.",
        ),
    };
    tracing::warn!(%error, "login failed at the provider");
    Trouble {
        title,
        what,
        todo,
        detail: Some(&detail),
        again,
    }
    .answer(status, cookies)
}

/// Deletes the oldest login cookies of this browser until one more of `needed` bytes has room.
fn give_up_oldest(names: CookieNames, headers: &HeaderMap, needed: usize) -> Vec<String> {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    // Browsers list older cookies first (RFC 6265, section 5.4).
    let begun: Vec<(&str, &str)> = cookie::pairs(headers)
        .filter(|(name, _)| name.starts_with(names.login_prefix()) && name.bytes().all(safe))
        .collect();
    let size = |(name, value): &(&str, &str)| name.len() + value.len();
    let mut total = begun.iter().map(size).sum::<usize>().saturating_add(needed);
    let mut given_up = Vec::new();
    for pair in &begun {
        if total <= LOGINS_ROOM {
            break;
        }
        total = total.saturating_sub(size(pair));
        given_up.push(names.delete(pair.0));
    }
    given_up
}
