//! The token and userinfo endpoints.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{
    IdpError, Provider, TOKEN_LIFE, User,
    authorize::ONE_RESOURCE,
    documents,
    grants::{Grant, Redeemed},
    http::parameters,
    key::{AccessClaims, IdClaims, roles, sha256_base64url},
    now,
    refresh::RefreshTokens,
    scope,
};

/// A refusal of the token endpoint (RFC 6749, 5.2).
#[derive(Debug)]
enum Refusal {
    OAuth(&'static str, &'static str),
    Broken(IdpError),
}

impl From<IdpError> for Refusal {
    fn from(error: IdpError) -> Self {
        Self::Broken(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::OAuth(error, description) => {
                let body = json!({ "error": error, "error_description": description });
                (StatusCode::BAD_REQUEST, NO_STORE, Json(body)).into_response()
            }
            Self::Broken(error) => {
                tracing::error!(%error, "token endpoint failed");
                let body = json!({ "error": "server_error" });
                (StatusCode::INTERNAL_SERVER_ERROR, NO_STORE, Json(body)).into_response()
            }
        }
    }
}

const NO_STORE: [(header::HeaderName, &str); 1] = [(header::CACHE_CONTROL, "no-store")];

pub(super) async fn token(State(p): State<Arc<Provider>>, body: Bytes) -> Response {
    // Writes a small file when tokens rotate: a few milliseconds, on a provider for one.
    match answer(&p, &body, now()) {
        Ok(body) => (NO_STORE, Json(body)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn answer(p: &Provider, body: &[u8], now: i64) -> Result<serde_json::Value, Refusal> {
    let Some(form) = parameters(body) else {
        return Err(Refusal::OAuth(
            "invalid_request",
            "a parameter is given twice",
        ));
    };
    let client_id = form
        .get("client_id")
        .map(String::as_str)
        .unwrap_or_default();
    // What an address stands for was looked up when its people signed in; codes and refresh tokens
    // are bound to it.
    if p.known(client_id).is_none() && !documents::is_address(client_id) {
        return Err(Refusal::OAuth("invalid_client", "no such client_id"));
    }
    if form.get("resource").is_some_and(|r| *r != p.audience) {
        return Err(Refusal::OAuth("invalid_target", ONE_RESOURCE));
    }
    match form.get("grant_type").map(String::as_str) {
        Some("authorization_code") => by_code(p, &form, client_id, now),
        Some("refresh_token") => by_refresh(p, &form, client_id, now),
        _ => Err(Refusal::OAuth(
            "unsupported_grant_type",
            "authorization_code or refresh_token",
        )),
    }
}

fn by_code(
    p: &Provider,
    form: &BTreeMap<String, String>,
    client_id: &str,
    now: i64,
) -> Result<serde_json::Value, Refusal> {
    let get = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let family = RefreshTokens::name()?;
    let grant = match p.grants.redeem(get("code"), &family, now) {
        Redeemed::Grant(grant) => grant,
        Redeemed::Replayed { family } => {
            tracing::warn!("authorisation code used twice; its tokens are revoked");
            p.refresh.revoke(&family)?;
            return Err(Refusal::OAuth("invalid_grant", "the code was used before"));
        }
        Redeemed::Unknown => {
            return Err(Refusal::OAuth(
                "invalid_grant",
                "no such code, or older than 60 s",
            ));
        }
    };
    if grant.client_id != client_id || grant.redirect_uri != get("redirect_uri") {
        return Err(Refusal::OAuth(
            "invalid_grant",
            "the code was given to another client",
        ));
    }
    if sha256_base64url(get("code_verifier")) != grant.challenge {
        return Err(Refusal::OAuth("invalid_grant", "wrong code_verifier"));
    }
    let refresh = grant.refreshes.then(|| {
        p.refresh
            .start(&family, grant.user, client_id, &grant.scope, now)
    });
    tokens(p, &grant, refresh.transpose()?.as_deref(), now)
}

fn by_refresh(
    p: &Provider,
    form: &BTreeMap<String, String>,
    client_id: &str,
    now: i64,
) -> Result<serde_json::Value, Refusal> {
    let token = form.get("refresh_token").map(String::as_str);
    let asked = form.get("scope").map(String::as_str);
    match p
        .refresh
        .rotate(token.unwrap_or_default(), client_id, now)?
    {
        Some(refreshed) => {
            let grant = Grant {
                user: refreshed.user,
                client_id: client_id.to_owned(),
                refreshes: true,
                redirect_uri: String::new(),
                challenge: String::new(),
                // A refreshed ID token has no nonce (OpenID Connect Core, 12.2).
                nonce: None,
                scope: scope::narrowed(&refreshed.scope, asked),
                at: refreshed.since,
            };
            tokens(p, &grant, Some(&refreshed.token), now)
        }
        None => Err(Refusal::OAuth(
            "invalid_grant",
            "the refresh token is unknown, expired or was used before",
        )),
    }
}

fn tokens(
    p: &Provider,
    grant: &Grant,
    refresh: Option<&str>,
    now: i64,
) -> Result<serde_json::Value, Refusal> {
    let Grant {
        user, client_id, ..
    } = grant;
    let access = AccessClaims::new(
        user,
        &p.issuer,
        &p.audience,
        client_id,
        &grant.scope,
        now,
        TOKEN_LIFE,
    );
    let mut body = json!({
        "access_token": p.key.sign("at+jwt", &access)?,
        "token_type": "Bearer",
        "expires_in": TOKEN_LIFE.as_secs(),
        "scope": grant.scope,
    });
    if let (Some(refresh), Some(body)) = (refresh, body.as_object_mut()) {
        body.insert("refresh_token".to_owned(), refresh.into());
    }
    if grant.scope.split(' ').any(|scope| scope == "openid") {
        let claims = id_claims(p, grant, access.exp, now);
        let id_token = p.key.sign("JWT", &claims)?;
        if let Some(body) = body.as_object_mut() {
            body.insert("id_token".to_owned(), id_token.into());
        }
    }
    Ok(body)
}

fn id_claims<'a>(p: &'a Provider, grant: &'a Grant, exp: i64, now: i64) -> IdClaims<'a> {
    let user: &'a User = grant.user;
    IdClaims {
        iss: &p.issuer,
        sub: user.sub,
        aud: &grant.client_id,
        exp,
        iat: now,
        auth_time: grant.at,
        nonce: grant.nonce.as_deref(),
        roles: roles(user),
        name: user.name,
        preferred_username: user.sub,
        email: user.email,
        email_verified: true,
    }
}

pub(super) async fn userinfo(State(p): State<Arc<Provider>>, headers: HeaderMap) -> Response {
    let claims = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .and_then(|(_, token)| {
            p.key
                .verify::<AccessClaims>("at+jwt", &p.issuer, &p.audience, token.trim())
        });
    match claims {
        Some(claims) => {
            let body = json!({
                "sub": claims.sub,
                "name": claims.name,
                "preferred_username": claims.sub,
                "email": claims.email,
                "email_verified": true,
                "roles": claims.roles,
            });
            (NO_STORE, Json(body)).into_response()
        }
        None => (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, r#"Bearer error="invalid_token""#)],
        )
            .into_response(),
    }
}
