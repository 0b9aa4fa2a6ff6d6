//! Where callers get a token, and for what: the challenges of 401, 403 and 400, and the metadata that
//! they point to (RFC 6750, RFC 9728). The authorisation server is the provider; control plays none.

use super::reply;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use nogoo9_identity::TokenError;
use nogoo9_identity::challenge::{
    METADATA_PATH, ProtectedResource, TOKEN_IN_URL, challenge, has_token, insufficient_scope,
    metadata_url, token_in_url,
};
use nogoo9_model::access::{Action, Denied};
use nogoo9_runtime::args::Identity;
use std::collections::BTreeSet;
use std::sync::Arc;
use url::Url;

/// Asks for what clients must not be told to ask for: whether a client keeps tokens is its own choice.
const OFFLINE: &str = "offline_access";

/// What `/mcp` and the JSON API tell those who come without a token that will do.
#[derive(Debug, Clone)]
pub struct Resource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metadata_url: String,
    document: ProtectedResource,
    /// What the provider is known to grant, where scopes mean nothing here; `None`: they count.
    granted_anyway: Option<String>,
}

/// On the response to a call whose token lacks this scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lacks(pub(super) &'static str);

/// What somebody does who asks with this method, as far as that tells.
pub(super) fn needs(method: &Method) -> &'static [Action] {
    match *method {
        Method::GET | Method::HEAD => &[Action::Read],
        _ => &[Action::Read, Action::Manage],
    }
}

impl Resource {
    /// The MCP endpoint of the console at `public`. `login_scopes` are what people sign in with beside
    /// `openid`: the one thing that the provider is known to understand.
    #[must_use]
    pub fn new(public: &Url, identity: &Identity, login_scopes: &[String]) -> Self {
        let mcp = public.join("/mcp").unwrap_or_else(|_| public.clone());
        // An audience that is no address of ours (a client's id) tells clients nothing: they compare
        // the resource with the address that they call.
        let ours = |audience: &&String| {
            Url::parse(audience).is_ok_and(|url| url.origin() == public.origin())
        };
        let resource = identity.audiences.iter().find(ours);
        let resource = resource.map_or_else(|| mcp.to_string(), Clone::clone);
        let document = ProtectedResource::new(resource, &identity.issuer)
            .and_issuers(identity.extra_issuers.iter().cloned());
        let enforced = identity.scopes_claim.is_some();
        let known = login_scopes.iter().map(String::as_str);
        let known = known.filter(|scope| !matches!(*scope, OFFLINE | "openid"));
        let known: Vec<&str> = std::iter::once("openid").chain(known).collect();
        Self(Arc::new(Inner {
            metadata_url: metadata_url(&mcp),
            document: if enforced {
                document.with_scopes()
            } else {
                document
            },
            granted_anyway: (!enforced).then(|| known.join(" ")),
        }))
    }

    /// 401: where to get a token, and with which scopes for `actions`. Where scopes mean nothing, those
    /// of nogoo9 are not named, since many providers refuse what they do not know.
    #[must_use]
    pub(super) fn unauthorized(&self, refused: Option<TokenError>, actions: &[Action]) -> Response {
        let scope = self.0.granted_anyway.clone().unwrap_or_else(|| {
            let scopes: Vec<&str> = actions.iter().map(|action| action.scope()).collect();
            scopes.join(" ")
        });
        let value = challenge(&self.0.metadata_url, refused, Some(&scope));
        challenged(reply::unauthorized(refused.as_ref()), &value)
    }

    /// Adds to the answer of a call whose token lacks a scope which scopes would do.
    pub(super) fn name_scopes(
        &self,
        response: Response,
        granted: Option<&BTreeSet<String>>,
    ) -> Response {
        let Some(Lacks(needed)) = response.extensions().get().copied() else {
            return response;
        };
        let value = insufficient_scope(&self.0.metadata_url, granted, needed);
        challenged(response, &value)
    }

    /// 403 `insufficient_scope`, as HTTP tells it.
    #[must_use]
    pub(super) fn insufficient_scope(
        &self,
        granted: &BTreeSet<String>,
        needed: &'static str,
    ) -> Response {
        let refusal = crate::service::ServiceError::Denied(Denied::Scope { needed });
        self.name_scopes(refusal.into_response(), Some(granted))
    }

    /// 400, if a token came in the URL; nothing is done for such a request, whatever else it proves.
    pub(super) fn refuse_url(&self, uri: &Uri) -> Option<Response> {
        has_token(uri.query()).then(|| {
            let response = reply::refused(StatusCode::BAD_REQUEST, "invalid_request", TOKEN_IN_URL);
            challenged(response, &token_in_url(&self.0.metadata_url))
        })
    }
}

fn challenged(mut response: Response, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// The metadata, for the resource and for the whole host: clients that were sent nowhere try both.
pub(super) fn router(resource: Resource) -> Router {
    let show = get(move || {
        let resource = resource.clone();
        async move { metadata(&resource) }
    });
    Router::new()
        .route(METADATA_PATH, show.clone())
        .route(&format!("{METADATA_PATH}/mcp"), show)
}

/// Readable by pages of any origin: MCP clients that run in a browser need it.
fn metadata(resource: &Resource) -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::CACHE_CONTROL, "public, max-age=300"),
    ];
    (headers, Json(&resource.0.document)).into_response()
}
