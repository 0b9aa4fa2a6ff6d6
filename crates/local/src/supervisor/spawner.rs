//! A thread that forks.
//!
//! Linux sends the parent-death signal, by which guarded children end with us, when the
//! *thread* that forked them exits. Async runtimes retire threads; this one lives as long
//! as the process.

use std::{io, process::Stdio, sync::mpsc, thread};

use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

struct Job {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// Starts children from one thread. Clones share it.
#[derive(Clone)]
pub(super) struct Spawner(mpsc::Sender<Job>);

impl Spawner {
    /// Starts the thread; call it inside a runtime, which will reap the children.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let runtime = Handle::current();
        thread::Builder::new()
            .name("spawner".to_owned())
            .spawn(move || {
                let _inside = runtime.enter();
                for mut job in queue {
                    // An asker that went away drops the child; `kill_on_drop` ends it.
                    let _gone = job.reply.send(job.command.spawn());
                }
                // Reached when every handle is gone; children that still run end too.
            })?;
        Ok(Self(jobs))
    }

    /// Forks and executes. The child has no standard input, pipes for output, and its own
    /// process group: a Ctrl-C on the terminal is for us, who stop children in order.
    pub(super) async fn spawn(&self, mut command: Command) -> io::Result<Child> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let (reply, answer) = oneshot::channel();
        let ended = || io::Error::other("the spawner thread has ended");
        self.0.send(Job { command, reply }).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}
