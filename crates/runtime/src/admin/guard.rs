//! Routes that only holders of the shared token may read.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};

use crate::secret::Secret;

/// Puts `routes` behind the bearer token. Without a token they are refused: deny by
/// default.
pub fn bearer(routes: Router, token: Option<Secret>) -> Router {
    routes.route_layer(middleware::from_fn_with_state(Arc::new(token), check))
}

async fn check(State(token): State<Arc<Option<Secret>>>, request: Request, next: Next) -> Response {
    let Some(token) = token.as_ref() else {
        let text = "closed: start this component with --admin-token-file\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    };
    // The scheme's case does not matter (RFC 9110, 11.1).
    let offered = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    match offered {
        Some(offered) if token.matches(offered) => next.run(request).await,
        _ => (
            StatusCode::UNAUTHORIZED,
            [(header::WWW_AUTHENTICATE, "Bearer")],
            "wrong or missing bearer token: send the content of --admin-token-file\n",
        )
            .into_response(),
    }
}
