//! The sign-in form and signing out.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    IdpError, Provider, authorize::AuthorizeRequest, authorize::send_back, grants::Grant,
    http::parameters, now, page, random, scope, users,
};

/// Kind of the token that carries a request through the form.
const FORM_TYPE: &str = "nogoo9-sign-in+jwt";
/// Its audience, which no other token has.
const FORM_AUDIENCE: &str = "urn:nogoo9:sign-in";
/// How long a sign-in page may stay open, seconds.
const FORM_LIFE: i64 = 3600;

#[derive(Debug, Serialize, Deserialize)]
struct Form {
    iss: String,
    aud: String,
    exp: i64,
    request: AuthorizeRequest,
}

/// The request, signed: the form can be posted only as this provider made it.
pub(super) fn seal(p: &Provider, request: &AuthorizeRequest, now: i64) -> Result<String, IdpError> {
    let form = Form {
        iss: p.issuer.clone(),
        aud: FORM_AUDIENCE.to_owned(),
        exp: now.saturating_add(FORM_LIFE),
        request: request.clone(),
    };
    p.key.sign(FORM_TYPE, &form)
}

pub(super) async fn sign_in(
    State(p): State<Arc<Provider>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let refuse = |status, text: &str| (status, page::refusal(text)).into_response();
    if !same_origin(&p.issuer, &headers) {
        return refuse(StatusCode::FORBIDDEN, "This form was sent by another site.");
    }
    let form = parameters(&body).unwrap_or_default();
    let sealed = form.get("request").map_or("", String::as_str);
    let Some(Form { request, .. }) =
        p.key
            .verify::<Form>(FORM_TYPE, &p.issuer, FORM_AUDIENCE, sealed)
    else {
        let text = "This sign-in page is too old. Go back to the application and start again.";
        return refuse(StatusCode::BAD_REQUEST, text);
    };
    if form.contains_key(page::DENY) {
        let answer = [("error", "access_denied")];
        return send_back(&p, &request.redirect_uri, request.state.as_deref(), &answer);
    }
    let Some(user) = form.get("user").and_then(|user| users::find(user)) else {
        return refuse(StatusCode::BAD_REQUEST, "There is no such user.");
    };
    let code = match random(32) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "no code can be made");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    // Trouble with that file must not keep anybody from signing in.
    if let Err(error) = p.registrations.used(&request.client_id, now()) {
        tracing::warn!(%error, "use of a registered client is not noted");
    }
    let allows = |scope: &str| form.contains_key(&page::allow(scope));
    let grant = Grant {
        user,
        scope: scope::allowed(&request.scope, allows),
        client_id: request.client_id,
        refreshes: request.refreshes,
        redirect_uri: request.redirect_uri.clone(),
        challenge: request.challenge,
        nonce: request.nonce,
        at: now(),
    };
    p.grants.add(code.clone(), grant);
    tracing::info!(user = user.sub, "signed in");
    let answer = [("code", code.as_str())];
    send_back(&p, &request.redirect_uri, request.state.as_deref(), &answer)
}

/// Browsers send `Origin` with every POST, and most say what kind of site it came from.
/// A client without either (curl, a test) has no session that could be abused.
fn same_origin(issuer: &str, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|v| v.to_str().unwrap_or("?"));
    text(header::ORIGIN).is_none_or(|origin| origin == issuer)
        && text(header::HeaderName::from_static("sec-fetch-site"))
            .is_none_or(|site| matches!(site, "same-origin" | "none"))
}

/// RP-initiated logout 1.0. Nobody stays signed in here, so all there is to do is to go
/// back, if that was asked for and the place is one of a registered client's origins.
pub(super) async fn end_session(
    State(p): State<Arc<Provider>>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = parameters(query.unwrap_or_default().as_bytes()).unwrap_or_default();
    let Some(back) = query.get("post_logout_redirect_uri") else {
        return page::signed_out().into_response();
    };
    let origin = |uri: &str| Url::parse(uri).ok().map(|url| url.origin());
    let wanted = origin(back).filter(url::Origin::is_tuple);
    let known = wanted.is_some_and(|wanted| {
        p.clients
            .iter()
            .flat_map(|client| &client.redirect_uris)
            .any(|uri| origin(uri).as_ref() == Some(&wanted))
    });
    match Url::parse(back) {
        Ok(mut url) if known => {
            if let Some(state) = query.get("state") {
                url.query_pairs_mut().append_pair("state", state);
            }
            Redirect::to(url.as_str()).into_response()
        }
        _ => {
            let text = "You are signed out, but the application asked to go to a place that is \
                        not registered.";
            (StatusCode::BAD_REQUEST, page::refusal(text)).into_response()
        }
    }
}
