//! Finds processes by what the kernel says of them in `/proc`: the descendants of
//! one process, and those that carry a mark in their environment.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use nix::unistd::Pid;

/// Every living or unreaped descendant of `root`, without `root`.
pub(crate) fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in processes() {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        // `remove`: a chain that changes while it is read must not loop.
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            next.push(child);
        }
    }
    found
}

/// Every process whose environment, as it was at its start, has `name` set to a
/// value that starts with `prefix`. Processes of other users are not readable and
/// never found.
pub(crate) fn marked(name: &str, prefix: &OsStr) -> Vec<Pid> {
    let mut wanted = Vec::from(name.as_bytes());
    wanted.push(b'=');
    wanted.extend_from_slice(prefix.as_bytes());
    processes()
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
                environment
                    .split(|byte| *byte == 0)
                    .any(|entry| entry.starts_with(&wanted))
            })
        })
        .map(Pid::from_raw)
        .collect()
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: i32) -> Option<i32> {
    parent_in_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 4 of `/proc/PID/stat`. Field 2, the name, stands in parentheses and may
/// hold spaces and parentheses itself: count from the last one.
fn parent_in_stat(stat: &str) -> Option<i32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        assert_eq!(parent_in_stat("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in_stat("12 (a) b ( c)) R 9 1"), Some(9));
        assert_eq!(parent_in_stat("12"), None);
    }
}
