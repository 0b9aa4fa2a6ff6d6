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
use std::time::{Duration, Instant};

/// What a proxy asks of its own accord begins with this. It tells itself what it refuses for that.
const OURS: &str = "/.nogoo9/";
/// The part of it that browsers ask.
const LOGIN: &str = "/.nogoo9/login";

/// Where each request costs the identity provider one.
const CALLBACK: &str = "/auth/callback";
/// Longest wait for a place to ask it from.
const PLACE: Duration = Duration::from_secs(20);

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
    let place = match &failures {
        Some(failures) if path == CALLBACK => {
            tokio::time::timeout(PLACE, failures.place(seen.from())).await
        }
        _ => Ok(None),
    };
    let Ok(place) = place else {
        seen.write(
            What::SignIn,
            None,
            None,
            Outcome::Refused("too_many_failures"),
        );
        return login::too_many(&Response::default(), 1);
    };
    let response = within(Arc::clone(&seen), next.run(request)).await;
    drop(place);
    if asked_by_proxy {
        return response;
    }
    let limited = failures
        .as_ref()
        .and_then(|failures| limit(failures, &seen, response.status()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::not_signed_in;
    use axum::body::Body;
    use axum::routing::get;
    use nogoo9_runtime::limit::Counted;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::watch;
    use tower::ServiceExt as _;

    /// A sign-in whose code the provider refuses, once it may.
    #[derive(Clone)]
    struct Provider {
        asked: Arc<AtomicUsize>,
        may: watch::Sender<bool>,
    }

    async fn callback(State(provider): State<Provider>) -> StatusCode {
        provider.asked.fetch_add(1, Ordering::SeqCst);
        let mut may = provider.may.subscribe();
        may.wait_for(|may| *may).await.unwrap();
        not_signed_in(Outcome::Refused("provider_refused"));
        StatusCode::BAD_GATEWAY
    }

    #[tokio::test]
    async fn a_flood_of_made_up_codes_does_not_go_through_to_the_provider() {
        let provider = Provider {
            asked: Arc::default(),
            may: watch::Sender::new(true),
        };
        let failures = Failures::per_minute(1.try_into().unwrap(), Counted::default());
        let routes = Router::new()
            .route(CALLBACK, get(callback))
            .with_state(provider.clone());
        let router = watched(routes, Some(Arc::new(failures)));
        let send = |from: &str| {
            let request = Request::get(format!("{CALLBACK}?state=s&code=junk"));
            let request = request.header("x-forwarded-for", from);
            let request = request.body(Body::empty()).unwrap();
            let answer = router.clone().oneshot(request);
            tokio::spawn(async move { answer.await.unwrap().status() })
        };
        let asked = async |times: usize| {
            let asked = async {
                while provider.asked.load(Ordering::SeqCst) < times {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let patience = Duration::from_secs(15);
            tokio::time::timeout(patience, asked).await.expect("asked");
        };
        let (bad, good) = ("203.0.113.9", "203.0.113.10");
        assert_eq!(send(bad).await.unwrap(), StatusCode::BAD_GATEWAY);
        provider.may.send_replace(false);
        let flood: Vec<_> = (0..6).map(|_| send(bad)).collect();
        asked(3).await;
        // Nobody else waits for them, and they do wait.
        let others: Vec<_> = (0..6).map(|_| send(good)).collect();
        asked(9).await;
        assert_eq!(provider.asked.load(Ordering::SeqCst), 9);
        provider.may.send_replace(true);
        for answer in flood {
            assert_eq!(answer.await.unwrap(), StatusCode::TOO_MANY_REQUESTS);
        }
        let mut seen = Vec::new();
        for answer in others {
            seen.push(answer.await.unwrap().as_u16());
        }
        seen.sort_unstable();
        assert_eq!(seen, [429, 429, 429, 429, 429, 502]);
        assert_eq!(provider.asked.load(Ordering::SeqCst), 13);
    }
}
