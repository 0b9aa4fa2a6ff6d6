//! Sealing of what control keeps and nobody may read: the provider's refresh tokens.
//!
//! ChaCha20-Poly1305 with a random nonce. What is sealed is bound to its context, so that it opens
//! nowhere else: one session's refresh token cannot be moved into another session's record.

use crate::keys::KeyError;
use data_encoding::BASE64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// Length of a key, in bytes.
pub const KEY_LEN: usize = 32;
/// Longest text that is opened, in characters: far more than any refresh token takes.
const MAX_LEN: usize = 64 * 1024;

/// Why something could not be sealed or opened. Says nothing of what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Altered, sealed by another key, or for another context.
    #[error("it was sealed by another key, for something else, or altered")]
    Broken,
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes")]
    NoEntropy,
}

/// A secret key. Only control has one.
#[derive(Clone)]
pub struct SealKey([u8; KEY_LEN]);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealKey").finish_non_exhaustive()
    }
}

impl SealKey {
    /// A new key.
    ///
    /// # Errors
    /// No random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_LEN];
        getrandom::fill(&mut bytes).map_err(|_| KeyError::NoEntropy)?;
        Ok(Self(bytes))
    }

    /// The key of these bytes; `None` if there are not [`KEY_LEN`] of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes, for a Secret.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Seals `text` for `context`.
    ///
    /// # Errors
    /// No random bytes.
    pub fn seal(&self, text: &str, context: &str) -> Result<String, SealError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoEntropy)?;
        let mut sealed = text.as_bytes().to_vec();
        self.key()?
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context.as_bytes()),
                &mut sealed,
            )
            .map_err(|_| SealError::Broken)?;
        Ok(BASE64.encode(&[&nonce[..], &sealed].concat()))
    }

    /// Opens what was sealed for the same context.
    ///
    /// # Errors
    /// It was not, or not by this key.
    pub fn open(&self, sealed: &str, context: &str) -> Result<String, SealError> {
        if sealed.len() > MAX_LEN {
            return Err(SealError::Broken);
        }
        let mut bytes = BASE64
            .decode(sealed.as_bytes())
            .map_err(|_| SealError::Broken)?;
        let (nonce, text) = bytes
            .split_first_chunk_mut::<NONCE_LEN>()
            .ok_or(SealError::Broken)?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let text = self
            .key()?
            .open_in_place(nonce, Aad::from(context.as_bytes()), text)
            .map_err(|_| SealError::Broken)?;
        std::str::from_utf8(text)
            .map(ToOwned::to_owned)
            .map_err(|_| SealError::Broken)
    }

    fn key(&self) -> Result<LessSafeKey, SealError> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.0)
            .map(LessSafeKey::new)
            .map_err(|_| SealError::Broken)
    }
}
