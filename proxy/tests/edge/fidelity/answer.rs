//! What a client was answered with, read from its connection.

use super::message::{Message, Start};
use crate::PATIENCE;
use crate::client::Connection;
use std::net::SocketAddr;
use tokio::io::AsyncReadExt as _;

/// What a client was answered with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) before: Vec<Message>,
    pub(super) last: Message,
    /// Whether it came as a whole.
    pub(super) whole: bool,
}

pub(super) async fn ask(address: SocketAddr, wire: &[u8], head: bool) -> Answer {
    let mut connection = Connection::open(address).await;
    connection.send(wire).await;
    answer(&mut connection, head).await
}

/// Reads the next answer.
pub(super) async fn answer(connection: &mut Connection, head: bool) -> Answer {
    let mut before = Vec::new();
    let mut ended = false;
    loop {
        let start = Start::Answer { head };
        let got = &mut connection.buffer;
        match Message::read(got, start).expect("an answer by the letter") {
            Some((message, length)) if !message.until_end || ended => {
                let mut message = message;
                got.drain(..length);
                // A body that ends with the connection may be of any length.
                if message
                    .line
                    .split(' ')
                    .nth(1)
                    .unwrap_or_default()
                    .starts_with('1')
                {
                    message.until_end = false;
                    before.push(message);
                    continue;
                }
                let last = message;
                return Answer {
                    before,
                    last,
                    whole: true,
                };
            }
            _ if ended => {
                let last = cut(got);
                return Answer {
                    before,
                    last,
                    whole: false,
                };
            }
            _ => {}
        }
        let read = connection.stream.read_buf(&mut connection.buffer);
        let read = tokio::time::timeout(PATIENCE, read).await;
        ended = read.expect("no answer came").unwrap_or(0) == 0;
    }
}

/// What there is of an answer that broke off.
fn cut(got: &[u8]) -> Message {
    let end = got.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(got)));
    let text = String::from_utf8_lossy(&got[..end]).into_owned();
    let mut lines = text.split("\r\n").map(ToOwned::to_owned);
    Message {
        line: lines.next().unwrap(),
        lines: lines.collect(),
        ..Message::default()
    }
}
