//! Sockets that give back what they are sent: the sample's `/echo`.

use tokio_tungstenite::tungstenite::Message;

use super::dialect::{Dialect, Heard, tag};
use super::{OpenSocket, SocketOptions};
use crate::{Phases, SocketError};

/// A client of an echoing socket: one text frame a line.
#[derive(Debug)]
pub struct EchoClient;

impl EchoClient {
    /// Opens a socket and starts typing into it.
    ///
    /// # Errors
    /// [`SocketError`] if it cannot be opened.
    pub async fn open(options: SocketOptions, phases: &Phases) -> Result<OpenSocket, SocketError> {
        options.open(Echo { tag: tag() }, phases).await
    }
}

#[derive(Debug)]
struct Echo {
    tag: String,
}

impl Echo {
    fn text(&self, n: u64) -> String {
        format!("{}:{n}:the quick brown fox", self.tag)
    }

    /// The number of a line that this socket may have typed.
    fn number(&self, text: &str) -> Option<u64> {
        let (number, _) = text
            .strip_prefix(&self.tag)?
            .strip_prefix(':')?
            .split_once(':')?;
        let n = number.parse().ok()?;
        (self.text(n) == text).then_some(n)
    }
}

impl Dialect for Echo {
    fn kind(&self) -> &'static str {
        "echo"
    }

    fn hello(&self) -> Vec<Message> {
        Vec::new()
    }

    fn line(&self, n: u64) -> Message {
        Message::text(self.text(n))
    }

    fn hear(&mut self, message: &Message, heard: &mut Vec<Heard>) {
        match message {
            Message::Text(text) => heard.push(
                self.number(text)
                    .map_or_else(|| Heard::Foreign(text.to_string()), Heard::Line),
            ),
            Message::Binary(bytes) => {
                heard.push(Heard::Foreign(format!("{} binary bytes", bytes.len())));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_unchanged_lines_count() {
        let (mut a, b) = (Echo { tag: tag() }, Echo { tag: tag() });
        let mut heard = Vec::new();
        a.hear(&a.line(7), &mut heard);
        a.hear(&b.line(7), &mut heard);
        a.hear(
            &Message::text(format!("{}:7:the quick brown", a.tag)),
            &mut heard,
        );
        a.hear(&Message::binary(vec![1, 2]), &mut heard);
        a.hear(&Message::Ping(Vec::new().into()), &mut heard);
        assert_eq!(heard[0], Heard::Line(7));
        assert_eq!(heard.len(), 4);
        assert!(
            heard[1..].iter().all(|h| matches!(h, Heard::Foreign(_))),
            "{heard:?}"
        );
    }
}
