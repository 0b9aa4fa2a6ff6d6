//! The pod shim and the guard, with real processes: whatever happens above or below
//! them, nothing is left behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SHIM: &str = env!("CARGO_BIN_EXE_nogoo9-pod-shim");
const BOUND: Duration = Duration::from_secs(60);

fn shim(script: &str, log: &Path) -> Child {
    Command::new(SHIM)
        .arg("--log")
        .arg(log)
        .args(["--", "/bin/sh", "-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Polls a condition until it holds.
fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + BOUND;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "not within {BOUND:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    wait_for("the shim ends", || child.try_wait().unwrap())
}

fn pid_in(file: &Path) -> Pid {
    wait_for("a pid file", || {
        Some(Pid::from_raw(
            fs::read_to_string(file).ok()?.trim().parse().ok()?,
        ))
    })
}

/// Alive means that it can still do something: a zombie cannot.
fn alive(pid: Pid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
}

fn signal(child: &Child, what: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), what).unwrap();
}

/// A script that leaves a daemon behind (its parents exit, it has its own session),
/// with its pid in `daemon.pid`, and then waits.
fn with_daemon(dir: &Path) -> String {
    format!(
        "(setsid sh -c 'trap \"\" HUP TERM INT; echo $$ > {0}/new && mv {0}/new {0}/daemon.pid; while :; do sleep 1000; done' &) & wait; \
         echo up; exec sleep 1000",
        dir.display()
    )
}

/// The log's lines without their timestamps.
fn log_lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines()
        .map(|line| {
            let (time, rest) = line.split_once(' ').unwrap();
            assert_eq!(time.len(), "2026-01-01T00:00:00.000000000Z".len(), "{line}");
            rest.to_owned()
        })
        .collect()
}

#[test]
fn exit_codes_pass_through() {
    let dir = tempfile::tempdir().unwrap();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
    ] {
        let mut child = shim(script, &dir.path().join("log"));
        assert_eq!(wait(&mut child).code(), Some(code), "{script}");
    }
    let run = |program: &str| {
        let mut child = Command::new(SHIM)
            .args(["--", program])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait(&mut child).code()
    };
    assert_eq!(run("/does/not/exist"), Some(127));
    assert_eq!(run("/etc/passwd"), Some(126));
}

#[test]
fn output_is_logged_in_order_by_stream() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("0.log");
    let mut child = shim(
        "for i in 1 2 3; do echo line $i; done; printf 'no end'",
        &log,
    );
    assert!(wait(&mut child).success());
    assert_eq!(
        log_lines(&log),
        [
            "stdout F line 1",
            "stdout F line 2",
            "stdout F line 3",
            "stdout F no end"
        ]
    );
    let mut child = shim("echo oops >&2; exit 1", &log);
    assert_eq!(wait(&mut child).code(), Some(1));
    assert_eq!(log_lines(&log).last().unwrap(), "stderr F oops", "appended");
}

#[test]
fn the_workload_sees_only_what_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut child = Command::new(SHIM)
        .arg("--log")
        .arg(&log)
        .args(["--", "/usr/bin/env"])
        .env_clear()
        .env("ONLY", "this")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(wait(&mut child).success());
    assert_eq!(log_lines(&log), ["stdout F ONLY=this"]);
}

#[test]
fn terminate_is_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut child = shim(
        "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done",
        &log,
    );
    wait_for("the workload is up", || {
        (!log_lines(&log).is_empty()).then_some(())
    });
    signal(&child, Signal::SIGTERM);
    assert_eq!(wait(&mut child).code(), Some(7));
    assert_eq!(log_lines(&log), ["stdout F up", "stdout F bye"]);
}

#[test]
fn daemons_die_with_the_first_process() {
    let dir = tempfile::tempdir().unwrap();
    let script = with_daemon(dir.path()).replace(
        "exec sleep 1000",
        &format!(
            "until [ -e {}/end ]; do sleep 0.05; done",
            dir.path().display()
        ),
    );
    let mut child = shim(&script, &dir.path().join("log"));
    let daemon = pid_in(&dir.path().join("daemon.pid"));
    assert!(alive(daemon));
    fs::write(dir.path().join("end"), "").unwrap();
    assert!(wait(&mut child).success());
    assert!(!alive(daemon), "the shim had ended before all was dead");
}

#[test]
fn everything_dies_when_the_lifeline_closes() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let mut child = shim(&with_daemon(dir.path()), &log);
    let daemon = pid_in(&dir.path().join("daemon.pid"));
    wait_for("the workload is up", || {
        (!log_lines(&log).is_empty()).then_some(())
    });
    drop(child.stdin.take());
    assert_eq!(wait(&mut child).code(), Some(137));
    assert!(!alive(daemon));
}

/// The parent is a shell that holds the other end of the shim's standard input.
#[test]
fn everything_dies_with_a_killed_parent() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("workload.sh");
    fs::write(&script, with_daemon(dir.path())).unwrap();
    let shim_pid = dir.path().join("shim.pid");
    let line = format!(
        "exec 3> >(echo $BASHPID > {pid}; exec {SHIM} --log {log} -- /bin/sh {script}); read -r forever",
        pid = shim_pid.display(),
        log = dir.path().join("log").display(),
        script = script.display(),
    );
    let mut parent = Command::new("/bin/bash")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let daemon = pid_in(&dir.path().join("daemon.pid"));
    let shim = pid_in(&shim_pid);
    assert!(alive(daemon) && alive(shim));
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the shim is gone", || (!alive(shim)).then_some(()));
    assert!(!alive(daemon));
}

#[test]
fn the_workload_dies_with_a_killed_shim() {
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid");
    let script = format!(
        "echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000",
        pid.display()
    );
    let mut child = shim(&script, &dir.path().join("log"));
    let workload = pid_in(&pid);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the workload is gone", || (!alive(workload)).then_some(()));
}

#[test]
fn a_guarded_program_dies_with_its_parent() {
    let own = std::env::current_exe().unwrap();
    // The parent starts this test binary, which becomes `sleep` by way of the guard.
    let line = format!(
        "{} --exact helper_guard_sleep --ignored --nocapture > /dev/null 2>&1 & echo $!; read -r forever",
        own.display()
    );
    let mut parent = Command::new("/bin/bash")
        .args(["-c", &line])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(parent.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let guarded = Pid::from_raw(first.trim().parse().unwrap());
    wait_for("the guard has become sleep", || {
        (fs::read_to_string(format!("/proc/{guarded}/comm"))
            .ok()?
            .trim()
            == "sleep")
            .then_some(())
    });
    parent.kill().unwrap();
    parent.wait().unwrap();
    wait_for("the guarded program is gone", || {
        (!alive(guarded)).then_some(())
    });
}

#[test]
#[ignore = "run by a_guarded_program_dies_with_its_parent"]
fn helper_guard_sleep() {
    let code = nogoo9_local::shim::guard(["--", "/bin/sleep", "1000"].map(Into::into));
    panic!("the guard came back: {code:?}");
}

#[test]
fn a_guard_whose_parent_is_gone_runs_nothing() {
    let mark: PathBuf = tempfile::tempdir().unwrap().keep().join("ran");
    // Process 1 is an ancestor at most, never the parent of a test.
    let args = ["--parent", "1", "--", "/usr/bin/touch"].map(Into::into);
    let code = nogoo9_local::shim::guard(args.into_iter().chain([mark.clone().into_os_string()]));
    assert_eq!(
        format!("{code:?}"),
        format!("{:?}", std::process::ExitCode::from(125))
    );
    assert!(!mark.exists());
    fs::remove_dir(mark.parent().unwrap()).unwrap();
}

#[test]
fn a_full_lifeline_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = shim("sleep 0.2; exit 5", &dir.path().join("log"));
    child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(&[b'x'; 4096])
        .unwrap();
    assert_eq!(wait(&mut child).code(), Some(5));
}
