//! Around every route: from where a request came is known to all that is done for it; a refusal has a
//! record in the audit trail; and from an address with too many forged credentials or failed sign-ins,
//! further ones get 429.
//!
//! What counts is let in before any of this is looked at, so nobody is limited who has a credential
//! that counts, whatever others at their address send.

use super::reply;
use super::resource::Lacks;
use crate::audit::{Seen, within};
use crate::login;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{StatusCode, header};
use nogoo9_runtime::audit::{Outcome, What};
use nogoo9_runtime::limit::{Failures, TooMany};
use std::sync::Arc;
use std::time::Instant;

/// What a proxy asks of its own accord begins with this. It tells itself what it refuses for that.
const OURS: &str = "/.nogoo9/";
/// The part of it that browsers ask.
const LOGIN: &str = "/.nogoo9/login";

/// The routes, watched. `failures` are those of one address that are too many; `None`: none are.
pub fn watched(router: Router, failures: Option<Arc<Failures>>) -> Router {
    router.layer(from_fn_with_state(failures, watch))
}

async fn watch(
    State(failures): State<Option<Arc<Failures>>>,
    mut request: Request,
    next: Next,
) -> Response {
    let seen = Arc::new(Seen::of(request.headers()));
    // Tools run in tasks of their own.
    request.extensions_mut().insert(Arc::clone(&seen));
    let path = request.uri().path();
    let asked_by_proxy = path.starts_with(OURS) && path != LOGIN;
    let response = within(Arc::clone(&seen), next.run(request)).await;
    if asked_by_proxy {
        return response;
    }
    let limited = failures.and_then(|failures| limit(&failures, &seen, response.status()));
    match limited {
        Some((Kind::SignIn, TooMany { seconds })) => login::too_many(&response, seconds),
        Some((Kind::Credential, TooMany { seconds })) => {
            tell(&seen, "too_many_failures");
            reply::too_many(seconds)
        }
        None => {
            if let Some(reason) = reason(&seen, &response) {
                tell(&seen, reason);
            }
            response
        }
    }
}

enum Kind {
    Credential,
    SignIn,
}

/// Counts what failed, if something did that counts, and says if there was too much of it.
fn limit(failures: &Failures, seen: &Seen, status: StatusCode) -> Option<(Kind, TooMany)> {
    let forged = seen.proof().and_then(|noted| noted.forged);
    let forged = forged.filter(|_| status == StatusCode::UNAUTHORIZED);
    let (kind, word) = match (seen.failed(), forged) {
        (Some(word), _) => (Kind::SignIn, word),
        (None, Some(word)) => (Kind::Credential, word),
        (None, None) => return None,
    };
    let verdict = failures.failed(seen.from()?, word, Instant::now());
    verdict.err().map(|too_many| (kind, too_many))
}

/// Why the request was refused, where nothing behind here has told it.
fn reason(seen: &Seen, response: &Response) -> Option<&'static str> {
    if seen.is_told() {
        return None;
    }
    let challenged = response.headers().contains_key(header::WWW_AUTHENTICATE);
    match response.status() {
        StatusCode::UNAUTHORIZED => {
            Some(seen.proof().map_or("no_credential", |proof| proof.reason))
        }
        StatusCode::FORBIDDEN if response.extensions().get::<Lacks>().is_some() => {
            Some("insufficient_scope")
        }
        StatusCode::FORBIDDEN => Some("forbidden"),
        StatusCode::BAD_REQUEST if challenged => Some("token_in_url"),
        _ => None,
    }
}

fn tell(seen: &Seen, reason: &'static str) {
    let who = seen.proof().and_then(|noted| noted.who.as_deref());
    seen.write(What::Request, who, None, Outcome::Refused(reason));
}
