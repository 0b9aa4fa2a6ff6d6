//! Where a chunked body ends (RFC 9112, section 7.1). Pure.
//!
//! What it says is for Pingora to read, and to refuse; this only tells how far it goes, so that the
//! next request is not taken for a part of it.

/// Follows a chunked body as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the size of a chunk; `None`: it has no digit yet.
    Size(Option<u64>),
    /// In what follows a size on its line.
    Extension(u64),
    /// In a chunk, with so many bytes to come, its end of line among them.
    Data(u64),
    /// In a line after the last chunk.
    Trailer {
        /// Whether nothing stands on it yet.
        empty: bool,
    },
    /// After it.
    Done,
    /// It is no chunked body.
    Lost,
}

impl Default for Chunks {
    fn default() -> Self {
        Self(State::Size(None))
    }
}

impl Chunks {
    /// How many of these bytes, the next ones, belong to it.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            taken += match self.0 {
                State::Done => return taken,
                State::Lost => return bytes.len(),
                State::Data(left) => {
                    let within = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    let left = left.saturating_sub(within as u64);
                    self.0 = if left == 0 {
                        State::Size(None)
                    } else {
                        State::Data(left)
                    };
                    within
                }
                state => {
                    if let Some(byte) = rest.first() {
                        self.0 = step(state, *byte);
                    }
                    1
                }
            };
        }
        taken
    }

    /// How many of the next bytes belong to it in any case.
    #[must_use]
    pub fn ahead(&self) -> usize {
        match self.0 {
            State::Data(left) => usize::try_from(left).unwrap_or(usize::MAX),
            State::Lost => usize::MAX,
            _ => 0,
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// Whether nobody can tell where it ends.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0 == State::Lost
    }
}

fn step(state: State, byte: u8) -> State {
    match (state, byte) {
        (State::Size(Some(size)) | State::Extension(size), b'\n') => match size.checked_add(2) {
            _ if size == 0 => State::Trailer { empty: true },
            Some(data) => State::Data(data),
            None => State::Lost,
        },
        (State::Size(Some(size)), b'\r' | b';' | b' ' | b'\t') => State::Extension(size),
        (State::Size(size), byte) => {
            let digit = char::from(byte).to_digit(16);
            let size = size.unwrap_or(0).checked_mul(16);
            match size.zip(digit) {
                Some((size, digit)) => State::Size(Some(size + u64::from(digit))),
                None => State::Lost,
            }
        }
        (State::Trailer { empty: true }, b'\n') => State::Done,
        (State::Trailer { empty }, b'\r') => State::Trailer { empty },
        (State::Trailer { .. }, byte) => State::Trailer {
            empty: byte == b'\n',
        },
        (state, _) => state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bodies_end_where_they_end() {
        for (body, rest) in [
            ("0\r\n\r\n", "GET /"),
            ("5\r\nhello\r\n0\r\n\r\n", "GET /"),
            (
                "a;x=y\r\n0123456789\r\nF\r\n0123456789abcde\r\n00\r\n\r\n",
                "0\r\n\r\n",
            ),
            (
                "1 \r\n\n\r\n0\r\nTrailer: 1\r\nOther: 2\r\n\r\n",
                "\r\n\r\n",
            ),
            ("3\nabc\r\n0\n\n", "more"),
        ] {
            let whole = format!("{body}{rest}");
            let mut chunks = Chunks::default();
            assert_eq!(chunks.take(whole.as_bytes()), body.len(), "{whole:?}");
            assert!(chunks.is_done());
            assert_eq!((chunks.take(b"more"), chunks.ahead()), (0, 0));
        }
    }

    #[test]
    fn what_is_none() {
        for body in [
            "x",
            "\r\n",
            ";",
            "-1\r\n",
            "0x5\r\n",
            "5\r\nhello\r\n+",
            "10000000000000000",
            "ffffffffffffffff\n",
        ] {
            let mut chunks = Chunks::default();
            assert_eq!(chunks.take(body.as_bytes()), body.len(), "{body:?}");
            assert!(chunks.is_lost(), "{body:?}");
            assert_eq!((chunks.take(b"more"), chunks.ahead()), (4, usize::MAX));
        }
    }

    proptest! {
        /// However it is cut, it ends at the same place, and never before what was said to be its own.
        #[test]
        fn pieces_do_not_matter(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6),
            cuts in prop::collection::vec(1usize..9, 1..50),
        ) {
            let mut body = Vec::new();
            for chunk in &chunks {
                body.extend(format!("{:X};e\r\n", chunk.len()).into_bytes());
                body.extend(chunk);
                body.extend(b"\r\n");
            }
            body.extend(b"0\r\nt: 1\r\n\r\n");
            let end = body.len();
            body.extend(b"5\r\nhello");
            let mut follower = Chunks::default();
            let mut at = 0;
            for cut in cuts.iter().cycle() {
                if follower.is_done() {
                    break;
                }
                prop_assert!(at + follower.ahead() <= end);
                let piece = &body[at..(at + cut).min(body.len())];
                at += follower.take(piece);
            }
            prop_assert_eq!(at, end);
        }
    }
}
