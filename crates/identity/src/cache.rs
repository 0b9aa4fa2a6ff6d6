//! Verified tokens, so that a signature is checked once and not on every request.
//!
//! Only tokens that verified are kept, so nobody can fill it without valid tokens. An entry counts
//! only under the key set that verified it: a key withdrawn by its issuer takes its tokens along.
//! Expiry and audience are checked on every hit by whoever reads.

use moka::sync::Cache;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Entries kept. At some 500 bytes each this is 10 MB, for 20,000 callers at once.
const CAPACITY: u64 = 20_000;

/// Bounded map from the SHA-256 of a token to what it says; the token itself is not kept.
pub(crate) struct TokenCache<T> {
    entries: Cache<[u8; 32], Entry<T>>,
}

impl<T> std::fmt::Debug for TokenCache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenCache").finish_non_exhaustive()
    }
}

struct Entry<T> {
    generation: u64,
    value: Arc<T>,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            generation: self.generation,
            value: Arc::clone(&self.value),
        }
    }
}

impl<T: Send + Sync + 'static> TokenCache<T> {
    pub(crate) fn new() -> Self {
        Self::with_capacity(CAPACITY)
    }

    fn with_capacity(entries: u64) -> Self {
        Self {
            entries: Cache::new(entries),
        }
    }

    /// What `token` said when it was verified under key set `generation`; else what `verify` finds,
    /// which is kept if it is a success.
    pub(crate) fn get_or_verify<E>(
        &self,
        token: &str,
        generation: u64,
        verify: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(entry) = self.entries.get(&key)
            && entry.generation == generation
        {
            return Ok(entry.value);
        }
        let value = Arc::new(verify()?);
        self.entries.insert(
            key,
            Entry {
                generation,
                value: Arc::clone(&value),
            },
        );
        Ok(value)
    }

    /// Forgets a token that has run out, to make room.
    pub(crate) fn forget(&self, token: &str) {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.entries.invalidate(&key);
    }
}

#[cfg(test)]
mod tests;
