//! The keys in use by this process, and the task that keeps them as the Secret has them.

use super::ring::{Ring, Rotation};
use super::{KeyStoreError, load};
use arc_swap::ArcSwap;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::{KeyError, SigningKey};
use nogoo9_identity::keyset::{KeySet, KeySetError};
use nogoo9_identity::seal::SealKey;
use nogoo9_model::UnixSeconds;
use nogoo9_runtime::kube::ServerClock;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the Secret is looked at: far more often than a successor is published before its first
/// use.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The keys. Clones share them.
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    ring: ArcSwap<Ring>,
    public: Keys,
    seal: ArcSwap<SealKey>,
}

impl Keyring {
    /// Of these keys.
    ///
    /// # Errors
    /// The public halves cannot be read back, which would be a fault of ours.
    pub fn new(ring: Ring, seal: SealKey) -> Result<Self, KeySetError> {
        let public = KeySet::parse(ring.jwks().as_bytes())?;
        Ok(Self(Arc::new(Inner {
            public: Keys::fixed(public),
            ring: ArcSwap::from_pointee(ring),
            seal: ArcSwap::from_pointee(seal),
        })))
    }

    /// Of one key that stays, and a new one to seal with: for one process alone.
    ///
    /// # Errors
    /// No random bytes.
    pub fn alone(key: SigningKey) -> Result<Self, KeyError> {
        let seal = SealKey::generate()?;
        Self::new(Ring::of(key, None), seal).map_err(|_| KeyError::Encoding)
    }

    /// The key that signs at `now`.
    #[must_use]
    pub fn signing(&self, now: UnixSeconds) -> Arc<SigningKey> {
        self.0.ring.load().signing(now).clone()
    }

    /// The public halves, kept up to date: what control itself verifies with.
    #[must_use]
    pub fn public(&self) -> &Keys {
        &self.0.public
    }

    /// What is published to proxies.
    #[must_use]
    pub fn jwks(&self) -> String {
        self.0.ring.load().jwks()
    }

    /// What refresh tokens are sealed with.
    #[must_use]
    pub fn seal(&self) -> Arc<SealKey> {
        self.0.seal.load_full()
    }

    /// Takes what the Secret holds: all of it, since whoever deletes the Secret wants everybody out.
    fn replace(&self, ring: Ring, seal: SealKey) -> Result<(), KeySetError> {
        let jwks = ring.jwks();
        if self.jwks() != jwks {
            // Verified with before it is signed with.
            self.0.public.replace(KeySet::parse(jwks.as_bytes())?);
            tracing::info!(
                current = ring.current.kid(),
                next = ring.next.is_some(),
                "session keys have changed"
            );
        }
        self.0.ring.store(Arc::new(ring));
        self.0.seal.store(Arc::new(seal));
        Ok(())
    }
}

/// Keeps `keyring` as the Secret has it, and does what is due there, until it is told to stop. Every
/// control does: whoever comes first writes, and the others read it.
pub async fn keep(
    keyring: Keyring,
    client: kube::Client,
    namespace: String,
    rotation: Rotation,
    clock: ServerClock,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = stop.cancelled() => return,
        }
        let looked = look(&keyring, client.clone(), &namespace, &rotation, clock.now());
        if let Err(error) = looked.await {
            // Those in use stay in use.
            tracing::warn!(%error, "the session keys cannot be looked at");
        }
    }
}

/// Does once what [`keep`] does every minute.
///
/// # Errors
/// Why the Secret cannot be read or written; the keys in use stay in use.
pub async fn look(
    keyring: &Keyring,
    client: kube::Client,
    namespace: &str,
    rotation: &Rotation,
    now: UnixSeconds,
) -> Result<(), KeyStoreError> {
    let kept = load(client, namespace, rotation, now).await?;
    keyring
        .replace(kept.ring, kept.seal)
        .map_err(KeyStoreError::Publish)
}
