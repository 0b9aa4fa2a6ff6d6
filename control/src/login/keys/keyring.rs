//! The keys in use by this process, and the task that keeps them as the Secret has them.

use super::load;
use super::ring::{Ring, Rotation};
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
    seal: SealKey,
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
            seal,
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
    pub fn seal(&self) -> &SealKey {
        &self.0.seal
    }

    fn replace(&self, ring: Ring) -> Result<(), KeySetError> {
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
        match load(client.clone(), &namespace, &rotation, clock.now()).await {
            Ok(kept) => {
                if let Err(error) = keyring.replace(kept.ring) {
                    tracing::error!(%error, "the session keys cannot be used");
                }
            }
            // Those in use stay in use.
            Err(error) => tracing::warn!(%error, "the session keys cannot be looked at"),
        }
    }
}
