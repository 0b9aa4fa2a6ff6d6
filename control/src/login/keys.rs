//! The keys that sign sessions, and the one that seals refresh tokens: kept in a Secret, the public
//! halves published in a ConfigMap.
//!
//! The first control process makes them. Several that start at once all end up with those whose
//! create came first: a create that finds the name taken reads what is there. Every change is a
//! compare-and-swap of the Secret, by whoever comes first; [`ring`] says what is due.

mod keyring;
pub mod ring;

pub use keyring::{Keyring, keep, look};

use crate::audit;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ObjectMeta, PostParams};
use nogoo9_identity::keys::{KeyError, SigningKey};
use nogoo9_identity::keyset::KeySetError;
use nogoo9_identity::seal::SealKey;
use nogoo9_model::UnixSeconds;
use nogoo9_runtime::audit::{Outcome, What};
use ring::{Next, Retired, Ring, Rotation};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The Secret with the private key.
pub const SECRET: &str = "nogoo9-session-keys";
/// The ConfigMap with the public keys; proxies may mount it.
pub const CONFIG_MAP: &str = "nogoo9-session-jwks";
/// Its key.
pub const JWKS_KEY: &str = "jwks.json";

/// The Secret's key for what is signed with.
const CURRENT: &str = "current.pem";
/// Since when, in Unix seconds.
const SINCE: &str = "current-since";
/// Its successor.
const NEXT: &str = "next.pem";
/// From when on that signs, in Unix seconds.
const FROM: &str = "next-from";
/// Public halves of those before it.
const RETIRED: &str = "retired.json";
/// What refresh tokens are sealed with.
const SEAL: &str = "refresh.key";
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
    /// The public halves cannot be read back, which would be a fault of ours.
    #[error("the session keys cannot be used")]
    Publish(#[source] KeySetError),
    /// Somebody else kept writing.
    #[error("{object} in namespace '{namespace}' kept changing while it was written")]
    Contended {
        /// Kind and name.
        object: &'static str,
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
            Self::Unusable { .. } | Self::Make(_) | Self::Publish(_) => false,
        }
    }
}

/// Reads the keys, or makes them, does what is due at `now`, and publishes the public halves.
///
/// # Errors
/// Why there are none; [`KeyStoreError::is_transient`] tells whether to try again.
pub async fn load_or_create(
    client: kube::Client,
    namespace: &str,
    rotation: &Rotation,
    now: UnixSeconds,
) -> Result<Keyring, KeyStoreError> {
    let kept = load(client, namespace, rotation, now).await?;
    Keyring::new(kept.ring, kept.seal).map_err(KeyStoreError::Publish)
}

async fn load(
    client: kube::Client,
    namespace: &str,
    rotation: &Rotation,
    now: UnixSeconds,
) -> Result<Kept, KeyStoreError> {
    let store = Store {
        secrets: Api::namespaced(client.clone(), namespace),
        config_maps: Api::namespaced(client, namespace),
        namespace,
    };
    let kept = store.keys(rotation, now).await?;
    store.publish(&kept.ring.jwks()).await?;
    Ok(kept)
}

/// What the Secret holds.
struct Kept {
    ring: Ring,
    seal: SealKey,
}

struct Store<'a> {
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
    namespace: &'a str,
}

impl Store<'_> {
    const SECRET: &'static str = "Secret 'nogoo9-session-keys'";
    const CONFIG_MAP: &'static str = "ConfigMap 'nogoo9-session-jwks'";

    async fn keys(&self, rotation: &Rotation, now: UnixSeconds) -> Result<Kept, KeyStoreError> {
        let params = PostParams::default();
        for _ in 0..ATTEMPTS {
            let get = self.secrets.get_opt(SECRET);
            let written = match self.call(Self::SECRET, get).await? {
                None => {
                    let made = SigningKey::generate().map_err(KeyStoreError::Make)?;
                    let kept = Kept {
                        ring: Ring::of(made, Some(now)),
                        seal: SealKey::generate().map_err(KeyStoreError::Make)?,
                    };
                    let secret = Secret {
                        metadata: metadata(SECRET),
                        type_: Some("Opaque".to_owned()),
                        data: Some(written(&kept)?),
                        ..Secret::default()
                    };
                    let create = self.secrets.create(&params, &secret);
                    let made = self.call(Self::SECRET, create).await;
                    self.told(What::KeysMake, made)
                }
                Some(there) => {
                    let ring = self.read(&there)?;
                    let seal = data(&there, SEAL).and_then(SealKey::from_bytes);
                    let turned = ring
                        .turn(rotation, now, SigningKey::generate)
                        .map_err(KeyStoreError::Make)?;
                    if let (None, Some(seal)) = (&turned, &seal) {
                        let seal = seal.clone();
                        return Ok(Kept { ring, seal });
                    }
                    let kept = Kept {
                        ring: turned.unwrap_or(ring),
                        seal: match seal {
                            Some(seal) => seal,
                            None => SealKey::generate().map_err(KeyStoreError::Make)?,
                        },
                    };
                    // Replaced with the resourceVersion that was read: two controls make one successor.
                    let wanted = Secret {
                        data: Some(written(&kept)?),
                        ..there
                    };
                    let replace = self.secrets.replace(SECRET, &params, &wanted);
                    let rotated = self.call(Self::SECRET, replace).await;
                    self.told(What::KeysRotate, rotated)
                }
            };
            match written {
                // What the server has is what counts, also when it is ours and the reply was lost
                // once: it is read again.
                Ok(_) => {}
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(KeyStoreError::Contended {
            object: Self::SECRET,
            namespace: self.namespace.to_owned(),
        })
    }

    /// Leaves a record of keys that were written.
    fn told<T>(&self, what: What, written: Result<T, KeyStoreError>) -> Result<T, KeyStoreError> {
        if written.is_ok() {
            let secret = format!("{}/{SECRET}", self.namespace);
            audit::write(what, None, Some(&secret), Outcome::Ok);
        }
        written
    }

    fn read(&self, secret: &Secret) -> Result<Ring, KeyStoreError> {
        let pem = text(secret, CURRENT).unwrap_or_default();
        let current = SigningKey::from_pem(pem).map_err(|source| KeyStoreError::Unusable {
            namespace: self.namespace.to_owned(),
            source,
        })?;
        // A successor that is half there is as good as none: nothing was signed with it.
        let next = text(secret, NEXT)
            .and_then(|pem| SigningKey::from_pem(pem).ok())
            .zip(seconds(secret, FROM))
            .map(|(key, from)| Next {
                key: Arc::new(key),
                from,
            });
        let retired: Vec<Retired> = data(secret, RETIRED)
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .unwrap_or_default();
        Ok(Ring {
            next,
            retired,
            ..Ring::of(current, seconds(secret, SINCE))
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
            object: Self::CONFIG_MAP,
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

/// What is kept, as the Secret has it.
fn written(kept: &Kept) -> Result<BTreeMap<String, ByteString>, KeyStoreError> {
    let pem = |key: &SigningKey| key.to_pem().map(String::into_bytes);
    let ring = &kept.ring;
    let retired =
        serde_json::to_vec(&ring.retired).map_err(|_| KeyStoreError::Make(KeyError::Encoding))?;
    let mut all = vec![
        (CURRENT, pem(&ring.current).map_err(KeyStoreError::Make)?),
        (RETIRED, retired),
        (SEAL, kept.seal.as_bytes().to_vec()),
    ];
    if let Some(since) = ring.since {
        all.push((SINCE, since.to_string().into_bytes()));
    }
    if let Some(next) = &ring.next {
        all.push((NEXT, pem(&next.key).map_err(KeyStoreError::Make)?));
        all.push((FROM, next.from.to_string().into_bytes()));
    }
    let named = all.into_iter();
    Ok(named
        .map(|(name, bytes)| (name.to_owned(), ByteString(bytes)))
        .collect())
}

fn data<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    let bytes = secret.data.as_ref()?.get(name)?;
    Some(&bytes.0)
}

fn text<'a>(secret: &'a Secret, name: &str) -> Option<&'a str> {
    std::str::from_utf8(data(secret, name)?).ok()
}

fn seconds(secret: &Secret, name: &str) -> Option<UnixSeconds> {
    text(secret, name)?.trim().parse().ok()
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
