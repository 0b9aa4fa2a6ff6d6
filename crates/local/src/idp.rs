//! A development identity provider: OpenID Connect with code + PKCE, real keys and real
//! tokens, but no passwords. Whoever can reach it may be anyone, so it listens only where
//! nobody from outside this machine can: on loopback, and, with TLS, in the range that is
//! kept for benchmarks and never routed (RFC 2544), where test clusters live.
//!
//! What a deployment's provider does, this one does the same way: discovery (OpenID
//! Connect and RFC 8414), JWKS, authorize, token with refresh rotation, userinfo, end of
//! session. MCP clients are known to it by all three ways of their specification: beforehand, by
//! the document at their id, or since they registered themselves. Its signing key and the state of refresh tokens live under `{data_dir}/idp`,
//! so that sessions outlive a restart.

mod authorize;
mod clients;
mod documents;
mod grants;
mod http;
mod key;
mod metadata;
mod page;
mod refresh;
mod register;
mod scope;
mod signin;
mod tls;
mod token;
mod users;

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use crate::pki::Pki;
use clients::{Application, Registrations};
use documents::Documents;
use grants::Grants;
use key::{AccessClaims, SigningKey};
use refresh::RefreshTokens;
pub use users::{USERS, User};

/// Life of access and ID tokens.
pub const TOKEN_LIFE: Duration = Duration::from_secs(3600);
/// How long open requests may take to finish once stopping.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// An application that may send people here.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its `client_id`. All clients are public: PKCE instead of a secret.
    pub id: String,
    /// Where it may have them sent back, compared byte by byte (RFC 9700, 2.1); a plain-http one on
    /// loopback that names no port stands for every port (RFC 8252, 7.3).
    pub redirect_uris: Vec<String>,
}

/// What the provider needs to know.
#[derive(Clone, Debug)]
pub struct IdpConfig {
    /// Folder of the local instance; keys and state go to `idp` in it.
    pub data_dir: std::path::PathBuf,
    /// Own URL without a final slash, as in `http://127.0.0.1:9011`.
    pub issuer: String,
    /// Registered applications.
    pub clients: Vec<Client>,
    /// Audience of access tokens: the MCP endpoint.
    pub audience: String,
}

/// What can go wrong when starting or minting.
#[derive(Debug, thiserror::Error)]
pub enum IdpError {
    /// A file of the provider cannot be read or written.
    #[error("identity provider: {path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the file system said.
        source: std::io::Error,
    },
    /// The key file holds no key.
    #[error(
        "identity provider: {path} holds no usable key ({reason}); delete it to get a new one \
         (everyone signs in again)"
    )]
    Key {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// No such development user.
    #[error(
        "there is no user `{name}`; the development users are {}",
        users::names()
    )]
    UnknownUser {
        /// What was asked for.
        name: String,
    },
    /// A token could not be signed.
    #[error("identity provider: a token cannot be signed: {0}")]
    Sign(String),
    /// The address is not loopback.
    #[error("identity provider: {0} is not a loopback address, and it asks for no passwords")]
    NotLoopback(SocketAddr),
    /// The address is neither loopback nor one that is never routed.
    #[error(
        "identity provider: {0} may be reached from outside, and it asks for no passwords; listen \
         on loopback or within 198.18.0.0/15"
    )]
    Reachable(SocketAddr),
    /// There is no usable certificate.
    #[error("identity provider: {0}")]
    Pki(#[from] crate::pki::PkiError),
    /// What was given as authorities for documents is none.
    #[error("identity provider: no usable certificates for client id metadata documents: {0}")]
    Roots(#[source] reqwest::Error),
    /// The listener failed.
    #[error("identity provider: cannot serve: {0}")]
    Serve(#[source] std::io::Error),
}

/// Shared by all handlers.
struct Provider {
    issuer: String,
    audience: String,
    clients: Vec<Client>,
    registrations: Registrations,
    documents: Documents,
    key: SigningKey,
    grants: Grants,
    refresh: RefreshTokens,
}

impl Provider {
    /// The application of that id; `Err`: why there is none, for people to read.
    async fn application(&self, id: &str) -> Result<Application, String> {
        if let Some(known) = self.known(id) {
            return Ok(known);
        }
        if !documents::is_address(id) {
            return Err(format!("No application is registered as “{id}”."));
        }
        let read = self.documents.read(id).await;
        read.map_err(|error| format!("The application at “{id}” cannot be let in: {error}."))
    }

    fn known(&self, id: &str) -> Option<Application> {
        let named = self.clients.iter().find(|client| client.id == id);
        named
            .map(Application::from)
            .or_else(|| self.registrations.get(id))
    }
}

/// The provider, ready to serve.
pub struct Idp(Arc<Provider>);

impl Idp {
    /// Reads or makes the key and the state on disk.
    ///
    /// # Errors
    /// [`IdpError::File`] and [`IdpError::Key`].
    pub fn open(config: IdpConfig) -> Result<Self, IdpError> {
        Self::open_trusting(config, None)
    }

    /// As [`Self::open`]. The authorities in `pem` may vouch, beside the public ones, for the hosts
    /// of client id metadata documents.
    ///
    /// # Errors
    /// [`IdpError::File`], [`IdpError::Key`] and [`IdpError::Roots`].
    pub fn open_trusting(config: IdpConfig, pem: Option<&[u8]>) -> Result<Self, IdpError> {
        let dir = config.data_dir.join("idp");
        file(&dir, crate::files::private_dir(&dir))?;
        Ok(Self(Arc::new(Provider {
            key: SigningKey::ensure(&config.data_dir)?,
            refresh: RefreshTokens::open(dir.join("refresh.json"))?,
            registrations: Registrations::open(dir.join("clients.json"))?,
            documents: Documents::new(pem).map_err(IdpError::Roots)?,
            grants: Grants::default(),
            issuer: config.issuer,
            audience: config.audience,
            clients: config.clients,
        })))
    }

    /// Its routes, for a server of one's own.
    pub fn router(&self) -> Router {
        http::router(Arc::clone(&self.0))
    }

    /// Serves until `stop` is cancelled.
    ///
    /// # Errors
    /// [`IdpError::NotLoopback`] and [`IdpError::Serve`].
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: CancellationToken,
    ) -> Result<(), IdpError> {
        let addr = listener.local_addr().map_err(IdpError::Serve)?;
        if !addr.ip().is_loopback() {
            return Err(IdpError::NotLoopback(addr));
        }
        self.serve_on(listener, stop).await
    }

    /// Serves https with that certificate until `stop` is cancelled.
    ///
    /// # Errors
    /// [`IdpError::Reachable`], [`IdpError::Pki`] and [`IdpError::Serve`].
    pub async fn serve_tls(
        self,
        listener: TcpListener,
        pki: &Pki,
        stop: CancellationToken,
    ) -> Result<(), IdpError> {
        let addr = listener.local_addr().map_err(IdpError::Serve)?;
        if !never_routed(addr.ip()) {
            return Err(IdpError::Reachable(addr));
        }
        let listener = tls::TlsListener::new(listener, addr, pki, stop.clone())?;
        self.serve_on(listener, stop).await
    }

    async fn serve_on<L>(self, listener: L, stop: CancellationToken) -> Result<(), IdpError>
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let server = axum::serve(listener, self.router())
            .with_graceful_shutdown(stop.clone().cancelled_owned());
        let server = std::future::IntoFuture::into_future(server);
        tokio::select! {
            done = server => done.map_err(IdpError::Serve),
            () = async { stop.cancelled().await; tokio::time::sleep(STOP_GRACE).await } => Ok(()),
        }
    }
}

/// Whether packets to that address stay on this machine: loopback, or 198.18.0.0/15 (RFC 2544).
fn never_routed(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || matches!(ip.octets(), [198, 18 | 19, ..]),
        IpAddr::V6(ip) => ip.is_loopback(),
    }
}

/// Scope of a minted token: whoever has the key needs nobody's leave.
fn everything() -> String {
    let scopes: Vec<&str> = std::iter::once("openid")
        .chain(nogoo9_model::access::SCOPES)
        .collect();
    scopes.join(" ")
}

/// An access token for `user`, signed by the key of the instance at `data_dir`, which
/// need not run. It is like one got by signing in and agreeing to all of nogoo9's scopes.
///
/// # Errors
/// [`IdpError`]: no such user, or no key there.
pub fn mint(
    data_dir: &Path,
    issuer: &str,
    user: &str,
    audience: &str,
    ttl: Duration,
) -> Result<String, IdpError> {
    mint_scoped(data_dir, issuer, user, audience, &everything(), ttl)
}

/// [`mint`] with these scopes alone, separated by spaces.
///
/// # Errors
/// As [`mint`].
pub fn mint_scoped(
    data_dir: &Path,
    issuer: &str,
    user: &str,
    audience: &str,
    scope: &str,
    ttl: Duration,
) -> Result<String, IdpError> {
    let user = users::find(user).ok_or_else(|| IdpError::UnknownUser {
        name: user.to_owned(),
    })?;
    let key = SigningKey::read(data_dir)?;
    let claims = AccessClaims::new(user, issuer, audience, "nogoo9-cli", scope, now(), ttl);
    key.sign("at+jwt", &claims)
}

/// [`mint`] for a subject that cannot sign in here, with the roles of an ordinary user. Subjects of
/// other providers look like anything; what is told so has to work with them all the same.
///
/// # Errors
/// [`IdpError`]: no key there.
pub fn mint_for_subject(
    data_dir: &Path,
    issuer: &str,
    sub: &str,
    audience: &str,
    ttl: Duration,
) -> Result<String, IdpError> {
    let key = SigningKey::read(data_dir)?;
    let [somebody, ..] = &USERS;
    let claims = AccessClaims {
        sub: sub.to_owned(),
        name: sub.to_owned(),
        email: String::new(),
        ..AccessClaims::new(
            somebody,
            issuer,
            audience,
            "nogoo9-cli",
            &everything(),
            now(),
            ttl,
        )
    };
    key.sign("at+jwt", &claims)
}

/// Unix seconds.
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn file<T>(path: &Path, result: std::io::Result<T>) -> Result<T, IdpError> {
    result.map_err(|source| IdpError::File {
        path: path.display().to_string(),
        source,
    })
}

/// `bytes` random bytes in base64url.
fn random(bytes: usize) -> Result<String, IdpError> {
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).map_err(|e| IdpError::Sign(e.to_string()))?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&buffer))
}
