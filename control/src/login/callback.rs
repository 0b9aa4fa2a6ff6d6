//! The end of a login: the provider sends the browser back, and the session begins.

use super::page::Trouble;
use super::params::Params;
use super::start::{again, cookie_name, trouble};
use super::{Login, reply};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use nogoo9_identity::code::{LoginState, new_nonce};
use nogoo9_identity::cookie;
use nogoo9_identity::policy::valid_sub;
use nogoo9_identity::session::Session;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// `GET /auth/callback`, with what the provider adds to our redirect URI (RFC 6749, section 4.1.2;
/// RFC 9207).
pub(super) async fn callback(
    State(login): State<Arc<Login>>,
    back: Params,
    headers: HeaderMap,
) -> Response {
    let Some((name, state)) = begun_here(&login, &headers, back.get("state")) else {
        return not_begun_here();
    };
    let spent = vec![login.config.cookies().delete(&name)];
    let again = again(&state.return_to);
    if back
        .get("iss")
        .is_some_and(|iss| iss != login.provider.issuer())
    {
        tracing::warn!("login answered by another issuer");
        return Trouble {
            title: "This answer is not from the identity provider",
            what: "Your browser came back from somewhere else than it was sent to.",
            todo: "Try again. If it happens again, tell your administrator.",
            detail: None,
            again: &again,
        }
        .answer(StatusCode::BAD_REQUEST, &spent);
    }
    if let Some(error) = back.get("error") {
        return refused(error, back.get("error_description"), &again, &spent);
    }
    let Some(code) = back.get("code").filter(|code| !code.is_empty()) else {
        return refused("no_code", None, &again, &spent);
    };
    let return_to = state.return_to.clone();
    match login.provider.arrive(code.to_owned(), state).await {
        Ok(arrival) => begin(&login, &arrival, &return_to, &again, spent),
        Err(error) => trouble(&error, &again, &spent),
    }
}

/// The login that a `state` belongs to, if this browser began it and not too long ago.
fn begun_here(
    login: &Login,
    headers: &HeaderMap,
    state: Option<&str>,
) -> Option<(String, LoginState)> {
    let state = state?;
    let name = cookie_name(login, state);
    let found = cookie::values(headers, &name)
        .filter_map(|token| login.codes.login(token, login.now()).ok())
        .find(|found| bool::from(found.state.as_bytes().ct_eq(state.as_bytes())))?;
    Some((name, found))
}

fn begin(
    login: &Login,
    arrival: &super::provider::Arrival,
    return_to: &str,
    again: &str,
    mut cookies: Vec<String>,
) -> Response {
    if !valid_sub(&arrival.sub) {
        tracing::warn!("login of a subject that cannot be used");
        return Trouble {
            title: "This account cannot be used here",
            what: "The identity provider's name for your account is empty, longer than 255 bytes, \
                   or has control characters in it.",
            todo: "Sign in with another account, or tell your administrator.",
            detail: Some("the ID token's 'sub' is not usable"),
            again,
        }
        .answer(StatusCode::FORBIDDEN, &cookies);
    }
    let now = login.now();
    let host = login.config.console_host();
    let session = new_nonce().map(|sid| Session {
        sub: arrival.sub.clone(),
        roles: login.policy.roles(&arrival.claims),
        sid,
        expires: now.saturating_add(login.config.session_ttl),
    });
    let token = session.map_err(|error| error.to_string()).and_then(|s| {
        login
            .signer
            .sign_session(&s, host, now)
            .map_err(|e| e.to_string())
    });
    match token {
        Ok(token) => {
            let names = login.config.cookies();
            cookies.push(names.set(names.session(), &token, login.config.session_ttl));
            tracing::info!(sub = %arrival.sub, "signed in");
            reply::redirect(return_to, &cookies)
        }
        Err(error) => {
            tracing::error!(error, "session not signed");
            Trouble {
                title: "Signing in did not work",
                what: "Your session could not be made.",
                todo: "Try again. If it happens again, tell your administrator what stands below.",
                detail: Some(&error),
                again,
            }
            .answer(StatusCode::INTERNAL_SERVER_ERROR, &cookies)
        }
    }
}

/// Nothing of the request is shown: it may be anybody's, and made to mislead.
fn not_begun_here() -> Response {
    Trouble {
        title: "This sign-in is over",
        what: "It was begun in another browser, more than ten minutes ago, or has been used \
               already.",
        todo: "Start again. Cookies must be allowed for this site.",
        detail: None,
        again: "/auth/login",
    }
    .answer(StatusCode::BAD_REQUEST, &[])
}

/// What the provider says when it lets nobody in (RFC 6749, section 4.1.2.1; OpenID Connect Core,
/// section 3.1.2.6).
fn refused(error: &str, description: Option<&str>, again: &str, spent: &[String]) -> Response {
    let (status, title, what, todo) = match error {
        "access_denied" => (
            StatusCode::FORBIDDEN,
            "You were not signed in",
            "The identity provider did not let you in, or you cancelled.",
            "Try again, perhaps with another account, or ask your administrator for access.",
        ),
        "login_required"
        | "interaction_required"
        | "account_selection_required"
        | "consent_required" => (
            StatusCode::FORBIDDEN,
            "The identity provider needs something from you",
            "It wants you to sign in, choose an account or give consent.",
            "Try again and follow what it asks for.",
        ),
        "temporarily_unavailable" | "server_error" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Signing in is not possible right now",
            "The identity provider has trouble of its own.",
            "Wait a moment and try again.",
        ),
        _ => (
            StatusCode::BAD_GATEWAY,
            "The identity provider refused this sign-in",
            "It does not accept the request, so something is not set up as it should be.",
            "Tell your administrator what stands below.",
        ),
    };
    let shown = |text: &str| {
        text.chars()
            .filter(|c| !c.is_control())
            .take(200)
            .collect::<String>()
    };
    let detail = match description {
        Some(description) => format!("{}: {}", shown(error), shown(description)),
        None => shown(error),
    };
    tracing::warn!(error = %shown(error), "login refused by the provider");
    Trouble {
        title,
        what,
        todo,
        detail: Some(&detail),
        again,
    }
    .answer(status, spent)
}
