//! Secrets read from files: never printed, compared in constant time.

use std::{fmt, path::Path};

use subtle::ConstantTimeEq as _;

/// Shortest shared token that is accepted, in bytes: 128 bits written in base64.
const MIN_TOKEN_BYTES: usize = 22;
/// Longest secret file that is read, in bytes: a wrong path must not fill memory.
const MAX_SECRET_BYTES: u64 = 64 * 1024;

/// A secret string. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Secret(String);

/// Why a secret file could not be used. The message never holds the secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is empty, too long or not text.
    #[error("{path} {reason}")]
    Content {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Secret {
    /// Takes a secret from memory.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Reads a secret from a file; surrounding white space (the final newline that
    /// editors add) is not part of it.
    ///
    /// # Errors
    /// The file is unreadable, empty, over 64 KiB or not visible ASCII.
    pub fn read(path: &Path) -> Result<Self, SecretError> {
        let name = || path.display().to_string();
        let content = |reason| SecretError::Content {
            path: name(),
            reason,
        };
        let read_error = |source| SecretError::Read {
            path: name(),
            source,
        };
        let meta = std::fs::metadata(path).map_err(read_error)?;
        if meta.len() > MAX_SECRET_BYTES {
            return Err(content("is over 64 KiB, which is no secret"));
        }
        let bytes = std::fs::read(path).map_err(read_error)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| content("is not text; write the secret as ASCII"))?;
        let secret = text.trim();
        if secret.is_empty() {
            return Err(content("is empty; write the secret into it"));
        }
        if !secret.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(content(
                "holds spaces or control characters; write one secret of visible ASCII",
            ));
        }
        Ok(Self(secret.to_owned()))
    }

    /// Reads a shared token: as [`Secret::read`], and at least 22 characters long.
    ///
    /// # Errors
    /// As [`Secret::read`], and when it is short enough to be guessed.
    pub fn read_token(path: &Path) -> Result<Self, SecretError> {
        let secret = Self::read(path)?;
        if secret.0.len() < MIN_TOKEN_BYTES {
            return Err(SecretError::Content {
                path: path.display().to_string(),
                reason: "is shorter than 22 characters; make one with: openssl rand -base64 32",
            });
        }
        Ok(secret)
    }

    /// The secret itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in time that depends on the lengths alone.
    pub fn matches(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
