//! Shells in the browser: the sample's `/shell`. Binary frames carry a terminal's bytes
//! both ways; a text frame is a control message in JSON.
//!
//! A terminal shows what is typed as well as what it answers, wraps long lines and adds
//! escape sequences. So a line is typed as an expression (`echo m$((7+0))%`) and
//! recognised by its value (`m7%`), which the typed text never contains.

use tokio_tungstenite::tungstenite::Message;

use super::dialect::{Dialect, Heard, tag};
use super::{OpenSocket, SocketOptions};
use crate::{Phases, SocketError};

/// A client of a shell.
#[derive(Debug)]
pub struct ShellClient;

impl ShellClient {
    /// Opens a shell, sets its size and starts typing into it.
    ///
    /// The pod's name is asked of the shell: its environment has it as `POD_NAME`.
    ///
    /// # Errors
    /// [`SocketError`] if it cannot be opened.
    pub async fn open(
        options: SocketOptions,
        columns: u16,
        rows: u16,
        phases: &Phases,
    ) -> Result<OpenSocket, SocketError> {
        options
            .open(Shell::new(&tag(), columns, rows), phases)
            .await
    }
}

/// The end of an answer. Neither a pod's name nor a number contains it.
const END: u8 = b'%';
/// A pod's name is at most this long (DNS-1123 subdomain).
const MAX_VALUE: usize = 253;

#[derive(Debug)]
struct Shell {
    columns: u16,
    rows: u16,
    line_marker: String,
    pod_marker: String,
    /// The end of what the terminal showed, in which an answer may be incomplete.
    screen: Vec<u8>,
}

impl Shell {
    fn new(tag: &str, columns: u16, rows: u16) -> Self {
        let (line_marker, pod_marker) = (format!("L{tag}="), format!("P{tag}="));
        Self {
            columns,
            rows,
            line_marker,
            pod_marker,
            screen: Vec::new(),
        }
    }

    /// The first marker in `screen`: where its value begins, and whether it is a pod's.
    fn marker(&self) -> Option<(usize, bool)> {
        let find = |marker: &str| {
            let at = self
                .screen
                .windows(marker.len())
                .position(|window| window == marker.as_bytes());
            at.map(|at| at + marker.len())
        };
        match (find(&self.line_marker), find(&self.pod_marker)) {
            (Some(line), Some(pod)) => Some(if pod < line {
                (pod, true)
            } else {
                (line, false)
            }),
            (Some(line), None) => Some((line, false)),
            (None, pod) => pod.map(|pod| (pod, true)),
        }
    }

    fn read(&mut self, heard: &mut Vec<Heard>) {
        while let Some((start, is_pod)) = self.marker() {
            let value = self.screen.get(start..).unwrap_or_default();
            let end = value.iter().position(|byte| !is_value(*byte));
            match end.and_then(|end| Some((end, *value.get(end)?))) {
                // Not complete yet: keep the marker and what follows.
                None if value.len() <= MAX_VALUE => {
                    let marker = if is_pod {
                        self.pod_marker.len()
                    } else {
                        self.line_marker.len()
                    };
                    self.screen.drain(..start - marker);
                    return;
                }
                Some((end, END)) if end > 0 => {
                    let text =
                        String::from_utf8_lossy(value.get(..end).unwrap_or_default()).into_owned();
                    heard.push(match text.parse() {
                        _ if is_pod => Heard::Pod(text),
                        Ok(n) => Heard::Line(n),
                        Err(_) => Heard::Foreign(text),
                    });
                    self.screen.drain(..start + end);
                }
                // What was typed, shown by the terminal: no value follows the marker.
                _ => {
                    self.screen.drain(..start);
                }
            }
        }
        // A marker may be split between two frames.
        let keep = self.line_marker.len().max(self.pod_marker.len()) - 1;
        let surplus = self.screen.len().saturating_sub(keep);
        self.screen.drain(..surplus);
    }
}

/// Bytes that an answer may consist of; what is typed has `$` there.
const fn is_value(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

impl Dialect for Shell {
    fn kind(&self) -> &'static str {
        "shell"
    }

    fn hello(&self) -> Vec<Message> {
        let resize = serde_json::json!({"resize": {"cols": self.columns, "rows": self.rows}});
        vec![
            Message::text(resize.to_string()),
            // Nobody's history file is the place for this.
            Message::binary(format!(
                "unset HISTFILE; echo \"{}${{POD_NAME}}%\"\n",
                self.pod_marker
            )),
        ]
    }

    fn line(&self, n: u64) -> Message {
        Message::binary(format!("echo \"{}$(({n}+0))%\"\n", self.line_marker))
    }

    fn hear(&mut self, message: &Message, heard: &mut Vec<Heard>) {
        if let Message::Binary(bytes) = message {
            self.screen.extend_from_slice(bytes);
            self.read(heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hear(screen: &[u8], cuts: &[usize]) -> Vec<Heard> {
        let mut shell = Shell::new("9x1", 80, 24);
        let mut heard = Vec::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (screen.len() + 1)).collect();
        cuts.extend([0, screen.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            shell.hear(
                &Message::binary(screen[pair[0]..pair[1]].to_vec()),
                &mut heard,
            );
        }
        assert!(
            shell.screen.len() < 300,
            "only an unfinished answer is kept"
        );
        heard
    }

    /// As bash prints it: bracketed paste, coloured prompt, typed text shown and wrapped.
    const SCREEN: &[u8] = b"\x1b[?2004h\x1b[01;32muser@pod\x1b[00m$ unset HISTFILE; echo \"P9x1=${POD_NAME}%\"\r\n\
        \x1b[?2004l\rP9x1=ws-alice-demo-up-a1b2c%\r\n\x1b[?2004huser@pod$ echo \"L9x1=$((0+0))%\"\r\n\
        \x1b[?2004l\rL9x1=0%\r\necho \"L9x1\r=$((1+0))%\"\r\nL9x1=1%\r\nL9x2=7%\r\nL9x1=12%\r\n100% of L9x1= is here\r\n";

    #[test]
    fn answers_are_told_from_what_was_typed() {
        let pod = Heard::Pod("ws-alice-demo-up-a1b2c".to_owned());
        assert_eq!(
            hear(SCREEN, &[]),
            [pod, Heard::Line(0), Heard::Line(1), Heard::Line(12)]
        );
    }

    #[test]
    fn a_shell_without_a_pod_name_names_none() {
        assert_eq!(hear(b"P9x1=%\r\nL9x1=3%", &[]), [Heard::Line(3)]);
    }

    #[test]
    fn text_frames_are_control_and_a_flood_is_not_kept() {
        let mut shell = Shell::new("9x1", 80, 24);
        let mut heard = Vec::new();
        shell.hear(&Message::text("L9x1=3%"), &mut heard);
        shell.hear(
            &Message::binary([b"L9x1=".as_slice(), &[b'a'; 100_000]].concat()),
            &mut heard,
        );
        assert!(
            heard.is_empty() && shell.screen.len() < 300,
            "{heard:?}, {}",
            shell.screen.len()
        );
        assert_eq!(
            shell.hello()[0],
            Message::text(r#"{"resize":{"cols":80,"rows":24}}"#)
        );
    }

    proptest! {
        #[test]
        fn however_frames_cut_it(cuts in prop::collection::vec(any::<usize>(), 0..40)) {
            prop_assert_eq!(hear(SCREEN, &cuts), hear(SCREEN, &[]));
        }
    }
}
