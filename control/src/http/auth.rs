//! Who is calling: once, in front of every handler, as an argument for it.

use super::reply;
use super::resource::{Resource, needs};
use crate::audit;
use crate::login::{Kept, Login};
use crate::personal::{Credential, PersonalTokens, Unproven};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderValue, Method, header};
use nogoo9_identity::{Authenticated, Authenticator, TokenError, Via};
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Caller;
use nogoo9_model::personal_token::Proven;
use nogoo9_runtime::kube::ServerClock;
use std::sync::Arc;
use url::Url;

/// A stream that an access token opened ends after so many seconds, and whoever reads it comes back:
/// one that was revoked meanwhile does not.
const PERSONAL_STREAM: UnixSeconds = 45;
/// The same of one that a token of the provider opened, about which nobody can be asked: as long as the
/// proxy leaves it open to workspaces, unless it is told otherwise (`--max-bearer-age`).
const PROVIDER_STREAM: UnixSeconds = 3600;

/// Verifies the callers of control's own host.
#[derive(Clone)]
pub struct Auth(Arc<Inner>);

struct Inner {
    authenticator: Arc<Authenticator>,
    /// Says whether sessions go on.
    login: Arc<Login>,
    personal: PersonalTokens,
    /// Authority of the public URL, which console cookies are bound to.
    host: String,
    resource: Resource,
    clock: ServerClock,
}

/// When what proves the caller ends: no stream opened by it may outlive that.
#[derive(Debug, Clone, Copy)]
pub struct Until(pub UnixSeconds);

/// What a request proves.
pub enum Proof {
    /// A verified caller, by what, and until when.
    Caller(Caller, Credential, Until),
    /// Nothing that counts.
    Nothing,
    /// A bearer token that is ours and does not verify.
    Refused(TokenError),
    /// A token of which nobody can tell now whether it counts.
    Unavailable,
}

/// The browser session behind a request, if it is a cookie that proves the caller.
#[derive(Debug, Clone, Default)]
pub struct BySession {
    /// The session's id.
    pub sid: Option<String>,
    /// `Set-Cookie` of the session's next token, on the console's host.
    cookie: Option<String>,
    /// `Set-Cookie` that takes it away.
    gone: Option<String>,
}

impl BySession {
    /// Takes the cookie from a browser that has ended its own session.
    pub(super) fn take_away(&self, response: &mut Response) {
        set(response, self.gone.as_deref());
    }
}

fn set(response: &mut Response, cookie: Option<&str>) {
    if let Some(Ok(value)) = cookie.map(HeaderValue::from_str) {
        let headers = response.headers_mut();
        headers.append(header::SET_COOKIE, value);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

impl Auth {
    /// For the console at `public`; `resource` says where tokens come from.
    #[must_use]
    pub fn new(
        authenticator: Arc<Authenticator>,
        login: Arc<Login>,
        personal: PersonalTokens,
        public: &Url,
        resource: Resource,
        clock: ServerClock,
    ) -> Self {
        Self(Arc::new(Inner {
            authenticator,
            login,
            personal,
            host: authority(public),
            resource,
            clock,
        }))
    }

    /// Who sent the request to the console.
    pub async fn prove(&self, method: &http::Method, headers: &http::HeaderMap) -> Proof {
        self.prove_on(method, headers, &self.0.host).await
    }

    /// As [`Self::prove`], with the session behind it.
    pub async fn prove_session(
        &self,
        method: &http::Method,
        headers: &http::HeaderMap,
    ) -> (Proof, BySession) {
        self.look(method, headers, &self.0.host).await
    }

    /// Who sent the request to `host`, which sessions are bound to.
    pub async fn prove_on(
        &self,
        method: &http::Method,
        headers: &http::HeaderMap,
        host: &str,
    ) -> Proof {
        self.look(method, headers, host).await.0
    }

    /// Looks, and notes what it sees for the audit trail and for what limits failures.
    async fn look(
        &self,
        method: &http::Method,
        headers: &http::HeaderMap,
        host: &str,
    ) -> (Proof, BySession) {
        let (proof, session) = self.look_at(method, headers, host).await;
        let auth = &self.0.authenticator;
        match &proof {
            Proof::Caller(caller, by, _) => audit::proven(caller, *by),
            Proof::Nothing => {
                let now = self.0.clock.now();
                audit::nobody(auth.refused_cookie(headers, host, now));
            }
            Proof::Refused(error) => {
                audit::refused(*error, auth.personal_token(headers).is_some());
            }
            Proof::Unavailable => {}
        }
        (proof, session)
    }

    async fn look_at(
        &self,
        method: &http::Method,
        headers: &http::HeaderMap,
        host: &str,
    ) -> (Proof, BySession) {
        let inner = &self.0;
        let now = inner.clock.now();
        if let Some(proof) = self.prove_personal(headers).await {
            let proof = match proof {
                Ok(Proven {
                    caller, expires, ..
                }) => {
                    let until = ends(expires, PERSONAL_STREAM, now);
                    Proof::Caller(caller, Credential::Personal, until)
                }
                Err(Unproven::Refused(error)) => Proof::Refused(error),
                Err(Unproven::Unavailable) => Proof::Unavailable,
            };
            return (proof, BySession::default());
        }
        match inner
            .authenticator
            .authenticate_async(method, headers, host, now)
            .await
        {
            Ok(Some(proof)) if proof.via == Via::Cookie => self.kept(&proof).await,
            Ok(Some(proof)) => {
                let until = ends(proof.expires(), PROVIDER_STREAM, now);
                let caller = proof.caller().clone();
                let caller = Proof::Caller(caller, Credential::Provider, until);
                (caller, BySession::default())
            }
            Ok(None) => (Proof::Nothing, BySession::default()),
            Err(TokenError::KeysUnavailable) => (Proof::Unavailable, BySession::default()),
            Err(error) => (Proof::Refused(error), BySession::default()),
        }
    }

    /// What a cookie comes to, once its session has been asked about where that is due.
    async fn kept(&self, proof: &Authenticated) -> (Proof, BySession) {
        match self.0.login.keep(&proof.verified).await {
            Kept::Counts {
                renewed,
                until,
                cookie,
            } => {
                let caller = match renewed {
                    Some(session) => self.0.login.caller(&session),
                    None => proof.caller().clone(),
                };
                let sid = proof.verified.sid.clone();
                let proof = Proof::Caller(caller, Credential::Session, Until(until));
                let names = self.0.authenticator.names();
                let gone = Some(names.delete(names.session()));
                (proof, BySession { sid, cookie, gone })
            }
            Kept::Over => (Proof::Nothing, BySession::default()),
        }
    }

    /// Hands the session's next token to the browser; no cache may keep what it comes with. Who has
    /// ended the session gets no more of it, whether by this request or, while it was under way, by
    /// another.
    pub(super) async fn pass_on(&self, session: &BySession, response: &mut Response) {
        if let (Some(cookie), Some(sid)) = (&session.cookie, &session.sid)
            && !response.headers().contains_key(header::SET_COOKIE)
            && self.0.login.still_lives(sid).await
        {
            set(response, Some(cookie));
        }
    }

    /// Whom the personal access token speaks for that the request proves its caller by; `None`: it does
    /// so by none.
    pub async fn prove_personal(
        &self,
        headers: &http::HeaderMap,
    ) -> Option<Result<Proven, Unproven>> {
        let token = self.0.authenticator.personal_token(headers)?;
        let from = audit::Seen::of(headers).from();
        Some(self.0.personal.prove(token, from).await)
    }

    /// 401 with the way to a token (RFC 9728) that is good for everyday work.
    #[must_use]
    pub fn unauthorized(&self, refused: Option<TokenError>) -> Response {
        self.0.resource.unauthorized(refused, needs(&Method::POST))
    }

    /// Where tokens come from.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.0.resource
    }
}

/// When a stream ends that a token opens at `now` which expires then, and may keep one open so long.
fn ends(expires: UnixSeconds, most: UnixSeconds, now: UnixSeconds) -> Until {
    Until(expires.min(now.saturating_add(most)))
}

/// Host and port as browsers write them: without the scheme's own port.
#[must_use]
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Lets verified callers through, with [`Caller`] among the request's extensions.
pub async fn any_caller(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    if let Some(refusal) = auth.resource().refuse_url(request.uri()) {
        return refusal;
    }
    let asks = needs(request.method());
    let (proof, session) = auth
        .prove_session(request.method(), request.headers())
        .await;
    match proof {
        Proof::Caller(caller, by, until) => {
            let scopes = caller.scopes.clone();
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(by);
            request.extensions_mut().insert(until);
            request.extensions_mut().insert(session.clone());
            let mut response = next.run(request).await;
            auth.pass_on(&session, &mut response).await;
            auth.resource().name_scopes(response, scopes.as_ref())
        }
        Proof::Nothing => auth.resource().unauthorized(None, asks),
        Proof::Refused(error) => auth.resource().unauthorized(Some(error), asks),
        Proof::Unavailable => reply::unproven(),
    }
}

/// As [`any_caller`], by bearer token only: agents have no cookies, and what a browser attaches by
/// itself shall not drive tools.
pub async fn bearer_caller(State(auth): State<Auth>, mut request: Request, next: Next) -> Response {
    if let Some(refusal) = auth.resource().refuse_url(request.uri()) {
        return refusal;
    }
    match auth.prove(request.method(), request.headers()).await {
        Proof::Caller(caller, by @ (Credential::Provider | Credential::Personal), _) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(by);
            next.run(request).await
        }
        Proof::Caller(_, Credential::Session, _) | Proof::Nothing => auth.unauthorized(None),
        Proof::Refused(error) => auth.unauthorized(Some(error)),
        Proof::Unavailable => reply::unproven(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_with_its_token_or_before() {
        for (expires, most, end) in [
            (1_010, PERSONAL_STREAM, 1_010),
            (2_000, PERSONAL_STREAM, 1_045),
            (1_500, PROVIDER_STREAM, 1_500),
            (1_000 + 24 * 3600, PROVIDER_STREAM, 4_600),
            (UnixSeconds::MAX, PROVIDER_STREAM, 4_600),
        ] {
            assert_eq!(ends(expires, most, 1_000).0, end, "{expires}, {most}");
        }
    }
}
