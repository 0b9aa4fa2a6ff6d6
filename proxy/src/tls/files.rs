//! Where certificates are: two files, or a folder of them.

use super::certificates::{Bad, Certificate};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes: a chain of certificates has a few thousand.
const MOST_BYTES: u64 = 1024 * 1024;
/// Most certificates of a folder.
const MOST: usize = 1000;
/// What a certificate is called that was named by itself.
const ALONE: &str = "default";

/// Where certificates are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// A chain and its key (`--tls-cert`, `--tls-key`): shown to whoever asks for no name that another
    /// one stands for.
    pub alone: Option<(PathBuf, PathBuf)>,
    /// A folder (`--tls-dir`) of `NAME.crt` and `NAME.key`, and of folders with `tls.crt` and `tls.key`,
    /// as Secrets of certificates are mounted.
    pub folder: Option<PathBuf>,
}

/// Chain and key as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    chain: Vec<u8>,
    key: Vec<u8>,
}

/// A file or folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is no certificate.
    #[error("certificate {name}: {bad}")]
    Bad {
        /// Which.
        name: String,
        /// Why.
        bad: Bad,
    },
    /// There is none.
    #[error(
        "no certificate: a folder needs NAME.crt and NAME.key, or folders with tls.crt and tls.key"
    )]
    None,
    /// There are too many.
    #[error("more than {MOST} certificates")]
    TooMany,
}

impl Written {
    pub(super) fn read(&self, name: &str) -> Result<Certificate, Bad> {
        Certificate::read(name, &self.chain, &self.key)
    }

    /// What tells it from another one.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.chain.len().to_be_bytes());
        hash.update(&self.chain);
        hash.update(&self.key);
        hash.finalize().into()
    }
}

/// Certificates by name, each as it is written, or why it cannot be read.
pub(super) type All = BTreeMap<String, Result<Written, Unreadable>>;

impl Source {
    /// All that is there, by name, or why one cannot be read; the one that was named by itself has the
    /// least name.
    ///
    /// # Errors
    /// The folder cannot be read, or has too many.
    pub(super) fn written(&self) -> Result<All, Unreadable> {
        let mut all = BTreeMap::new();
        if let Some((chain, key)) = &self.alone {
            // Nothing comes in front of it, since names of files are not empty.
            all.insert(String::new(), pair(chain, key));
        }
        let Some(folder) = &self.folder else {
            return Ok(all);
        };
        let failed = |error| io_error(folder, error);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            // What begins with a dot is how a mount keeps its versions.
            if file.starts_with('.') {
                continue;
            }
            let (name, chain, key) = if path.is_dir() {
                (file, path.join("tls.crt"), path.join("tls.key"))
            } else if let Some(name) = file.strip_suffix(".crt") {
                (name, path.clone(), path.with_extension("key"))
            } else {
                continue;
            };
            // One that nobody may look at is one that cannot be read.
            if !path.is_dir() || !matches!(chain.try_exists(), Ok(false)) {
                all.insert(name.to_owned(), pair(&chain, &key));
            }
            if all.len() > MOST {
                return Err(Unreadable::TooMany);
            }
        }
        Ok(all)
    }

    /// Whether the key of a certificate is there that [`Source::written`] does not find; then why it is
    /// none.
    pub(super) fn half(&self, name: &str) -> Option<Unreadable> {
        let folder = self.folder.as_ref()?;
        let chain = folder.join(format!("{name}.crt"));
        let within = folder.join(name).join("tls.crt");
        let chain = [chain, within]
            .into_iter()
            .find(|chain| chain.with_extension("key").exists())?;
        Some(io_error(&chain, io::ErrorKind::NotFound.into()))
    }
}

/// What is said of a certificate.
pub(super) fn shown_name(name: &str) -> &str {
    if name.is_empty() { ALONE } else { name }
}

fn pair(chain: &Path, key: &Path) -> Result<Written, Unreadable> {
    Ok(Written {
        chain: contents(chain)?,
        key: contents(key)?,
    })
}

fn contents(path: &Path) -> Result<Vec<u8>, Unreadable> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| io_error(path, error))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io_error(path, io::ErrorKind::FileTooLarge.into()));
    }
    Ok(bytes)
}

fn io_error(path: &Path, error: io::Error) -> Unreadable {
    Unreadable::Io {
        path: path.to_owned(),
        error,
    }
}
