//! Private files: written whole or not at all, readable by their owner only.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Replaces `path` by `content` in one step (mode 0600): a reader, or a process killed in
/// between, sees the old file or the new one.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let tmp = path.with_extension(format!("{}.tmp", std::process::id()));
    // Left by a killed process that had our number.
    let _absent = std::fs::remove_file(&tmp);
    let written = create(&tmp).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let moved = written.and_then(|()| std::fs::rename(&tmp, path));
    if moved.is_err() {
        let _gone = std::fs::remove_file(&tmp);
    }
    moved
}

/// As [`write_private`], but an existing file wins: its content is returned, so that of
/// two processes that make a key at once both use the same.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn create_private(path: &Path, content: &[u8]) -> io::Result<Vec<u8>> {
    let tmp = path.with_extension(format!("{}.tmp", std::process::id()));
    let _absent = std::fs::remove_file(&tmp);
    let written = create(&tmp).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    // Unlike a rename, a link fails where there is a file.
    let linked = written.and_then(|()| std::fs::hard_link(&tmp, path));
    let _gone = std::fs::remove_file(&tmp);
    match linked {
        Ok(()) => Ok(content.to_vec()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => std::fs::read(path),
        Err(e) => Err(e),
    }
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Makes a folder (and its parents) that only its owner may enter; an existing one is
/// closed to others.
///
/// # Errors
/// Whatever the file system says.
pub(crate) fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}
