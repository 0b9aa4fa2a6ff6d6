//! Log lines on their way to standard error: a bounded queue and one thread that writes.
//!
//! Whoever reads a process's logs may stop reading: a supervisor that is suspended, a log collector
//! that hangs, a terminal with Ctrl-S. Writing would then block every thread that logs, and with it
//! all requests. So lines wait in a queue; if it is full they are dropped and counted, and the count
//! is the next line that gets through.

use super::LogFormat;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait: seconds of a busy proxy's access log, some MiB at most.
const LINES: usize = 8192;
/// Longest wait at the end of the process for the lines that still wait.
const FLUSH: Duration = Duration::from_secs(1);

/// The queue of this process, once logs are set up.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Where log lines are put. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    messages: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before this is written: say so.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        format: LogFormat,
    ) -> std::io::Result<Self> {
        let (messages, received) = sync_channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&dropped);
        std::thread::Builder::new()
            .name("log".into())
            .spawn(move || write(&received, out, &counted, format))?;
        Ok(Self { messages, dropped })
    }

    /// Makes it the one that [`flush`] waits for.
    pub(super) fn publish(&self) {
        let _first = QUEUE.set(self.clone());
    }

    fn flush(&self, within: Duration) {
        let (done, wait) = sync_channel(1);
        if self.messages.try_send(Message::Flush(done)).is_ok() {
            let _too_late = wait.recv_timeout(within);
        }
    }
}

/// Waits, not for ever, until the lines logged so far are written.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH);
    }
}

/// Ends with the last sender. A stream that cannot be written to is no reason to stop anything.
fn write(
    received: &Receiver<Message>,
    mut out: impl Write,
    dropped: &AtomicU64,
    format: LogFormat,
) {
    for message in received {
        let lost = dropped.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _closed_pipe = out.write_all(notice(lost, format).as_bytes());
        }
        match message {
            Message::Line(line) => {
                let _closed_pipe = out.write_all(&line);
            }
            Message::Flush(done) => {
                let _closed_pipe = out.flush();
                let _nobody_waits = done.try_send(());
            }
        }
    }
}

fn notice(lost: u64, format: LogFormat) -> String {
    match format {
        LogFormat::Text => {
            format!("WARN log lines were dropped, their reader is too slow dropped={lost}\n")
        }
        LogFormat::Json => format!(
            "{{\"level\":\"WARN\",\"message\":\"log lines were dropped, their reader is too slow\",\"dropped\":{lost}}}\n"
        ),
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = &'a Queue;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The subscriber writes each event at once, as one whole line.
impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self
            .messages
            .try_send(Message::Line(line.to_vec()))
            .is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A stream that takes a line only when it is told to, and says so when it has one.
    struct Stuck {
        has_one: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
        written: mpsc::Sender<String>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The test may have ended.
            let _nobody_asks = self.has_one.send(());
            if self.go_on.recv().is_ok() {
                let _ended = self
                    .written
                    .send(String::from_utf8_lossy(bytes).into_owned());
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_stuck_stops_nobody_and_losses_are_told() {
        let ((go, go_on), (written, lines)) = (mpsc::channel(), mpsc::channel());
        let (has_one, stuck) = mpsc::channel();
        let stream = Stuck {
            has_one,
            go_on,
            written,
        };
        let queue = Queue::start(stream, LogFormat::Text).unwrap();
        (&queue).write_all(b"line 0\n").unwrap();
        stuck.recv().unwrap();
        let mut sent = 1;
        while queue.dropped.load(Ordering::Relaxed) < 5 {
            (&queue)
                .write_all(format!("line {sent}\n").as_bytes())
                .unwrap();
            sent += 1;
        }
        queue.flush(Duration::from_millis(1));
        let kept = sent - 5;
        assert_eq!(
            kept,
            LINES + 1,
            "those that wait, and the one that is stuck"
        );

        (0..=kept).for_each(|_| go.send(()).unwrap());
        let mut seen: Vec<String> = (0..=kept).map(|_| lines.recv().unwrap()).collect();
        let notices = seen
            .extract_if(.., |line| line.contains("dropped=5"))
            .count();
        assert_eq!(notices, 1);
        assert!(seen.first().is_some_and(|line| line == "line 0\n"));
        assert_eq!(seen.len(), kept);
    }

    #[test]
    fn flush_waits_for_what_was_logged_before() {
        let (written, lines) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        (0..3).for_each(|_| go.send(()).unwrap());
        let (has_one, _stuck) = mpsc::channel();
        let stream = Stuck {
            has_one,
            go_on,
            written,
        };
        let queue = Queue::start(stream, LogFormat::Json).unwrap();
        for n in 0..3 {
            (&queue).write_all(format!("{n}").as_bytes()).unwrap();
        }
        queue.flush(Duration::from_secs(30));
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), ["0", "1", "2"]);
        assert!(
            serde_json::from_str::<serde_json::Value>(&notice(7, LogFormat::Json)).unwrap()["dropped"]
                == 7
        );
    }
}
