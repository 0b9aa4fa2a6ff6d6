//! The key that signs sessions: kept in a Secret, published in a ConfigMap.
//!
//! The first control process makes it. Several that start at once all end up with the one whose
//! create came first: a create that finds the name taken reads what is there.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ObjectMeta, PostParams};
use nogoo9_identity::keys::{KeyError, SigningKey, public_jwks};
use std::collections::BTreeMap;
use std::time::Duration;

/// The Secret with the private key.
pub const SECRET: &str = "nogoo9-session-keys";
/// The ConfigMap with the public keys; proxies may mount it.
pub const CONFIG_MAP: &str = "nogoo9-session-jwks";
/// Its key.
pub const JWKS_KEY: &str = "jwks.json";

/// The Secret's key for what is signed with. A successor would stand beside it.
const CURRENT: &str = "current.pem";
/// Longest wait for one call.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Conflicting writes before giving up; each means that another process wrote meanwhile.
const ATTEMPTS: usize = 5;

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The API server refused, or cannot be reached.
    #[error("{object} in namespace '{namespace}': {source}")]
    Kube {
        /// Kind and name.
        object: &'static str,
        /// Where.
        namespace: String,
        /// What went wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("{object} in namespace '{namespace}': the API server did not answer within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// Kind and name.
        object: &'static str,
        /// Where.
        namespace: String,
    },
    /// The Secret is there and holds no key. Not overwritten: somebody may have put it there.
    #[error(
        "Secret '{SECRET}' in namespace '{namespace}' holds no usable '{CURRENT}': {source}; put a key there, or delete the Secret to get a new one, which signs everybody out"
    )]
    Unusable {
        /// Where.
        namespace: String,
        /// What is wrong with it.
        #[source]
        source: KeyError,
    },
    /// No new key could be made.
    #[error("no signing key could be made")]
    Make(#[source] KeyError),
    /// Somebody else kept writing.
    #[error(
        "ConfigMap '{CONFIG_MAP}' in namespace '{namespace}' kept changing while it was written"
    )]
    Contended {
        /// Where.
        namespace: String,
    },
}

impl KeyStoreError {
    /// Whether trying again later may help.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Contended { .. } => true,
            Self::Kube { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => status.code >= 500 || status.code == 429,
                _ => true,
            },
            Self::Unusable { .. } | Self::Make(_) => false,
        }
    }
}

/// Reads the signing key, or makes it, and publishes its public half.
///
/// # Errors
/// Why there is none; [`KeyStoreError::is_transient`] tells whether to try again.
pub async fn load_or_create(
    client: kube::Client,
    namespace: &str,
) -> Result<SigningKey, KeyStoreError> {
    let store = Store {
        secrets: Api::namespaced(client.clone(), namespace),
        config_maps: Api::namespaced(client, namespace),
        namespace,
    };
    let key = store.key().await?;
    store.publish(&public_jwks([&key])).await?;
    Ok(key)
}

struct Store<'a> {
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
    namespace: &'a str,
}

impl Store<'_> {
    const SECRET: &'static str = "Secret 'nogoo9-session-keys'";
    const CONFIG_MAP: &'static str = "ConfigMap 'nogoo9-session-jwks'";

    async fn key(&self) -> Result<SigningKey, KeyStoreError> {
        if let Some(secret) = self
            .call(Self::SECRET, self.secrets.get_opt(SECRET))
            .await?
        {
            return self.read(&secret);
        }
        let made = SigningKey::generate().map_err(KeyStoreError::Make)?;
        let pem = made.to_pem().map_err(KeyStoreError::Make)?;
        let secret = Secret {
            metadata: metadata(SECRET),
            type_: Some("Opaque".to_owned()),
            data: Some(BTreeMap::from([(
                CURRENT.to_owned(),
                ByteString(pem.into_bytes()),
            )])),
            ..Secret::default()
        };
        let params = PostParams::default();
        let create = self.secrets.create(&params, &secret);
        match self.call(Self::SECRET, create).await {
            // What the server has is what counts, also when it is ours and the reply was lost once.
            Ok(created) => self.read(&created),
            Err(error) if is_conflict(&error) => {
                let secret = self.call(Self::SECRET, self.secrets.get(SECRET)).await?;
                self.read(&secret)
            }
            Err(error) => Err(error),
        }
    }

    fn read(&self, secret: &Secret) -> Result<SigningKey, KeyStoreError> {
        let bytes = secret.data.as_ref().and_then(|data| data.get(CURRENT));
        let pem = bytes
            .and_then(|bytes| std::str::from_utf8(&bytes.0).ok())
            .unwrap_or_default();
        SigningKey::from_pem(pem).map_err(|source| KeyStoreError::Unusable {
            namespace: self.namespace.to_owned(),
            source,
        })
    }

    async fn publish(&self, jwks: &str) -> Result<(), KeyStoreError> {
        let data = BTreeMap::from([(JWKS_KEY.to_owned(), jwks.to_owned())]);
        let params = PostParams::default();
        for _ in 0..ATTEMPTS {
            let get = self.config_maps.get_opt(CONFIG_MAP);
            let write = match self.call(Self::CONFIG_MAP, get).await? {
                Some(there) if there.data.as_ref() == Some(&data) => return Ok(()),
                // Replaced with the resourceVersion that was read, so nothing is overwritten unseen.
                Some(there) => {
                    let wanted = ConfigMap {
                        data: Some(data.clone()),
                        ..there
                    };
                    let replace = self.config_maps.replace(CONFIG_MAP, &params, &wanted);
                    self.call(Self::CONFIG_MAP, replace).await
                }
                None => {
                    let wanted = ConfigMap {
                        metadata: metadata(CONFIG_MAP),
                        data: Some(data.clone()),
                        ..ConfigMap::default()
                    };
                    let create = self.config_maps.create(&params, &wanted);
                    self.call(Self::CONFIG_MAP, create).await
                }
            };
            match write {
                Ok(_) => return Ok(()),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(KeyStoreError::Contended {
            namespace: self.namespace.to_owned(),
        })
    }

    async fn call<T>(
        &self,
        object: &'static str,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, KeyStoreError> {
        let namespace = || self.namespace.to_owned();
        match tokio::time::timeout(TIMEOUT, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(KeyStoreError::Kube {
                object,
                namespace: namespace(),
                source: Box::new(source),
            }),
            Err(_) => Err(KeyStoreError::Timeout {
                object,
                namespace: namespace(),
            }),
        }
    }
}

fn is_conflict(error: &KeyStoreError) -> bool {
    matches!(error, KeyStoreError::Kube { source, .. }
        if matches!(source.as_ref(), kube::Error::Api(status) if status.code == 409))
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = BTreeMap::from([("app.kubernetes.io/part-of".to_owned(), "nogoo9".to_owned())]);
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}
