//! The keys that sessions are signed with, over time. Pure: `now` is an argument.
//!
//! A successor is published for a quarter of an hour before anything is signed with it, so that every
//! proxy knows it by then. The one before it verifies until the last token that it has signed is
//! over. So a rotation signs nobody out.

use nogoo9_identity::keys::{KeyError, SigningKey};
use nogoo9_model::UnixSeconds;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// How long a key is published before its first use, in seconds.
pub const LEAD: UnixSeconds = 15 * 60;

/// When keys change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// How long one is signed with, in seconds (`--session-key-rotation`); `None`: for ever.
    pub every: Option<UnixSeconds>,
    /// Longest life of anything that is signed, in seconds.
    pub life: UnixSeconds,
}

/// The keys of one moment.
#[derive(Debug, Clone)]
pub struct Ring {
    /// Signs, unless the successor's time has come.
    pub current: Arc<SigningKey>,
    /// Since when it signs; `None`: it is not known.
    pub since: Option<UnixSeconds>,
    /// Its successor, if there is one already.
    pub next: Option<Next>,
    /// Public halves of those before it.
    pub retired: Vec<Retired>,
}

/// A key that is published and not used yet.
#[derive(Debug, Clone)]
pub struct Next {
    /// The key.
    pub key: Arc<SigningKey>,
    /// When it begins to sign.
    pub from: UnixSeconds,
}

/// The public half of a key that signs no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// As published.
    pub jwk: Value,
    /// When the last token that it signed is over.
    pub until: UnixSeconds,
}

impl Ring {
    /// One key, with nothing before or after it.
    #[must_use]
    pub fn of(key: SigningKey, since: Option<UnixSeconds>) -> Self {
        Self {
            current: Arc::new(key),
            since,
            next: None,
            retired: Vec::new(),
        }
    }

    /// The key that signs at `now`.
    #[must_use]
    pub fn signing(&self, now: UnixSeconds) -> &Arc<SigningKey> {
        match &self.next {
            Some(next) if now >= next.from => &next.key,
            _ => &self.current,
        }
    }

    /// What is published, as a JWKS document.
    #[must_use]
    pub fn jwks(&self) -> String {
        let next = self.next.as_ref().map(|next| next.key.public_jwk());
        let retired = self.retired.iter().map(|retired| retired.jwk.clone());
        let keys: Vec<Value> = std::iter::once(self.current.public_jwk())
            .chain(next)
            .chain(retired)
            .collect();
        json!({ "keys": keys }).to_string()
    }

    /// The keys after what is due at `now`; `None`: nothing is.
    ///
    /// # Errors
    /// A successor is due and none can be made.
    pub fn turn(
        &self,
        rotation: &Rotation,
        now: UnixSeconds,
        make: impl FnOnce() -> Result<SigningKey, KeyError>,
    ) -> Result<Option<Self>, KeyError> {
        let mut ring = self.clone();
        let mut changed = false;
        if ring.since.is_none() {
            ring.since = Some(now);
            changed = true;
        }
        if let Some(next) = ring.next.take_if(|next| now >= next.from) {
            ring.retired.push(Retired {
                jwk: ring.current.public_jwk(),
                // Its last token may have been signed a moment before, by a clock that is behind.
                until: next.from.max(now).saturating_add(rotation.life),
            });
            ring.current = next.key;
            ring.since = Some(next.from);
            changed = true;
        }
        let before = ring.retired.len();
        ring.retired.retain(|retired| now < retired.until);
        changed |= ring.retired.len() < before;
        let due = rotation
            .every
            .is_some_and(|every| now >= ring.since.unwrap_or(now).saturating_add(every));
        if due && ring.next.is_none() {
            ring.next = Some(Next {
                key: Arc::new(make()?),
                from: now.saturating_add(LEAD),
            });
            changed = true;
        }
        Ok(changed.then_some(ring))
    }
}

#[cfg(test)]
mod tests;
