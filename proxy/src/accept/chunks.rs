//! Where a chunked body ends (RFC 9112, section 7.1). Pure.
//!
//! Pingora reads what it says; this tells how far it goes, so that the next request is not taken for a
//! part of it. It is stricter: where two readers might see two ends, it sees none.

/// Follows a chunked body as it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the size of a chunk; `None`: it has no digit yet.
    Size(Option<u64>),
    /// In what follows a size on its line.
    Extension(u64),
    /// After the CR that ends this line.
    Sized(u64),
    /// In a chunk, with so many bytes to come, its end of line among them.
    Data(u64),
    /// In a line after the last chunk.
    Trailer {
        /// Whether nothing stands on it yet.
        empty: bool,
    },
    /// After the CR that ends this line.
    Trailed {
        /// Whether nothing stood on it.
        empty: bool,
    },
    /// After it.
    Done,
    /// It is no chunked body from here on.
    Lost,
}

impl Default for Chunks {
    fn default() -> Self {
        Self(State::Size(None))
    }
}

impl Chunks {
    /// How many of these bytes, the next ones, belong to it: none from the one on at which it is lost.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            taken += match self.0 {
                State::Done | State::Lost => return taken,
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
                    self.0 = rest.first().map_or(state, |byte| step(state, *byte));
                    usize::from(self.0 != State::Lost)
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
        (State::Size(Some(size)) | State::Extension(size), b'\r') => State::Sized(size),
        (State::Sized(0), b'\n') => State::Trailer { empty: true },
        (State::Sized(size), b'\n') => match size.checked_add(2) {
            Some(data) => State::Data(data),
            None => State::Lost,
        },
        (State::Trailer { empty }, b'\r') => State::Trailed { empty },
        (State::Trailed { empty: true }, b'\n') => State::Done,
        (State::Trailed { empty: false }, b'\n') => State::Trailer { empty: true },
        // A line ends in CR LF. To some readers LF alone ends it too, to others it is a part of it.
        (State::Sized(_) | State::Trailed { .. }, _) | (_, b'\n') => State::Lost,
        (State::Size(Some(size)), b';' | b' ' | b'\t') => State::Extension(size),
        (State::Size(size), byte) => {
            let digit = char::from(byte).to_digit(16);
            let size = size.unwrap_or(0).checked_mul(16);
            match size.zip(digit) {
                Some((size, digit)) => State::Size(Some(size + u64::from(digit))),
                None => State::Lost,
            }
        }
        (State::Trailer { .. }, _) => State::Trailer { empty: false },
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
        for (body, wrong) in [
            ("", "x"),
            ("", "\r\n"),
            ("", ";"),
            ("", "-1\r\n"),
            ("0", "x5\r\n"),
            ("5\r\nhello\r\n", "+"),
            ("1000000000000000", "0"),
            ("ffffffffffffffff\r", "\n"),
            ("3", "\n"),
            ("3;e", "\n"),
            ("3\r", "x"),
            ("0", "\n"),
            ("0;e", "\n\r\n"),
            ("0\r\n", "\n"),
            ("0\r\nt: 1", "\n"),
            ("0\r\nt: 1\r", "x"),
        ] {
            let whole = format!("{body}{wrong}");
            let mut chunks = Chunks::default();
            assert_eq!(chunks.take(whole.as_bytes()), body.len(), "{whole:?}");
            assert!(chunks.is_lost(), "{whole:?}");
            assert_eq!((chunks.take(b"more"), chunks.ahead()), (0, 0));
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
