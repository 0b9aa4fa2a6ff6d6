//! What a proxy asks about the sessions that it holds: do they go on, and by which tokens. Not
//! reachable from outside. Each session is proven by its own token, verified here anew, so nothing
//! rests on who is asking.

use super::Login;
use super::renew::Renewal;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::join_all;
use nogoo9_identity::TokenError;
use nogoo9_model::renew::{Answer, Answers, Held, MOST, Question, VERSION};
use std::sync::Arc;

/// Largest question, in bytes: [`MOST`] tokens with their hosts.
pub(super) const MAX_BODY: usize = 256 * 1024;

/// `POST /.nogoo9/renew`
pub(super) async fn renew(
    State(login): State<Arc<Login>>,
    question: Result<Json<Question>, JsonRejection>,
) -> Response {
    let question = match question {
        Ok(Json(question)) if question.sessions.len() <= MOST => question,
        Ok(_) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(rejection) => return rejection.status().into_response(),
    };
    let answers = question.sessions.iter().map(|held| answer(&login, held));
    let answers = Answers {
        version: VERSION,
        answers: join_all(answers).await,
    };
    ([(header::CACHE_CONTROL, "no-store")], Json(answers)).into_response()
}

async fn answer(login: &Arc<Login>, held: &Held) -> Answer {
    let verified = match login.verify(&held.token, &held.host) {
        Ok(verified) => verified,
        // Signed by a key that another control has just made.
        Err(TokenError::UnknownKey | TokenError::KeysUnavailable) => return Answer::Unknown,
        Err(_) => return Answer::Refused,
    };
    if verified.fresh_until.is_none() {
        // One of an earlier version counts until it ends, and has no record.
        return Answer::Unknown;
    }
    match login.renew(&verified).await {
        Renewal::Renewed(session) => {
            let now = login.now();
            let signed = login.signer().sign_session(&session, &held.host, now);
            match signed {
                Ok(token) => Answer::Renewed {
                    token,
                    fresh_until: session.fresh_until.unwrap_or(session.expires),
                    ends: session.expires,
                },
                Err(error) => {
                    tracing::error!(%error, "a renewed session could not be signed");
                    Answer::Unknown
                }
            }
        }
        Renewal::Refused(_) => Answer::Refused,
        Renewal::Unknown => Answer::Unknown,
    }
}
