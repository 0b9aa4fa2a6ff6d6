//! Where public keys come from, and how they are read once.

use crate::http_client::{Roots, http_client, is_loopback};
use crate::keyset::{KeySet, KeySetError};
use serde::Deserialize;
use std::path::PathBuf;
use tokio::io::AsyncReadExt;
use url::Url;

/// Longest document read, in bytes. Real ones have a few thousand.
const MAX_DOCUMENT: usize = 256 * 1024;

/// Where a key set is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// At the `jwks_uri` that this OpenID Connect issuer's discovery document names.
    Issuer {
        /// The issuer, as its tokens have it.
        issuer: String,
        /// Who may vouch for it.
        roots: Roots,
    },
    /// At this address.
    Url(Url),
    /// In this file: a mounted ConfigMap, say.
    File(PathBuf),
    /// At this address, which knows newest keys first; while it does not answer, in this file.
    UrlOrFile(Url, PathBuf),
}

/// Why keys could not be read. Texts name the address or file; addresses lose their credentials.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Not a URL at all.
    #[error("not an http or https URL")]
    NotAUrl,
    /// A plain-http address that is not on loopback, where anybody on the way could put in a key.
    #[error("{url} must be https: keys fetched over plain http can be forged on the way")]
    Insecure {
        /// Where.
        url: String,
    },
    /// No answer, or a broken one.
    #[error("{url} does not answer")]
    Unreachable {
        /// Where.
        url: String,
        /// What went wrong.
        #[source]
        source: reqwest::Error,
    },
    /// An answer other than 200.
    #[error("{url} answered {status}")]
    Status {
        /// Where.
        url: String,
        /// With what.
        status: u16,
    },
    /// A file that cannot be read.
    #[error("{} cannot be read", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A longer document than keys take.
    #[error("{place} is longer than {MAX_DOCUMENT} bytes")]
    TooLong {
        /// Where.
        place: String,
    },
    /// A discovery document that is not one.
    #[error("{url} is not an OpenID Connect discovery document")]
    NotDiscovery {
        /// Where.
        url: String,
    },
    /// The discovery document speaks for another issuer (RFC 8414, section 3.3).
    #[error(
        "the provider calls itself '{found}', the configured issuer is '{wanted}': they must be the same, to the last slash"
    )]
    OtherIssuer {
        /// As configured.
        wanted: String,
        /// As published.
        found: String,
    },
    /// A document without usable keys.
    #[error("{place}: {source}")]
    Keys {
        /// Where.
        place: String,
        /// What is wrong with it.
        #[source]
        source: KeySetError,
    },
}

/// What of an issuer's discovery document matters here.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Discovery {
    /// Must be the issuer it was asked of.
    pub issuer: String,
    /// Where its keys are.
    pub jwks_uri: String,
}

impl KeySource {
    /// Reads a flag's value: an address if it looks like one, else a file; or `ADDRESS,FILE`.
    ///
    /// # Errors
    /// An address that is none, or that is not safe to take keys from.
    pub fn from_flag(text: &str) -> Result<Self, SourceError> {
        if let Some((url, file)) = text.split_once(',') {
            let (url, file) = (parse(url.trim())?, file.trim());
            secure(&url)?;
            return Ok(Self::UrlOrFile(url, PathBuf::from(file)));
        }
        if text.contains("://") {
            let url = parse(text)?;
            secure(&url)?;
            return Ok(Self::Url(url));
        }
        Ok(Self::File(PathBuf::from(text)))
    }

    /// Reads the keys, now.
    ///
    /// # Errors
    /// The source is away or does not hold a key set.
    pub async fn load(&self) -> Result<KeySet, SourceError> {
        match self {
            Self::Issuer { issuer, roots } => {
                let found = discover(issuer, roots).await?;
                load_url(&parse(&found.jwks_uri)?, roots).await
            }
            Self::Url(url) => load_url(url, &Roots::default()).await,
            Self::File(path) => load_file(path).await,
            Self::UrlOrFile(url, path) => match load_url(url, &Roots::default()).await {
                Ok(keys) => Ok(keys),
                // What both say is the address's: the file is only there to bridge its absence.
                Err(error) => load_file(path).await.map_err(|_| error),
            },
        }
    }
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Issuer { issuer, .. } => match Url::parse(issuer) {
                Ok(url) => f.write_str(&shown(&url)),
                Err(_) => f.write_str("the issuer"),
            },
            Self::Url(url) | Self::UrlOrFile(url, _) => f.write_str(&shown(url)),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Asks an issuer for its discovery document (OpenID Connect Discovery 1.0, section 4).
///
/// # Errors
/// The issuer is away, or answers for somebody else.
pub async fn discover(issuer: &str, roots: &Roots) -> Result<Discovery, SourceError> {
    let base = issuer.strip_suffix('/').unwrap_or(issuer);
    let url = parse(&format!("{base}/.well-known/openid-configuration"))?;
    let body = get(&url, roots).await?;
    let found: Discovery = serde_json::from_slice(&body)
        .map_err(|_| SourceError::NotDiscovery { url: shown(&url) })?;
    if found.issuer != issuer {
        return Err(SourceError::OtherIssuer {
            wanted: issuer.to_owned(),
            found: found.issuer,
        });
    }
    Ok(found)
}

async fn load_url(url: &Url, roots: &Roots) -> Result<KeySet, SourceError> {
    let body = get(url, roots).await?;
    KeySet::parse(&body).map_err(|source| SourceError::Keys {
        place: shown(url),
        source,
    })
}

async fn load_file(path: &PathBuf) -> Result<KeySet, SourceError> {
    let document = read_file(path).await?;
    KeySet::parse(&document).map_err(|source| SourceError::Keys {
        place: path.display().to_string(),
        source,
    })
}

async fn get(url: &Url, roots: &Roots) -> Result<Vec<u8>, SourceError> {
    secure(url)?;
    let unreachable = |source: reqwest::Error| SourceError::Unreachable {
        url: shown(url),
        source: source.without_url(),
    };
    let client = http_client(url, roots).map_err(unreachable)?;
    let request = client.get(url.clone());
    let request = request.header(http::header::ACCEPT, "application/json");
    let mut answer = request.send().await.map_err(unreachable)?;
    if answer.status() != http::StatusCode::OK {
        return Err(SourceError::Status {
            url: shown(url),
            status: answer.status().as_u16(),
        });
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_DOCUMENT {
            return Err(SourceError::TooLong { place: shown(url) });
        }
    }
    Ok(body)
}

async fn read_file(path: &PathBuf) -> Result<Vec<u8>, SourceError> {
    let failed = |source| SourceError::File {
        path: path.clone(),
        source,
    };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut document = Vec::new();
    let limit = MAX_DOCUMENT as u64 + 1;
    file.take(limit)
        .read_to_end(&mut document)
        .await
        .map_err(failed)?;
    if document.len() > MAX_DOCUMENT {
        return Err(SourceError::TooLong {
            place: path.display().to_string(),
        });
    }
    Ok(document)
}

fn parse(text: &str) -> Result<Url, SourceError> {
    let url = Url::parse(text).map_err(|_| SourceError::NotAUrl)?;
    let usable = matches!(url.scheme(), "http" | "https") && url.has_host();
    if usable {
        Ok(url)
    } else {
        Err(SourceError::NotAUrl)
    }
}

fn secure(url: &Url) -> Result<(), SourceError> {
    if url.scheme() == "https" || is_loopback(url) || is_in_cluster(url) {
        return Ok(());
    }
    Err(SourceError::Insecure { url: shown(url) })
}

/// A Service of the same cluster: control's key endpoint is plain http there, behind NetworkPolicy,
/// as everything between proxy and control is.
fn is_in_cluster(url: &Url) -> bool {
    url.host_str().is_some_and(|host| {
        !host.contains('.') || host.ends_with(".svc") || host.ends_with(".svc.cluster.local")
    })
}

/// An address as it may be shown: without credentials and query.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}
