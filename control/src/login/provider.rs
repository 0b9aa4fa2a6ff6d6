//! The identity provider, as a client of it: discovery, the way there, and the code exchange.
//!
//! Discovery happens when somebody signs in, is kept for some minutes, and is done by one request
//! at a time. Every call has a timeout (see [`nogoo9_identity::http_client`]) and a size limit.

mod call;
mod metadata;
mod revoke;
mod verify;

use super::config::LoginConfig;
use call::{CallError, Caller};
use metadata::{Metadata, revocation, scopes};
use nogoo9_identity::Roots;
use nogoo9_identity::code::LoginState;
use nogoo9_runtime::audit::Outcome;
use openidconnect::core::{CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken};
use openidconnect::{
    AccessToken, AsyncHttpClient as _, AuthType, AuthorizationCode, ClientId, ClientSecret,
    CsrfToken, IssuerUrl, LogoutRequest, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, PostLogoutRedirectUrl, RedirectUrl, RefreshToken, RequestTokenError,
    TokenResponse,
};
use serde_json::{Map, Value};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;
use verify::{Refusal, payload, verify};

/// How long a discovery document and its keys are used.
const FRESH: Duration = Duration::from_secs(300);
/// For how long a failed discovery speaks for those who waited for it.
const FAILED: Duration = Duration::from_secs(1);
/// Longest wait for the provider's document of somebody who signs out.
const LEAVING: Duration = Duration::from_secs(3);
/// Least time between two discoveries that an unknown key causes.
const MIN_GAP: Duration = Duration::from_secs(10);

/// How long what a provider said of itself speaks for it while it says nothing: it may still answer at
/// its token endpoint.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// Longest refresh token kept, in bytes.
const MAX_REFRESH: usize = 16 * 1024;
/// Error codes by which a provider says that the person must sign in again (RFC 6749, section 5.2;
/// OpenID Connect Core, section 3.1.2.6). All others are a fault of ours or its own.
const NO: [&str; 5] = [
    "invalid_grant",
    "access_denied",
    "login_required",
    "interaction_required",
    "consent_required",
];

/// Error codes by which it says that it is in trouble itself (RFC 6749, section 4.1.2.1).
const AWAY: [&str; 2] = ["server_error", "temporarily_unavailable"];

/// Random bytes in a `state` and a `nonce`.
const RANDOM_LEN: u32 = 32;

/// Why the provider was of no help. Texts are for administrators and hold no code, token or secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// It does not answer, or not with what discovery promises.
    #[error("the identity provider cannot be reached: {0}")]
    Unreachable(String),
    /// It does not take the code: too late, used before, or our client is not set up as it should.
    #[error("the identity provider refused the sign-in: {0}")]
    Refused(String),
    /// What it sent does not prove who signed in.
    #[error("the identity provider's answer does not verify: {0}")]
    Unverified(String),
    /// Our settings make no request.
    #[error("login is not set up: {0}")]
    Setup(String),
}

impl ProviderError {
    /// As the audit trail has it.
    pub(super) fn outcome(&self) -> Outcome<'static> {
        match self {
            Self::Unreachable(_) => Outcome::Failed("provider_unreachable"),
            Self::Refused(_) => Outcome::Refused("provider_refused"),
            Self::Unverified(_) => Outcome::Refused("id_token"),
            Self::Setup(_) => Outcome::Failed("setup"),
        }
    }

    /// Whether the provider does not answer, or only that it is in trouble. Anything else that is no yes
    /// is a fault that somebody has to mend.
    pub(super) fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(code) => AWAY.contains(&code.as_str()),
            Self::Unverified(_) | Self::Setup(_) => false,
        }
    }

    /// Whether the provider says of the person, and not of us or itself, that it is over.
    pub(super) fn says_no(&self) -> bool {
        matches!(self, Self::Refused(code) if NO.contains(&code.as_str()))
    }
}

/// The way to the provider, and what to remember until the browser is back.
pub(super) struct Departure {
    pub(super) to: Url,
    pub(super) state: LoginState,
}

/// Who signed in: verified claims of the ID token.
pub(super) struct Arrival {
    pub(super) sub: String,
    pub(super) claims: Map<String, Value>,
    /// By which the provider can be asked again.
    pub(super) refresh: Option<String>,
}

/// The provider still vouches for somebody.
pub(super) struct Vouched {
    /// Takes the place of the refresh token that was used.
    pub(super) refresh: Option<String>,
    /// Subject and verified claims, where there was an ID token.
    pub(super) who: Option<(String, Map<String, Value>)>,
}

/// A client of one provider.
pub(super) struct Provider {
    issuer: String,
    issuer_roots: Roots,
    client_id: ClientId,
    client_secret: Option<ClientSecret>,
    redirect_uri: String,
    resource: Option<String>,
    scopes: Vec<String>,
    http: OnceLock<Caller>,
    min_gap: Duration,
    fresh: Duration,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    metadata: Option<(Arc<Metadata>, Instant)>,
    failure: Option<(ProviderError, Instant)>,
}

/// The client with an authorization endpoint for sure and a token endpoint perhaps.
type Client = CoreClient<
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
>;

impl Provider {
    pub(super) fn new(config: &LoginConfig) -> Self {
        Self {
            issuer: config.issuer.clone(),
            issuer_roots: config.issuer_roots.clone(),
            client_id: ClientId::new(config.client_id.clone()),
            client_secret: config.client_secret.clone().map(ClientSecret::new),
            redirect_uri: config.redirect_uri(),
            resource: config.resource.clone(),
            scopes: config.scopes.clone(),
            http: OnceLock::new(),
            min_gap: MIN_GAP,
            fresh: FRESH,
            known: Mutex::default(),
        }
    }

    pub(super) fn set_min_gap(&mut self, gap: Duration) {
        self.min_gap = gap;
    }

    pub(super) fn set_fresh(&mut self, fresh: Duration) {
        self.fresh = fresh;
    }

    /// The issuer, to compare with what a callback names.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Where to send somebody who wants to sign in.
    pub(super) async fn depart(&self, return_to: String) -> Result<Departure, ProviderError> {
        let metadata = self.metadata(self.fresh).await?;
        let client = self.client(&metadata)?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new_random_len(RANDOM_LEN),
                || Nonce::new_random_len(RANDOM_LEN),
            )
            .set_pkce_challenge(challenge)
            .add_scopes(scopes(&self.scopes, &metadata));
        if let Some(resource) = &self.resource {
            request = request.add_extra_param("resource", resource);
        }
        let (to, state, nonce) = request.url();
        let state = LoginState {
            state: state.into_secret(),
            nonce: nonce.secret().clone(),
            verifier: verifier.into_secret(),
            return_to,
        };
        Ok(Departure { to, state })
    }

    /// Exchanges the code of a callback and verifies who it stands for.
    pub(super) async fn arrive(
        &self,
        code: String,
        state: LoginState,
    ) -> Result<Arrival, ProviderError> {
        let client = self.client(&*self.metadata(self.fresh).await?)?;
        let mut request = client
            .exchange_code(AuthorizationCode::new(code))
            .map_err(|_| ProviderError::Setup("the provider names no token endpoint".to_owned()))?
            .set_pkce_verifier(PkceCodeVerifier::new(state.verifier));
        if let Some(resource) = &self.resource {
            request = request.add_extra_param("resource", resource);
        }
        let http = self.http()?;
        let answer = request
            .request_async(http)
            .await
            .map_err(|error| refused(&error))?;
        let token = answer
            .id_token()
            .ok_or_else(|| ProviderError::Unverified("there is no ID token in it".to_owned()))?;
        let access = answer.access_token();
        let nonce = Nonce::new(state.nonce);
        let sub = match verify(&client, token, access, &nonce) {
            // The key may be newer than what we know of the provider.
            Err(Refusal::UnknownKey(_)) => {
                let client = self.client(&*self.metadata(self.min_gap).await?)?;
                verify(&client, token, access, &nonce)
            }
            verdict => verdict,
        };
        let sub = sub.map_err(|refusal| ProviderError::Unverified(refusal.into_text()))?;
        let claims = payload(token).ok_or_else(no_claims)?;
        Ok(Arrival {
            sub,
            claims,
            refresh: kept(answer.refresh_token()),
        })
    }

    /// Asks whether the provider still vouches for whom it gave that refresh token (OpenID Connect
    /// Core, section 12).
    pub(super) async fn refresh(&self, token: String) -> Result<Vouched, ProviderError> {
        let metadata = match self.metadata(self.fresh).await {
            Ok(metadata) => metadata,
            Err(error) => self.old_metadata().await.ok_or(error)?,
        };
        let client = self.client(&metadata)?;
        let token = RefreshToken::new(token);
        let mut request = client
            .exchange_refresh_token(&token)
            .map_err(|_| ProviderError::Setup("the provider names no token endpoint".to_owned()))?;
        if let Some(resource) = &self.resource {
            request = request.add_extra_param("resource", resource);
        }
        let http = self.http()?;
        let answer = request
            .request_async(http)
            .await
            .map_err(|error| refused(&error))?;
        let refresh = kept(answer.refresh_token());
        // Where there is an ID token it counts only if it verifies; the nonce is left out of it. What
        // does not verify says nothing, and does not undo that the provider took the refresh token.
        let who = match answer.id_token() {
            None => None,
            Some(id) => self.identity(&client, id, answer.access_token()).await,
        };
        Ok(Vouched { refresh, who })
    }

    /// Whom the ID token of a refreshed session names; `None`: it does not verify.
    async fn identity(
        &self,
        client: &Client,
        token: &CoreIdToken,
        access: &AccessToken,
    ) -> Option<(String, Map<String, Value>)> {
        let any = || |_: Option<&Nonce>| Ok(());
        let mut verdict = verify(client, token, access, any());
        if let Err(Refusal::UnknownKey(_)) = verdict
            && let Ok(metadata) = self.metadata(self.min_gap).await
            && let Ok(client) = self.client(&metadata)
        {
            verdict = verify(&client, token, access, any());
        }
        match verdict.map_err(Refusal::into_text) {
            Ok(sub) => Some((sub, payload(token)?)),
            Err(reason) => {
                tracing::warn!(reason, "an ID token of a renewal does not verify");
                None
            }
        }
    }

    /// Where to send somebody who signs out, if the provider has such a place and can be asked. Whoever
    /// signs out does not wait long for a provider that is away or slow.
    ///
    /// Says which client it is about, and not by `id_token_hint` which person: the browser has their
    /// session there, and a token has no place in an address that is kept in histories and logs. A
    /// provider may then ask them whether they mean it (RP-Initiated Logout 1.0, section 2).
    pub(super) async fn leave(&self, back_to: &Url) -> Option<Url> {
        let metadata = match tokio::time::timeout(LEAVING, self.metadata(self.fresh)).await {
            Ok(Ok(metadata)) => metadata,
            // What it said before is likely to hold still.
            Ok(Err(_)) | Err(_) => self.known.try_lock().ok()?.metadata.clone()?.0,
        };
        let end = metadata
            .additional_metadata()
            .end_session_endpoint
            .clone()?;
        let request = LogoutRequest::from(end)
            .set_client_id(self.client_id.clone())
            .set_post_logout_redirect_uri(PostLogoutRedirectUrl::from_url(back_to.clone()));
        Some(request.http_get_url())
    }

    /// Has the provider take back a refresh token, if it does that.
    pub(super) async fn take_back(&self, token: &str) -> Result<(), ProviderError> {
        let metadata = self.metadata(self.fresh).await?;
        let Some(at) = revocation(&metadata) else {
            return Ok(());
        };
        let asker = revoke::Asker {
            id: &self.client_id,
            secret: self.client_secret.as_ref(),
            in_body: self.secret_in_body(&metadata),
        };
        let setup = |error: openidconnect::http::Error| ProviderError::Setup(error.to_string());
        let request = revoke::request(&at, token, &asker).map_err(setup)?;
        let away = |error: CallError| ProviderError::Unreachable(explain(&error));
        let answer = self.http()?.call(request).await.map_err(away)?;
        if answer.status().is_success() {
            Ok(())
        } else {
            Err(ProviderError::Refused(answer.status().to_string()))
        }
    }

    /// The discovery document with its keys, no older than `max_age`. The lock is held while it is
    /// fetched, so that many who come at once cause one request.
    async fn metadata(&self, max_age: Duration) -> Result<Arc<Metadata>, ProviderError> {
        let mut known = self.known.lock().await;
        if let Some((metadata, at)) = &known.metadata
            && at.elapsed() < max_age
        {
            return Ok(Arc::clone(metadata));
        }
        if let Some((failure, at)) = &known.failure
            && at.elapsed() < FAILED
        {
            return Err(failure.clone());
        }
        match self.discover().await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *known = Known {
                    metadata: Some((Arc::clone(&metadata), Instant::now())),
                    failure: None,
                };
                Ok(metadata)
            }
            Err(error) => {
                known.failure = Some((error.clone(), Instant::now()));
                Err(error)
            }
        }
    }

    /// What the provider last said of itself, within the last day.
    async fn old_metadata(&self) -> Option<Arc<Metadata>> {
        let known = self.known.lock().await;
        let (metadata, at) = known.metadata.as_ref()?;
        (at.elapsed() < OLD).then(|| Arc::clone(metadata))
    }

    async fn discover(&self) -> Result<Metadata, ProviderError> {
        let issuer = IssuerUrl::new(self.issuer.clone())
            .map_err(|_| ProviderError::Setup("the issuer is not a URL".to_owned()))?;
        let http = self.http()?;
        Metadata::discover_async(issuer, http)
            .await
            .map_err(|error| ProviderError::Unreachable(explain(&error)))
    }

    /// The HTTP client, made when first needed.
    fn http(&self) -> Result<&Caller, ProviderError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let made = Caller::new(&self.issuer, &self.issuer_roots)?;
        Ok(self.http.get_or_init(|| made))
    }

    fn client(&self, metadata: &Metadata) -> Result<Client, ProviderError> {
        let redirect = RedirectUrl::new(self.redirect_uri.clone())
            .map_err(|_| ProviderError::Setup("the public URL is not a URL".to_owned()))?;
        let client = CoreClient::from_provider_metadata(
            metadata.clone(),
            self.client_id.clone(),
            self.client_secret.clone(),
        )
        .set_redirect_uri(redirect);
        Ok(if self.secret_in_body(metadata) {
            client.set_auth_type(AuthType::RequestBody)
        } else {
            client
        })
    }

    /// Whether the provider takes our secret in the body only.
    fn secret_in_body(&self, metadata: &Metadata) -> bool {
        let methods = metadata.token_endpoint_auth_methods_supported();
        let knows = |method| methods.is_some_and(|known| known.contains(&method));
        self.client_secret.is_some()
            && knows(CoreClientAuthMethod::ClientSecretPost)
            && !knows(CoreClientAuthMethod::ClientSecretBasic)
    }
}

fn no_claims() -> ProviderError {
    ProviderError::Unverified("its claims are no object".to_owned())
}

fn kept(token: Option<&RefreshToken>) -> Option<String> {
    token
        .map(|token| token.secret().clone())
        .filter(|token| !token.is_empty() && token.len() <= MAX_REFRESH)
}

/// What a failed exchange says. The provider's own words are kept short; they may hold no secret,
/// but nobody promises that, so only its error code is.
fn refused<E, T>(error: &RequestTokenError<E, T>) -> ProviderError
where
    E: std::error::Error + 'static,
    T: openidconnect::ErrorResponse + 'static,
    T: std::fmt::Display,
{
    match error {
        RequestTokenError::ServerResponse(answer) => {
            let text = answer.to_string();
            let code = text.split([':', ' ']).next().unwrap_or_default();
            ProviderError::Refused(
                code.chars()
                    .filter(|c| c.is_ascii_graphic())
                    .take(60)
                    .collect(),
            )
        }
        RequestTokenError::Request(error) => ProviderError::Unreachable(explain(error)),
        RequestTokenError::Parse(..) => {
            ProviderError::Refused("its answer is not a token response".to_owned())
        }
        RequestTokenError::Other(_) => {
            ProviderError::Refused("its answer is incomplete".to_owned())
        }
    }
}

/// An error with its causes, in one line.
fn explain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = inner.source();
    }
    text.chars().take(300).collect()
}
