//! The end of a login: the provider sends the browser back, and the session begins.

use super::page::Trouble;
use super::params::Params;
use super::renew::session;
use super::start::{again, cookie_name, trouble};
use super::{Login, reply};
use crate::audit;
use crate::cluster::ClusterError;
use crate::session::{SessionRecord, Step, surplus};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use nogoo9_identity::code::{LoginState, new_nonce};
use nogoo9_identity::cookie;
use nogoo9_identity::keys::KeyError;
use nogoo9_identity::policy::valid_sub;
use nogoo9_identity::seal::SealError;
use nogoo9_identity::session::SignError;
use nogoo9_runtime::audit::{Outcome, What};
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
        audit::not_signed_in(Outcome::Refused("state"));
        return not_begun_here();
    };
    let spent = vec![login.config.cookies().delete(&name)];
    let again = again(&state.return_to);
    if back
        .get("iss")
        .is_some_and(|iss| iss != login.provider.issuer())
    {
        audit::not_signed_in(Outcome::Refused("issuer"));
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
        Ok(arrival) => begin(&login, &arrival, &return_to, &again, spent).await,
        Err(error) => {
            audit::not_signed_in(error.outcome());
            trouble(&error, &again, &spent)
        }
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

async fn begin(
    login: &Login,
    arrival: &super::provider::Arrival,
    return_to: &str,
    again: &str,
    mut cookies: Vec<String>,
) -> Response {
    if !valid_sub(&arrival.sub) {
        audit::not_signed_in(Outcome::Refused("subject"));
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
    let error = match open_session(login, arrival).await {
        Ok((record, cookie)) => {
            cookies.push(cookie);
            let id = record.id();
            audit::write(What::SignIn, Some(&arrival.sub), Some(&id), Outcome::Ok);
            return reply::redirect(return_to, &cookies);
        }
        Err(error) => error,
    };
    tracing::error!(%error, "session not begun");
    let failed = Outcome::Failed("not_stored");
    audit::write(What::SignIn, Some(&arrival.sub), None, failed);
    let status = match &error {
        NotBegun::Stored(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let detail = error.to_string();
    Trouble {
        title: "Signing in did not work",
        what: "Your session could not be made.",
        todo: "Try again. If it happens again, tell your administrator what stands below.",
        detail: Some(&detail),
        again,
    }
    .answer(status, &cookies)
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
enum NotBegun {
    #[error(transparent)]
    Chance(#[from] KeyError),
    #[error(transparent)]
    Sealed(#[from] SealError),
    #[error(transparent)]
    Stored(#[from] ClusterError),
    #[error(transparent)]
    Signed(#[from] SignError),
}

/// Begins a session: its record, and its cookie on the console's host.
async fn open_session(
    login: &Login,
    arrival: &super::provider::Arrival,
) -> Result<(SessionRecord, String), NotBegun> {
    let now = login.now();
    let sid = new_nonce()?;
    let refresh = arrival.refresh.as_deref();
    let refresh = refresh
        .map(|token| login.keys.seal().seal(token, &sid))
        .transpose()?;
    let record = SessionRecord::begin(
        sid,
        arrival.sub.clone(),
        login.roles(&arrival.claims),
        refresh,
        &login.config.limits,
        now,
    );
    make_room(login, &record).await;
    login.cluster.create_session(&record).await?;
    let until = match record.step(&record.sub, now) {
        Step::Sign(until) => until,
        Step::Refuse(_) | Step::Refresh | Step::Wait => now,
    };
    let cookie = login.cookie(&session(&record, until), login.config.console_host())?;
    Ok((record, cookie))
}

/// Ends the oldest sessions of somebody who has too many, and forgets the oldest of those that have
/// ended. Failing that, there is one more for a while: nobody is kept out by it.
async fn make_room(login: &Login, record: &SessionRecord) {
    let mine = match login.cluster.sessions(Some(&record.sub)).await {
        Ok(mine) => mine,
        Err(error) => {
            tracing::warn!(%error, "sessions could not be counted");
            return;
        }
    };
    for oldest in surplus(mine, |stored| &stored.value, record.started) {
        match login.cluster.delete_session(&oldest).await {
            Ok(()) if !oldest.value.is_live(record.started) => {}
            Ok(()) => {
                let (sub, id) = (Some(record.sub.as_str()), oldest.value.id());
                audit::write(What::SessionDisplace, sub, Some(&id), Outcome::Ok);
            }
            Err(error) => tracing::warn!(%error, "a session too many could not be ended"),
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
    audit::not_signed_in(said(error));
    Trouble {
        title,
        what,
        todo,
        detail: Some(&detail),
        again,
    }
    .answer(status, spent)
}

/// The provider's error as the audit trail has it: a word of the standards, since anything else is the
/// browser's to choose.
fn said(error: &str) -> Outcome<'static> {
    const AWAY: [&str; 2] = ["server_error", "temporarily_unavailable"];
    const KNOWN: [&str; 11] = [
        "access_denied",
        "account_selection_required",
        "consent_required",
        "interaction_required",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "login_required",
        "no_code",
        "unauthorized_client",
        "unsupported_response_type",
    ];
    let find = |words: &[&'static str]| words.iter().copied().find(|word| *word == error);
    match find(&AWAY) {
        Some(word) => Outcome::Failed(word),
        None => Outcome::Refused(find(&KNOWN).unwrap_or("provider_error")),
    }
}
