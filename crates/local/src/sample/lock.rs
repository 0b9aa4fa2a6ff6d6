//! One writer at a time, as the writers themselves see it: whoever uses the folder of files holds a
//! lock on it (`flock(2)`), which the system lets go when the process ends, however it ends.
//!
//! A second one leaves a file that tells of it, since its log may be gone by the time that somebody
//! looks.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

/// The file that is locked. No file of a user can have its name.
const LOCK: &str = ".lock";
/// Begin of the name of a file that tells of a second writer; its pod follows.
const SECOND: &str = "two-writers-";

/// Takes the folder. It is this process's until the file is dropped.
pub(super) fn take(folder: &Path, pod: &str) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            File::create(folder.join(format!("{SECOND}{pod}")))?.sync_all()?;
            Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process uses this folder: two pods have the volume at once",
            ))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}
