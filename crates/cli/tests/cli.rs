//! The command line as a user meets it: what it refuses, and that it leaves nothing behind.
//!
//! `nogoo9 up` runs here with stand-ins for control and proxy that fail or never get ready;
//! the whole of it, with the real ones, is tested by the black-box suites.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    collections::BTreeMap,
    fs,
    io::Read as _,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(90);

/// A folder with `nogoo9` and stand-ins beside it, and a data folder.
struct Install {
    dir: TempDir,
}

impl Install {
    /// `script` stands in for control; the proxy's never gets ready.
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let nogoo9 = dir.path().join("nogoo9");
        let real = Path::new(env!("CARGO_BIN_EXE_nogoo9"));
        if fs::hard_link(real, &nogoo9).is_err() {
            // By another process: what a test beside this one starts in that moment would hold the
            // file open for writing, and it could not be run ("Text file busy").
            let copied = Command::new("cp").arg(real).arg(&nogoo9).status();
            assert!(copied.unwrap().success());
        }
        let install = Self { dir };
        install.script("nogoo9-control", script);
        install.script("nogoo9-proxy", "exec sleep 1000");
        install.script("nogoo9-sample", "exit 1");
        install
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn nogoo9(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.dir.path().join("nogoo9"));
        command.args(args).env_remove("NOGOO9_DATA_DIR");
        command
    }

    fn up(&self, args: &[&str]) -> Command {
        let mut command = self.nogoo9(&["up", "--listen", "127.0.0.1:0"]);
        command.arg("--data-dir").arg(self.data()).args(args);
        command
    }
}

/// A running `nogoo9 up`, killed when the test ends.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

impl Up {
    fn start(mut command: Command) -> Self {
        Self(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }

    /// Child processes by the name of what they run, once all of `names` are there.
    fn children(&mut self, names: &[&str]) -> BTreeMap<String, u32> {
        let look = || {
            let children = children_of(self.0.id());
            let all = names.iter().all(|name| children.contains_key(*name));
            all.then_some(children)
        };
        if let Some(children) = within_bound(look) {
            return children;
        }
        let there = children_of(self.0.id());
        let _ended = self.0.kill();
        let mut words = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr.read_to_string(&mut words).unwrap();
        }
        panic!("waited in vain for children {names:?}; there are {there:?}; it said: {words}");
    }
}

fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within_bound(look).unwrap_or_else(|| panic!("waited in vain for {what}"))
}

fn within_bound<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + BOUND;
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "waits for a condition within a bound"
        )]
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn children_of(parent: u32) -> BTreeMap<String, u32> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let ppid = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1));
        if ppid != Some(parent.to_string().as_str()) {
            continue;
        }
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line
            .split(|b| *b == 0)
            .map(String::from_utf8_lossy)
            .collect();
        let name = match words.as_slice() {
            [_, second, ..] if second == "local-apiserver" => "apiserver",
            [_, second, ..] if second.ends_with("nogoo9-control") => "control",
            [first, _, ..] if first == "sleep" => "sleep",
            _ => continue,
        };
        found.insert(name.to_owned(), pid);
    }
    found
}

/// Zombies do not count: nothing of them is left but an entry.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn wrong_flags_are_told_together_and_nothing_is_made() {
    let install = Install::new("exit 0");
    let output = install
        .nogoo9(&[
            "up",
            "--listen",
            "nowhere",
            "--log",
            "a=b=c",
            "--kubeconfig",
            "/no/such",
        ])
        .arg("--data-dir")
        .arg(install.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    for flag in ["--listen:", "--log:", "--kubeconfig:"] {
        assert!(text.contains(flag), "{flag} in {text}");
    }
    assert!(!install.data().exists());
}

#[test]
fn only_loopback_is_served() {
    let install = Install::new("exit 0");
    for listen in [
        "0.0.0.0:9009",
        "192.0.2.1:9009",
        "[::]:9009",
        "127.0.0.2:9009",
    ] {
        let output = install
            .nogoo9(&["up", "--listen", listen])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{listen}");
        assert!(stderr(&output).contains(&format!("--listen {listen}:")));
    }
}

#[test]
fn a_port_in_use_is_named_before_anything_starts() {
    let install = Install::new("exit 0");
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = held.local_addr().unwrap().to_string();
    let mut command = install.nogoo9(&["up", "--listen", &addr]);
    let output = command
        .arg("--data-dir")
        .arg(install.data())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains(&format!("--listen {addr}: the port is in use")),
        "{text}"
    );
    assert!(!install.data().join("logs/apiserver.log").exists());
}

#[test]
fn a_control_that_refuses_its_flags_ends_the_start_with_its_last_words() {
    let install = Install::new("echo 'error: --issuer: is nonsense' >&2; exit 2");
    let output = install.up(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("control does not start: exit code 2"),
        "{text}"
    );
    assert!(text.contains("  | error: --issuer: is nonsense"), "{text}");
    assert!(text.contains("logs/control.log"), "{text}");
    assert!(!install.data().join("ready.json").exists());
}

#[test]
fn a_missing_program_is_named_with_how_to_build_it() {
    let install = Install::new("exit 0");
    fs::remove_file(install.dir.path().join("nogoo9-proxy")).unwrap();
    let output = install.up(&[]).output().unwrap();
    let text = stderr(&output);
    assert!(
        text.contains("nogoo9-proxy is missing; build it with"),
        "{text}"
    );
    assert!(!install.data().exists());
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    let install = Install::new("exit 0");
    fs::create_dir(install.data()).unwrap();
    fs::set_permissions(install.data(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(install.data().join("thesis.txt"), "").unwrap();
    let output = install.up(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--data-dir "),
        "{}",
        stderr(&output)
    );
    let mode = fs::metadata(install.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(fs::read_dir(install.data()).unwrap().count(), 1);
}

#[test]
fn one_instance_a_data_folder() {
    let install = Install::new("exec sleep 1000");
    let mut first = Up::start(install.up(&[]));
    first.children(&["sleep"]);
    let output = install.up(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    let pid = format!("(process {})", first.0.id());
    assert!(text.contains("--data-dir") && text.contains(&pid), "{text}");
}

#[test]
fn a_kill_leaves_no_process_and_the_next_start_resumes() {
    let install = Install::new("exec sleep 1000");
    let mut up = Up::start(install.up(&[]));
    let before = up.children(&["apiserver", "sleep"]);
    let kubeconfig = fs::read(install.data().join("kubeconfig")).unwrap();
    let ports = fs::read(install.data().join("ports.json")).unwrap();
    up.signal(Signal::SIGKILL);
    until("all children to end", || {
        (!before.values().any(|pid| runs(*pid))).then_some(())
    });

    // As a killed instance that was ready leaves it behind.
    let stale = install.data().join("ready.json");
    fs::write(&stale, "{}").unwrap();
    let mut again = Up::start(install.up(&[]));
    again.children(&["apiserver", "sleep"]);
    assert!(!stale.exists());
    assert_eq!(
        fs::read(install.data().join("kubeconfig")).unwrap(),
        kubeconfig
    );
    assert_eq!(fs::read(install.data().join("ports.json")).unwrap(), ports);
}

#[test]
fn a_killed_api_server_comes_back_and_a_signal_stops_all() {
    let install = Install::new("exec sleep 1000");
    let mut up = Up::start(install.up(&[]));
    let first = up.children(&["apiserver", "sleep"])["apiserver"];
    kill(
        Pid::from_raw(i32::try_from(first).unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    let second = until("another API server", || {
        children_of(up.0.id())
            .get("apiserver")
            .copied()
            .filter(|pid| *pid != first)
    });
    let all = up.children(&["apiserver", "sleep"]);
    up.signal(Signal::SIGTERM);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    assert!(!runs(second) && !all.values().any(|pid| runs(*pid)));
    let mut text = String::new();
    up.0.stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("killed by SIGKILL"), "{text}");
}

#[test]
fn tokens_need_an_instance_and_a_user() {
    let install = Install::new("exec sleep 1000");
    let data = install.data().display().to_string();
    let output = install
        .nogoo9(&["token", "alice", "--data-dir", &data])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.contains(&format!("nogoo9 up --data-dir {data}")),
        "{text}"
    );
    let output = install
        .nogoo9(&["status", "--data-dir", &data])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("nothing runs here"));

    let mut up = Up::start(install.up(&[]));
    up.children(&["sleep"]);
    drop(up);
    let output = install
        .nogoo9(&["token", "alice", "--data-dir", &data])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let token = String::from_utf8(output.stdout).unwrap();
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
    let output = install
        .nogoo9(&["token", "mallory", "--data-dir", &data])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("alice, bob, admin, vera"));
    let output = install
        .nogoo9(&["token", "alice", "--ttl", "0", "--data-dir", &data])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--ttl: "));
}

#[test]
fn an_ephemeral_instance_forgets_everything() {
    let install = Install::new("exec sleep 1000");
    let tmp = install.dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    let mut command = install.nogoo9(&["up", "--ephemeral", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", &tmp);
    let mut up = Up::start(command);
    up.children(&["sleep"]);
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 1);
    up.signal(Signal::SIGINT);
    assert_eq!(up.0.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
}
