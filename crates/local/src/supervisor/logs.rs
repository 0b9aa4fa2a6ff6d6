//! Bounded log files, and what of them belongs on the terminal.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Size at which a file becomes `NAME.log.1`, replacing the one before: twice this is the
/// most that a part's logs take on disk.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Longest line kept; the rest of it is dropped.
pub(super) const MAX_LINE: usize = 16 * 1024;
/// Lines remembered for error messages.
const TAIL: usize = 12;

/// A log file that never grows beyond a bound.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
}

impl LogFile {
    /// Opens it to append.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)?;
        let size = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            size,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        std::fs::rename(&self.path, old)?;
        *self = Self::open(&self.path)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size >= MAX_BYTES {
            self.rotate()?;
        }
        let written = self.file.write(bytes)?;
        self.size = self
            .size
            .saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Where the lines of one child go. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    name: &'static str,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    file: LogFile,
    tail: VecDeque<String>,
}

impl Sink {
    pub(super) fn new(name: &'static str, file: LogFile) -> Self {
        let tail = VecDeque::with_capacity(TAIL);
        Self {
            name,
            inner: Arc::new(Mutex::new(Inner { file, tail })),
        }
    }

    /// Takes one line: into the file, and to the terminal if it tells of trouble.
    pub(super) fn line(&self, line: &str) {
        let failed = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if inner.tail.len() == TAIL {
                inner.tail.pop_front();
            }
            inner.tail.push_back(line.to_owned());
            // One write: a rotation must not come between the line and its end.
            inner.file.write_all(format!("{line}\n").as_bytes()).err()
        };
        if let Some(error) = failed {
            tracing::warn!(part = self.name, %error, "log line is lost");
        }
        if is_trouble(line) {
            let mut terminal = io::stderr().lock();
            let _closed = writeln!(terminal, "{:>9} | {line}", self.name);
        }
    }

    /// The last lines, indented, for an error message.
    pub(super) fn tail(&self) -> String {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner
            .tail
            .iter()
            .map(|line| format!("  | {line}\n"))
            .collect()
    }
}

/// Whether a line is a warning or an error, or no log line at all (a panic, an error
/// printed on the way out). Log lines begin with a time and a level.
fn is_trouble(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let Some(first) = words.next() else {
        return false;
    };
    let is_time = first.len() >= 20 && first.starts_with("20") && first.ends_with('Z');
    if !is_time {
        return line.starts_with("error") || line.contains("panicked at");
    }
    matches!(words.next(), Some("WARN" | "ERROR"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_errors_and_panics_reach_the_terminal() {
        for (line, trouble) in [
            ("2026-11-29T21:00:00.000000Z  INFO x: started", false),
            ("2026-11-29T21:00:00.000000Z  WARN x: slow", true),
            ("2026-11-29T21:00:00.000000Z ERROR x: WARN", true),
            ("2026-11-29T21:00:00.000000Z DEBUG x: ERROR", false),
            ("thread 'main' panicked at src/x.rs:1", true),
            ("error: --listen: in use", true),
            ("   0: backtrace", false),
            ("", false),
        ] {
            assert_eq!(is_trouble(line), trouble, "{line}");
        }
    }

    #[test]
    fn a_file_is_rotated_and_the_tail_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut file = LogFile::open(&path).unwrap();
        file.size = MAX_BYTES - 1;
        let sink = Sink::new("test", file);
        sink.line("first");
        sink.line("second");
        let old = std::fs::read_to_string(dir.path().join("a.log.1")).unwrap();
        assert_eq!(old, "first\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        for i in 0..TAIL {
            sink.line(&i.to_string());
        }
        assert!(sink.tail().starts_with("  | 0\n"), "{}", sink.tail());
    }
}
