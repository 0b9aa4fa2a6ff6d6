//! The data folder: where things are in it, and that one instance uses it at a time.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use super::{UpError, logs::LogFile};
use crate::files;

/// Marks a data folder, and is locked while it is in use.
const LOCK_FILE: &str = "up.lock";
/// Tries to get the lock while another process holds it: two seconds in all.
const RELEASE_TRIES: usize = 40;
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// A locked data folder. The lock goes with the process, whatever ends it.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    ephemeral: bool,
    lock: Option<Flock<File>>,
}

/// The secrets by which the API server tells its callers apart.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ApiTokens {
    pub(super) admin: String,
    pub(super) control: String,
    pub(super) proxy: String,
}

impl DataDir {
    /// Makes the folder if there is none, closes it to others and locks it.
    ///
    /// # Errors
    /// [`UpError::DataDir`], [`UpError::Busy`] and [`UpError::Foreign`].
    pub fn open(path: &Path) -> Result<Self, UpError> {
        refuse_foreign(path)?;
        // Absolute, since kubeconfigs and arguments name it; without symbolic links, so
        // that the kubelet finds its processes by it.
        io(path, files::private_dir(path))?;
        let path = io(path, path.canonicalize())?;
        let lock = lock(&path)?;
        Ok(Self {
            path,
            ephemeral: false,
            lock: Some(lock),
        })
    }

    /// A folder of its own below the system's temporary one, removed when dropped. What a
    /// kill leaves of it is garbage.
    ///
    /// # Errors
    /// As [`DataDir::open`].
    pub fn ephemeral() -> Result<Self, UpError> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).map_err(|e| UpError::System(e.to_string()))?;
        let name = format!("nogoo9-{}", data_encoding::HEXLOWER.encode(&random));
        let mut dir = Self::open(&std::env::temp_dir().join(name))?;
        dir.ephemeral = true;
        Ok(dir)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The bounded log file of a part.
    ///
    /// # Errors
    /// [`UpError::DataDir`].
    pub fn log(&self, name: &str) -> Result<LogFile, UpError> {
        let path = self.log_path(name);
        if let Some(folder) = path.parent() {
            io(folder, files::private_dir(folder))?;
        }
        io(&path, LogFile::open(&path))
    }

    pub(super) fn log_path(&self, name: &str) -> PathBuf {
        self.path.join("logs").join(format!("{name}.log"))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a private file in one step.
    pub(super) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, UpError> {
        let path = self.file(name);
        io(&path, files::write_private(&path, content))?;
        Ok(path)
    }

    /// The API server's tokens, made at the first start.
    pub(super) fn api_tokens(&self) -> Result<ApiTokens, UpError> {
        let path = self.file("tokens.json");
        if let Some(tokens) = read_json(&path)? {
            return Ok(tokens);
        }
        let tokens = ApiTokens {
            admin: token()?,
            control: token()?,
            proxy: token()?,
        };
        let json = serde_json::to_vec(&tokens).map_err(|e| UpError::System(e.to_string()))?;
        self.write("tokens.json", &json)?;
        Ok(tokens)
    }

    /// The file with the token that proxy and control share, made at the first start.
    pub(super) fn admin_token(&self) -> Result<PathBuf, UpError> {
        let path = self.file("admin-token");
        if !path.exists() {
            self.write("admin-token", format!("{}\n", token()?).as_bytes())?;
        }
        Ok(path)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.ephemeral
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "temporary folder stays");
        }
        // After the removal: nobody else may start to use what is being removed.
        drop(self.lock.take());
    }
}

/// `$XDG_DATA_HOME/nogoo9`, else `~/.local/share/nogoo9`; `None` without a home.
pub fn default_data_dir() -> Option<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|data| data.join("nogoo9"))
}

/// A folder with somebody's files in it is not ours to close to others or to fill: with
/// `--data-dir /tmp`, say, the whole machine would feel it.
fn refuse_foreign(path: &Path) -> Result<(), UpError> {
    let mut entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return io(path, Err(e)),
    };
    if entries.next().is_none() || path.join(LOCK_FILE).is_file() {
        return Ok(());
    }
    Err(UpError::Foreign(path.to_owned()))
}

/// Locks the folder. A killed instance may hold its lock for a moment after its children have ended,
/// so a start right afterwards is patient.
#[allow(
    clippy::disallowed_methods,
    reason = "waits for the lock, within a bound, before there is a runtime"
)]
fn lock(dir: &Path) -> Result<Flock<File>, UpError> {
    for _ in 0..RELEASE_TRIES {
        match lock_now(dir) {
            Err(UpError::Busy { .. }) => std::thread::sleep(RELEASE_PAUSE),
            other => return other,
        }
    }
    lock_now(dir)
}

fn lock_now(dir: &Path) -> Result<Flock<File>, UpError> {
    let path = dir.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = io(&path, options.mode(0o600).open(&path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(mut lock) => {
            let pid = std::process::id().to_string();
            io(&path, lock.set_len(0))?;
            io(&path, lock.write_all(pid.as_bytes()))?;
            Ok(lock)
        }
        Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            Err(UpError::Busy {
                path: dir.to_owned(),
                pid: read.ok().and_then(|_| text.trim().parse().ok()),
            })
        }
        Err((_, errno)) => io(&path, Err(errno.into())),
    }
}

pub(super) fn io<T>(path: &Path, result: std::io::Result<T>) -> Result<T, UpError> {
    result.map_err(|source| UpError::DataDir {
        path: path.to_owned(),
        source,
    })
}

/// A JSON file, if there is one.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, UpError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return io(path, Err(e)),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|e| UpError::Damaged {
            path: path.to_owned(),
            // Position only: the file may hold secrets.
            reason: format!("not the JSON expected, line {}", e.line()),
        })
}

/// 256 random bits.
fn token() -> Result<String, UpError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| UpError::System(e.to_string()))?;
    Ok(data_encoding::BASE64URL_NOPAD.encode(&bytes))
}
