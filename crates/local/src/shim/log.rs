//! A container's log in the CRI format: `TIMESTAMP STREAM F|P TEXT`, one line each,
//! `P` for a part of a line that is longer than a part may be. Bounded: at its
//! limit the file is renamed to `NAME.1`, which replaces an earlier one.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use jiff::Timestamp;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// The longest part of a line, as container runtimes have it.
const MAX_PART: usize = 16 * 1024;

/// An open log.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
    max: u64,
    line: Vec<u8>,
}

impl LogFile {
    /// Opens `path` for appending. `max` is in bytes.
    pub(super) fn open(path: PathBuf, max: u64) -> io::Result<Self> {
        let file = append(&path)?;
        let written = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            written,
            max,
            line: Vec::new(),
        })
    }

    fn write(&mut self, stream: &str, tag: char, text: &[u8]) -> io::Result<()> {
        self.line.clear();
        write!(self.line, "{:.9} {stream} {tag} ", Timestamp::now())?;
        self.line.extend_from_slice(text);
        self.line.push(b'\n');
        let length = u64::try_from(self.line.len()).unwrap_or(u64::MAX);
        if self.written > 0 && self.written.saturating_add(length) > self.max {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            std::fs::rename(&self.path, old)?;
            self.file = append(&self.path)?;
            self.written = 0;
        }
        self.file.write_all(&self.line)?;
        self.written = self.written.saturating_add(length);
        Ok(())
    }
}

fn append(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Copies a workload's output to the log until all its writers are gone. A log
/// that cannot be written (a full disk) loses lines; it never blocks the workload.
pub(super) async fn pump(from: Option<OwnedFd>, stream: &str, log: &RefCell<LogFile>) {
    let Some(Ok(mut pipe)) = from.map(pipe::Receiver::from_owned_fd) else {
        return;
    };
    let mut splitter = Splitter::default();
    let mut chunk = vec![0_u8; MAX_PART];
    while let Ok(count) = pipe.read(&mut chunk).await {
        let Some(bytes) = chunk.get(..count).filter(|bytes| !bytes.is_empty()) else {
            break;
        };
        splitter.push(bytes, |tag, text| {
            let _ = log.borrow_mut().write(stream, tag, text);
        });
    }
    splitter.finish(|tag, text| {
        let _ = log.borrow_mut().write(stream, tag, text);
    });
}

/// Cuts a byte stream into lines and parts of lines.
#[derive(Default)]
struct Splitter {
    pending: Vec<u8>,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8], mut emit: impl FnMut(char, &[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.pending.extend_from_slice(piece);
            let complete = self.pending.last() == Some(&b'\n');
            if complete {
                self.pending.pop();
            }
            while self.pending.len() > MAX_PART {
                let rest = self.pending.split_off(MAX_PART);
                emit('P', &self.pending);
                self.pending = rest;
            }
            if complete {
                emit('F', &self.pending);
                self.pending.clear();
            }
        }
    }

    fn finish(self, mut emit: impl FnMut(char, &[u8])) {
        if !self.pending.is_empty() {
            emit('F', &self.pending);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<(char, Vec<u8>)> {
        let mut lines = Vec::new();
        let mut splitter = Splitter::default();
        for chunk in chunks {
            splitter.push(chunk, |tag, text| lines.push((tag, text.to_vec())));
        }
        splitter.finish(|tag, text| lines.push((tag, text.to_vec())));
        lines
    }

    #[test]
    fn lines_survive_any_chunking() {
        let whole = cut(&[b"one\ntwo\n\nthree"]);
        assert_eq!(
            whole,
            [
                ('F', b"one".to_vec()),
                ('F', b"two".to_vec()),
                ('F', vec![]),
                ('F', b"three".to_vec())
            ]
        );
        assert_eq!(cut(&[b"o", b"ne\nt", b"wo\n", b"\n", b"thr", b"ee"]), whole);
    }

    #[test]
    fn long_lines_come_in_parts() {
        let text = vec![b'x'; MAX_PART + 3];
        let mut line = text.clone();
        line.push(b'\n');
        let parts = cut(&[&line]);
        assert_eq!(parts.iter().map(|(tag, _)| *tag).collect::<String>(), "PF");
        assert_eq!(
            parts
                .iter()
                .flat_map(|(_, text)| text.clone())
                .collect::<Vec<_>>(),
            text
        );
    }

    #[test]
    fn a_full_log_is_rotated_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        let mut log = LogFile::open(path.clone(), 200).unwrap();
        for count in 0..20 {
            log.write("stdout", 'F', format!("line {count}").as_bytes())
                .unwrap();
        }
        let now = std::fs::read_to_string(&path).unwrap();
        let old = std::fs::read_to_string(dir.path().join("0.log.1")).unwrap();
        assert!(now.len() <= 200 && old.len() <= 200);
        assert!(now.ends_with(" stdout F line 19\n"), "{now}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
