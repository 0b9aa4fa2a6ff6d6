//! What the two kinds of socket differ in: how a line is typed, and how it comes back.

use tokio_tungstenite::tungstenite::Message;

/// Something read out of the messages that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Line `n` came back.
    Line(u64),
    /// The pod said its name.
    Pod(String),
    /// Something that must not be there: another socket's line, a changed one.
    Foreign(String),
}

pub(crate) trait Dialect: Send + 'static {
    /// A word for reports.
    fn kind(&self) -> &'static str;

    /// Sent before the first line.
    fn hello(&self) -> Vec<Message>;

    /// Line `n`, as it is typed.
    fn line(&self, n: u64) -> Message;

    /// Reads what a message brings; messages may hold parts of lines, or several.
    fn hear(&mut self, message: &Message, heard: &mut Vec<Heard>);
}

/// A word that no other socket of this process uses, so that crossed wires show.
pub(crate) fn tag() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(
        "{}x{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}
