//! Files that outlive the pod: a flat folder, usually on a claim.
//!
//! Names are single path segments without a leading dot, sizes and their number are bounded, and
//! a file is complete or not there: it is written beside its name and renamed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path as Segment, State};
use axum::response::{IntoResponse, Json, Response};
use data_encoding::HEXLOWER;
use futures::{Stream, StreamExt, stream};
use http::{StatusCode, header};
use nix::fcntl::OFlag;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Sample;

type Shared = State<Arc<Sample>>;

/// Largest file that is taken, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Most files that are taken; those that others put there are listed up to this.
const MAX_FILES: usize = 200;
/// Longest name.
const MAX_NAME: usize = 100;
/// How much is read at once, in bytes.
const CHUNK: usize = 64 * 1024;

/// Why a request cannot be met.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("this workspace keeps no files: its template gives it no volume")]
    NoFolder,
    #[error("use letters, digits, '.', '_' and '-' only, no '.' first, {MAX_NAME} at most")]
    Name,
    #[error("there is no file of this name")]
    Absent,
    #[error("a file may have {MAX_BYTES} bytes at most")]
    TooLarge,
    #[error("there are {MAX_FILES} files already: delete one first")]
    TooMany,
    #[error("the body broke off")]
    Broken,
    #[error("the folder cannot be used: {0}")]
    Folder(#[from] io::Error),
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoFolder | Self::Absent => StatusCode::NOT_FOUND,
            Self::Name | Self::Broken => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooMany => StatusCode::INSUFFICIENT_STORAGE,
            Self::Folder(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({"error": self.to_string()}))).into_response()
    }
}

fn folder(sample: &Sample) -> Result<&Path, Refused> {
    sample.config.data.as_deref().ok_or(Refused::NoFolder)
}

/// Where the file of a name is.
fn place(sample: &Sample, name: &str) -> Result<PathBuf, Refused> {
    let folder = folder(sample)?;
    if is_name(name) {
        Ok(folder.join(name))
    } else {
        Err(Refused::Name)
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    (1..=MAX_NAME).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}

/// `GET /files`: names and sizes, by name.
pub(super) async fn list(State(sample): Shared) -> Response {
    let listed = async {
        let mut files = Vec::new();
        let mut entries = tokio::fs::read_dir(folder(&sample)?).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name().to_string_lossy().into_owned();
            let metadata = entry.metadata().await?;
            if metadata.is_file() && is_name(&name) {
                files.push((name, metadata.len()));
            }
        }
        files.sort();
        files.truncate(MAX_FILES);
        let files: Vec<Value> = files
            .into_iter()
            .map(|(name, bytes)| json!({"name": name, "bytes": bytes}))
            .collect();
        Ok::<_, Refused>(Json(json!({"files": files})))
    };
    match listed.await {
        Ok(list) => ([(header::CACHE_CONTROL, "no-store")], list).into_response(),
        Err(refused) => refused.into_response(),
    }
}

/// `GET /files/NAME`: the bytes. Never as a page of this origin, whatever they are.
pub(super) async fn get(State(sample): Shared, Segment(name): Segment<String>) -> Response {
    match open(&sample, &name).await {
        Ok((file, length)) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::CONTENT_LENGTH, length.to_string()),
                (
                    header::CONTENT_DISPOSITION,
                    format!("attachment; filename=\"{name}\""),
                ),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
                (header::CACHE_CONTROL, "no-store".to_owned()),
            ];
            (headers, Body::from_stream(read(file, length))).into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

async fn open(sample: &Sample, name: &str) -> Result<(File, u64), Refused> {
    let path = place(sample, name)?;
    // A link may lead out of the folder, and a pipe would never answer.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .await;
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == nix::errno::Errno::ELOOP as i32 => Refused::Absent,
        _ if error.kind() == io::ErrorKind::NotFound => Refused::Absent,
        _ => Refused::Folder(error),
    })?;
    let metadata = file.metadata().await?;
    if metadata.is_file() {
        Ok((file, metadata.len()))
    } else {
        Err(Refused::Absent)
    }
}

/// The first `length` bytes: what is appended meanwhile is not part of the answer.
fn read(file: File, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(file.take(length), |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let count = file.read(&mut chunk).await?;
        chunk.truncate(count);
        Ok((count > 0).then(|| (Bytes::from(chunk), file)))
    })
}

/// `PUT /files/NAME`: keeps the body under the name, all of it or nothing.
pub(super) async fn put(
    State(sample): Shared,
    Segment(name): Segment<String>,
    body: Body,
) -> Response {
    match keep(&sample, &name, body).await {
        Ok(kept) => Json(kept).into_response(),
        Err(refused) => refused.into_response(),
    }
}

async fn keep(sample: &Sample, name: &str, body: Body) -> Result<Value, Refused> {
    let path = place(sample, name)?;
    if !tokio::fs::try_exists(&path).await? && count(folder(sample)?).await? >= MAX_FILES {
        return Err(Refused::TooMany);
    }
    let beside = Beside::new(folder(sample)?)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside.0)
        .await?;
    let mut hash = Sha256::new();
    let mut bytes: u64 = 0;
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Refused::Broken)?;
        bytes = bytes.saturating_add(chunk.len() as u64);
        if bytes > MAX_BYTES {
            return Err(Refused::TooLarge);
        }
        hash.update(&chunk);
        file.write_all(&chunk).await?;
    }
    file.sync_all().await?;
    tokio::fs::rename(&beside.0, &path).await?;
    // The name must last as well as the bytes.
    File::open(folder(sample)?).await?.sync_all().await?;
    Ok(json!({"name": name, "bytes": bytes, "sha256": HEXLOWER.encode(hash.finalize().as_slice())}))
}

async fn count(folder: &Path) -> io::Result<usize> {
    let mut entries = tokio::fs::read_dir(folder).await?;
    let mut count = 0;
    while entries.next_entry().await?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// A file that is being written; removed when it was not renamed.
struct Beside(PathBuf);

impl Beside {
    fn new(folder: &Path) -> io::Result<Self> {
        let chance = getrandom::u64().map_err(io::Error::other)?;
        Ok(Self(folder.join(format!(".upload-{chance:x}"))))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `DELETE /files/NAME`.
pub(super) async fn delete(State(sample): Shared, Segment(name): Segment<String>) -> Response {
    let deleted = async {
        let path = place(&sample, &name)?;
        tokio::fs::remove_file(path)
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Refused::Absent,
                _ => Refused::Folder(error),
            })
    };
    match deleted.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        for good in ["a", "notes.txt", "A-1_b.tar.gz", &"x".repeat(MAX_NAME)] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "ü",
            "a b",
            "a\0",
            &"x".repeat(MAX_NAME + 1),
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
