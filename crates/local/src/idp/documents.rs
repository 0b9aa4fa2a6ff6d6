//! Client id metadata documents: the id of an application is the address of a document about it
//! (draft-ietf-oauth-client-id-metadata-document). Read anew for every sign-in; nothing is kept.

use std::time::Duration;

use reqwest::{Certificate, redirect::Policy};
use serde::Deserialize;
use tokio::sync::Semaphore;
use url::Url;

use super::clients::{Application, is_loopback, is_redirect_uri};

/// For the whole of one document.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest document, in bytes.
const MAX_DOCUMENT: usize = 8 * 1024;
/// Documents read at once; whoever comes beyond waits for a turn, within its own time.
const AT_ONCE: usize = 4;
/// Most redirect URIs of one application.
pub(super) const MAX_URIS: usize = 20;

/// Why a document is of no use, for the person whose application it is about.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unusable {
    #[error(
        "an address that is a client_id is https (or http on this machine), with a path, written as \
         browsers write it, and without credentials or fragment"
    )]
    Address,
    #[error("nothing could be read there: {0}")]
    Unread(String),
    #[error("there is no document there, but status {0}")]
    Status(u16),
    #[error("it is larger than {MAX_DOCUMENT} bytes")]
    TooLarge,
    #[error("it is no JSON with the fields of client metadata: {0}")]
    Malformed(String),
    #[error("its client_id is another one than its address")]
    AnothersId,
    #[error(
        "its redirect_uris must be 1 to {MAX_URIS}, each https or on this machine, without \
         credentials or fragment"
    )]
    RedirectUris,
    #[error("applications are public here: token_endpoint_auth_method must be none")]
    Confidential,
}

/// What of a document counts.
#[derive(Deserialize)]
struct Document {
    client_id: String,
    client_name: Option<String>,
    redirect_uris: Vec<String>,
    grant_types: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
    client_secret: Option<serde::de::IgnoredAny>,
}

/// Reads documents.
#[derive(Debug)]
pub(super) struct Documents {
    /// Authorities beside the public ones that may vouch for the hosts of documents.
    roots: Vec<Certificate>,
    turns: Semaphore,
}

/// Whether a `client_id` is the address of a document.
pub(super) fn is_address(client_id: &str) -> bool {
    client_id.starts_with("https://") || client_id.starts_with("http://")
}

impl Documents {
    /// Trusts the public authorities and those in `pem`.
    pub(super) fn new(pem: Option<&[u8]>) -> Result<Self, reqwest::Error> {
        let roots = pem.map(Certificate::from_pem_bundle).transpose()?;
        Ok(Self {
            roots: roots.unwrap_or_default(),
            turns: Semaphore::new(AT_ONCE),
        })
    }

    /// The application that the document at `client_id` is about.
    pub(super) async fn read(&self, client_id: &str) -> Result<Application, Unusable> {
        let url = address(client_id).ok_or(Unusable::Address)?;
        let read = async {
            let _turn = self.turns.acquire().await;
            self.fetch(url).await
        };
        let document = tokio::time::timeout(TIMEOUT, read)
            .await
            .map_err(|_| Unusable::Unread(format!("no answer within {TIMEOUT:?}")))??;
        application(client_id, &document)
    }

    async fn fetch(&self, url: Url) -> Result<Vec<u8>, Unusable> {
        let unread = |error: reqwest::Error| Unusable::Unread(error.without_url().to_string());
        let client = self.client(&url).map_err(unread)?;
        let asked = client.get(url).header("accept", "application/json");
        let mut answer = asked.send().await.map_err(unread)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(Unusable::Status(answer.status().as_u16()));
        }
        let mut document = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(unread)? {
            if document.len() + chunk.len() > MAX_DOCUMENT {
                return Err(Unusable::TooLarge);
            }
            document.extend_from_slice(&chunk);
        }
        Ok(document)
    }

    /// Follows no redirect: whoever answers from elsewhere is not who the address names.
    fn client(&self, url: &Url) -> Result<reqwest::Client, reqwest::Error> {
        // The binaries choose theirs in main; a second choice is refused and changes nothing.
        let _chosen = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .user_agent(concat!("nogoo9/", env!("CARGO_PKG_VERSION")));
        if is_loopback(url) {
            builder = builder.no_proxy();
        }
        let roots = self.roots.iter().cloned();
        roots
            .fold(builder, reqwest::ClientBuilder::add_root_certificate)
            .build()
    }
}

fn address(client_id: &str) -> Option<Url> {
    let url = Url::parse(client_id).ok()?;
    let safe = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
    // As browsers write it: two spellings of one address must not be two applications.
    let plain = url.as_str() == client_id
        && url.path() != "/"
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none();
    (safe && plain).then_some(url)
}

/// What the document at `client_id` says.
fn application(client_id: &str, document: &[u8]) -> Result<Application, Unusable> {
    let document: Document =
        serde_json::from_slice(document).map_err(|error| Unusable::Malformed(error.to_string()))?;
    if document.client_id != client_id {
        return Err(Unusable::AnothersId);
    }
    let public = document
        .token_endpoint_auth_method
        .is_none_or(|method| method == "none");
    if !public || document.client_secret.is_some() {
        return Err(Unusable::Confidential);
    }
    let uris = document.redirect_uris;
    if !(1..=MAX_URIS).contains(&uris.len()) || !uris.iter().all(|uri| is_redirect_uri(uri)) {
        return Err(Unusable::RedirectUris);
    }
    let grants = document.grant_types.unwrap_or_default();
    Ok(Application {
        id: client_id.to_owned(),
        name: document.client_name,
        redirect_uris: uris,
        refreshes: grants.iter().any(|grant| grant == "refresh_token"),
        named_beforehand: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_one_spelling() {
        for good in [
            "https://app.test/client.json",
            "https://app.test:8443/a/b?c=d",
            "http://127.0.0.1:9/client.json",
            "http://localhost/client.json",
        ] {
            assert!(address(good).is_some(), "{good}");
        }
        for bad in [
            "https://app.test",
            "https://app.test/",
            "https://APP.test/client.json",
            "https://app.test/a/../client.json",
            "https://app.test:443/client.json",
            "https://app.test/client.json#x",
            "https://me@app.test/client.json",
            "http://app.test/client.json",
            "http://localhost.evil.test/client.json",
            "file:///etc/passwd",
            "",
        ] {
            assert!(address(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_document_speaks_for_itself_alone() {
        let id = "https://app.test/client.json";
        let read = |change: serde_json::Value| {
            let mut document = serde_json::json!({
                "client_id": id, "client_name": "App", "redirect_uris": ["http://localhost/cb"],
            });
            for (name, value) in change.as_object().unwrap() {
                document[name] = value.clone();
            }
            application(id, document.to_string().as_bytes())
        };
        let good = read(serde_json::json!({})).unwrap();
        assert_eq!((good.name.as_deref(), good.refreshes), (Some("App"), false));
        let grants = serde_json::json!({"grant_types": ["authorization_code", "refresh_token"]});
        assert!(read(grants).unwrap().refreshes);
        for (change, why) in [
            (
                serde_json::json!({"client_id": "https://other.test/client.json"}),
                Unusable::AnothersId,
            ),
            (
                serde_json::json!({"redirect_uris": []}),
                Unusable::RedirectUris,
            ),
            (
                serde_json::json!({"redirect_uris": ["http://app.test/cb"]}),
                Unusable::RedirectUris,
            ),
            (
                serde_json::json!({"token_endpoint_auth_method": "client_secret_post"}),
                Unusable::Confidential,
            ),
            (
                serde_json::json!({"client_secret": "x"}),
                Unusable::Confidential,
            ),
        ] {
            assert_eq!(read(change.clone()).unwrap_err(), why, "{change}");
        }
        for document in ["", "[]", "{}"] {
            let why = application(id, document.as_bytes()).unwrap_err();
            assert!(matches!(why, Unusable::Malformed(_)), "{document}: {why}");
        }
    }
}
