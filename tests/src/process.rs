//! Processes of a site, read from `/proc`: who they are, ending one, and proof that none is left.

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// One process. A pid alone may be used again; together with the start time it is not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// Its command line, for messages.
    pub command: String,
    parent: i32,
}

impl Process {
    /// The process that has this pid now.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, also ')'.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        if matches!(*fields.first()?, "Z" | "X") {
            return None;
        }
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        Some(Self {
            pid,
            started: fields.get(19)?.parse().ok()?,
            command: String::from_utf8_lossy(&command).replace('\0', " "),
            parent: fields.get(1)?.parse().ok()?,
        })
    }

    /// Whether it still runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.started == self.started)
    }

    /// Sends it a signal, unless it has ended already.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        if !self.runs() {
            return Ok(());
        }
        match kill(Pid::from_raw(self.pid), signal) {
            Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{signal} to {}", self.command)),
        }
    }

    fn mentions(&self, folder: &Path) -> bool {
        let needle = folder.as_os_str().as_bytes();
        ["cmdline", "environ"].iter().any(|file| {
            std::fs::read(format!("/proc/{}/{file}", self.pid))
                .is_ok_and(|text| text.windows(needle.len()).any(|part| part == needle))
        }) || std::fs::read_link(format!("/proc/{}/cwd", self.pid))
            .is_ok_and(|cwd| cwd.starts_with(folder))
    }
}

/// The processes that belong to a site at one moment.
#[derive(Debug, Clone, Default)]
pub struct Census(BTreeMap<i32, Process>);

impl Census {
    /// `root` with all its descendants, and every process that names `folder` in its command line,
    /// environment or working directory (those of an orphan that lost its parent).
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn take(root: Option<i32>, folder: &Path) -> anyhow::Result<Self> {
        let mut all = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").context("/proc")? {
            let name = entry.context("/proc")?.file_name();
            if let Some(process) = name
                .to_str()
                .and_then(|name| name.parse().ok())
                .and_then(Process::of)
            {
                all.insert(process.pid, process);
            }
        }
        let us = i32::try_from(std::process::id()).unwrap_or_default();
        let descends = |mut pid: i32| {
            // Bounded by the depth of the tree; a cycle is impossible but for a pid used again.
            for _ in 0..64 {
                if Some(pid) == root {
                    return true;
                }
                match all.get(&pid) {
                    Some(process) => pid = process.parent,
                    None => return false,
                }
            }
            false
        };
        let members = all.values().filter(|process| {
            process.pid != us && (descends(process.pid) || process.mentions(folder))
        });
        Ok(Self(
            members
                .map(|process| (process.pid, process.clone()))
                .collect(),
        ))
    }

    /// Those of them that still run.
    #[must_use]
    pub fn running(&self) -> Vec<&Process> {
        self.0.values().filter(|process| process.runs()).collect()
    }

    /// Adds those of another census.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The children of a process.
    #[must_use]
    pub fn children(&self, parent: i32) -> Vec<&Process> {
        self.0
            .values()
            .filter(|process| process.parent == parent)
            .collect()
    }

    /// The children of a process, their children, and so on.
    #[must_use]
    pub fn descendants(&self, ancestor: i32) -> Vec<&Process> {
        let mut found = self.children(ancestor);
        let mut looked_at = 0;
        while let Some(next) = found.get(looked_at) {
            let more = self.children(next.pid);
            found.extend(more);
            looked_at += 1;
        }
        found
    }

    /// Those whose command line contains `text`.
    #[must_use]
    pub fn with_command(&self, text: &str) -> Vec<&Process> {
        self.0
            .values()
            .filter(|process| process.command.contains(text))
            .collect()
    }
}
