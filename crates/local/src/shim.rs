//! `nogoo9 pod-shim` and `nogoo9 guard`: the small processes that stand between
//! us and what we start, so that nothing outlives us.
//!
//! The **shim** is the resident parent of one container. It is a child subreaper,
//! so a workload that double-forks stays its descendant, and it ends in one of
//! three ways:
//! - the workload's first process exits: everything else below is killed, as the
//!   end of a PID namespace would do, and the shim exits with the same code
//!   (128 + n for signal n);
//! - `SIGTERM`: passed on to the first process, which may take its time;
//! - its lifeline (a pipe on standard input) closes: everything is killed at once.
//!   Whoever started the shim holds the other end, so the kernel closes it even
//!   when that process is killed by `SIGKILL`.
//!
//! Why a pipe and not only a parent-death signal: Linux sends that signal when the
//! *thread* that forked exits, and async runtimes retire threads. Where standard
//! input is not a pipe, the shim falls back to the signal.
//!
//! The **guard** sets the parent-death signal to `SIGKILL` and executes a program
//! in its place. It suits parents that fork from a thread that lives as long as
//! they do.

mod log;
mod tree;

pub(crate) use tree::marked;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid, setsid};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};

use log::LogFile;

/// Exit code of the shim when it fails itself, as container runtimes use it.
pub const EXIT_SHIM_FAILED: u8 = 125;
/// Exit code when the program exists and cannot be executed.
pub const EXIT_NOT_EXECUTABLE: u8 = 126;
/// Exit code when the program does not exist.
pub const EXIT_NOT_FOUND: u8 = 127;
/// Exit code of a workload that was killed with the shim's lifeline.
pub const EXIT_KILLED: u8 = 137;

/// Size at which a container's log is rotated, unless `--log-max` says otherwise.
pub const DEFAULT_LOG_MAX: u64 = 10 * 1024 * 1024;

/// How long the shim waits for killed descendants to be gone, and then for the
/// last bytes of their output.
const KILL_BOUND: Duration = Duration::from_secs(10);
const DRAIN_BOUND: Duration = Duration::from_secs(2);

/// Runs the shim: `[--log FILE] [--log-max BYTES] -- PROGRAM [ARG]...`.
///
/// `args` is what follows the subcommand on the command line; it must be the tail
/// of this process's arguments, since the shim runs itself once more, by the same
/// leading arguments, as the last stage before the workload.
///
/// Without `--log` the workload inherits standard output and error; with it, both
/// go to FILE in the CRI log format.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    match Mode::parse(&args) {
        Ok(Mode::Stage {
            parent,
            program,
            args,
        }) => ExitCode::from(become_workload(parent, &program, &args)),
        Ok(Mode::Supervise(options)) => match supervise_blocking(&options, &leading_args(&args)) {
            Ok(code) => ExitCode::from(code),
            Err(error) => complain("pod-shim", &error.to_string()),
        },
        Err(problem) => complain("pod-shim", &problem),
    }
}

/// Replaces this process by `PROGRAM`, which is killed when the parent dies:
/// `[--parent PID] -- PROGRAM [ARG]...`.
///
/// A parent that is already gone is noticed by a changed parent id; give `--parent`
/// to notice even a parent that died before this function ran. Returns only on
/// failure.
pub fn guard(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = args.into_iter().peekable();
    let mut parent = getppid();
    if args.peek().is_some_and(|arg| arg == "--parent") {
        args.next();
        match args.next().as_deref().and_then(parse_pid) {
            Some(pid) => parent = pid,
            None => return complain("guard", "--parent needs a process id"),
        }
    }
    if args.peek().is_some_and(|arg| arg == "--") {
        args.next();
    }
    let Some(program) = args.next() else {
        return complain("guard", "no program given; use: guard -- PROGRAM [ARG]...");
    };
    let rest: Vec<OsString> = args.collect();
    if let Err(error) = die_with(parent, Signal::SIGKILL) {
        return complain("guard", &error.to_string());
    }
    ExitCode::from(exec("guard", &program, &rest))
}

/// What a command line of the shim asks for.
#[derive(Debug, PartialEq, Eq)]
enum Mode {
    Supervise(Options),
    /// The last stage: dies with `parent`, starts a session, becomes the program.
    Stage {
        parent: Pid,
        program: OsString,
        args: Vec<OsString>,
    },
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    log: Option<PathBuf>,
    log_max: u64,
    program: OsString,
    args: Vec<OsString>,
}

impl Mode {
    fn parse(args: &[OsString]) -> Result<Self, String> {
        let mut log = None;
        let mut log_max = DEFAULT_LOG_MAX;
        let mut stage = None;
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            if flag == "--" {
                let program = args.next().cloned().ok_or("no program after --")?;
                let args = args.cloned().collect();
                return Ok(match stage {
                    Some(parent) => Self::Stage {
                        parent,
                        program,
                        args,
                    },
                    None => Self::Supervise(Options {
                        log,
                        log_max,
                        program,
                        args,
                    }),
                });
            }
            let value = args
                .next()
                .ok_or_else(|| format!("{} needs a value", flag.to_string_lossy()))?;
            match flag.to_str() {
                Some("--log") => log = Some(PathBuf::from(value)),
                Some("--log-max") => {
                    log_max = value
                        .to_str()
                        .and_then(|text| text.parse().ok())
                        .ok_or("--log-max needs a number of bytes")?;
                }
                Some("--stage") => {
                    stage = Some(parse_pid(value).ok_or("--stage needs a process id")?);
                }
                _ => return Err(format!("unknown flag {}", flag.to_string_lossy())),
            }
        }
        Err("no program given; use: pod-shim [--log FILE] -- PROGRAM [ARG]...".to_owned())
    }
}

fn parse_pid(text: &OsStr) -> Option<Pid> {
    text.to_str()?.parse().ok().map(Pid::from_raw)
}

/// This process's own arguments up to the tail that `main` was given.
fn leading_args(tail: &[OsString]) -> Vec<OsString> {
    let all: Vec<OsString> = std::env::args_os().collect();
    let end = all.len().saturating_sub(tail.len());
    all.into_iter().take(end).skip(1).collect()
}

#[allow(clippy::print_stderr)] // its standard error is the container's log
fn complain(who: &str, problem: &str) -> ExitCode {
    eprintln!("{who}: {problem}");
    ExitCode::from(EXIT_SHIM_FAILED)
}

fn die_with(parent: Pid, by: Signal) -> io::Result<()> {
    prctl::set_pdeathsig(by)?;
    if getppid() == parent {
        Ok(())
    } else {
        Err(io::Error::other("the parent process is already gone"))
    }
}

/// Becomes the program; returns an exit code only if that fails.
#[allow(clippy::print_stderr)] // its standard error is the container's log
fn exec(who: &str, program: &OsStr, args: &[OsString]) -> u8 {
    let error = Command::new(program).args(args).exec();
    eprintln!(
        "{who}: cannot execute {}: {error}",
        program.to_string_lossy()
    );
    match error.kind() {
        io::ErrorKind::NotFound => EXIT_NOT_FOUND,
        _ => EXIT_NOT_EXECUTABLE,
    }
}

fn become_workload(parent: Pid, program: &OsStr, args: &[OsString]) -> u8 {
    let ready = die_with(parent, Signal::SIGKILL)
        .and_then(|()| setsid().map(drop).map_err(io::Error::from));
    match ready {
        Ok(()) => exec("pod-shim", program, args),
        Err(error) => {
            complain("pod-shim", &error.to_string());
            EXIT_SHIM_FAILED
        }
    }
}

fn supervise_blocking(options: &Options, leading: &[OsString]) -> io::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(supervise(options, leading))
}

async fn supervise(options: &Options, leading: &[OsString]) -> io::Result<u8> {
    prctl::set_child_subreaper(true)?;
    // Handlers before the workload exists: no signal may slip by.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut child_exited = signal(SignalKind::child())?;
    // What is ignored stays ignored in a program that is executed, what is caught does not: so a
    // shell in a pod is hung up on also where the whole was started with nohup.
    let _hangup = signal(SignalKind::hangup())?;
    let _quit = signal(SignalKind::quit())?;
    let mut lifeline = lifeline()?;

    let log = options
        .log
        .as_ref()
        .map(|path| LogFile::open(path.clone(), options.log_max).map(RefCell::new))
        .transpose()?;

    let mut command = Command::new("/proc/self/exe");
    command
        .args(leading)
        .arg("--stage")
        .arg(getpid().to_string())
        .arg("--")
        .arg(&options.program)
        .args(&options.args)
        .stdin(Stdio::null());
    if log.is_some() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn()?;
    let first = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    let mut output = pin!(async {
        if let Some(log) = &log {
            tokio::join!(
                log::pump(stdout, "stdout", log),
                log::pump(stderr, "stderr", log)
            );
        }
    });
    let mut output_done = false;

    let code = loop {
        tokio::select! {
            _ = child_exited.recv() => {
                if let Some(code) = reap(first) {
                    break code;
                }
            }
            _ = terminate.recv() => forward(first, Signal::SIGTERM),
            _ = interrupt.recv() => forward(first, Signal::SIGTERM),
            () = closed(&mut lifeline) => break EXIT_KILLED,
            () = &mut output, if !output_done => output_done = true,
        }
    };
    let gone = kill_all();
    let _ = tokio::time::timeout(KILL_BOUND, gone).await;
    if !output_done {
        let _ = tokio::time::timeout(DRAIN_BOUND, output).await;
    }
    Ok(code)
}

/// The pipe on standard input, if there is one; else the parent-death signal.
fn lifeline() -> io::Result<Option<pipe::Receiver>> {
    let stdin: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    match pipe::Receiver::from_owned_fd(stdin) {
        Ok(receiver) => Ok(Some(receiver)),
        Err(_) => {
            die_with(getppid(), Signal::SIGTERM)?;
            Ok(None)
        }
    }
}

/// Resolves when the lifeline's other end is closed; never without a lifeline.
async fn closed(lifeline: &mut Option<pipe::Receiver>) {
    let Some(pipe) = lifeline else {
        return std::future::pending().await;
    };
    let mut scratch = [0_u8; 64];
    loop {
        match pipe.read(&mut scratch).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn forward(first: Pid, what: Signal) {
    // Not yet reaped by us, so the id cannot belong to another process.
    let _ = kill(first, what);
}

/// Reaps every dead child; the exit code of `first` if it was among them.
fn reap(first: Pid) -> Option<u8> {
    let mut code = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == first => {
                code = Some(u8::try_from(status & 0xff).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::Signaled(pid, by, _)) if pid == first => {
                code = Some(128_u8.saturating_add(u8::try_from(by as i32).unwrap_or(0)));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return code,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return code,
        }
    }
}

/// Kills until no descendant is left: killing a parent hands its children to us,
/// so every round finds what the round before could not see.
async fn kill_all() {
    let own = getpid();
    loop {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        let left = tree::descendants(own);
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill(pid, Signal::SIGKILL);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Mode, String> {
        let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        Mode::parse(&args)
    }

    #[test]
    fn flags_end_at_the_double_dash() {
        assert_eq!(
            parse("--log /a --log-max 5 -- prog --log x"),
            Ok(Mode::Supervise(Options {
                log: Some("/a".into()),
                log_max: 5,
                program: "prog".into(),
                args: vec!["--log".into(), "x".into()],
            }))
        );
        assert_eq!(
            parse("--stage 7 -- prog"),
            Ok(Mode::Stage {
                parent: Pid::from_raw(7),
                program: "prog".into(),
                args: vec![]
            })
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("", "no program given"),
            ("--", "no program after --"),
            ("--log", "--log needs a value"),
            ("--log-max many -- p", "--log-max needs a number"),
            ("--colour red -- p", "unknown flag --colour"),
        ] {
            let problem = parse(line).unwrap_err();
            assert!(problem.contains(part), "{line:?}: {problem}");
        }
    }
}
