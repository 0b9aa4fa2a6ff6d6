//! Where frames begin and end in a WebSocket byte stream (RFC 6455, section 5.2). Pure.

/// A Close frame of a server with a status code and no reason.
#[must_use]
pub fn close(code: u16) -> [u8; 4] {
    let [high, low] = code.to_be_bytes();
    [0x88, 0x02, high, low]
}

/// A Close frame of a client, masked with `key` as a client's frames must be.
#[must_use]
pub fn masked_close(code: u16, key: [u8; 4]) -> [u8; 8] {
    let [high, low] = code.to_be_bytes();
    let [a, b, c, d] = key;
    [0x88, 0x82, a, b, c, d, high ^ a, low ^ b]
}

/// Opcode of a Close frame.
const CLOSE: u8 = 0x8;
/// Longest frame header: 2 bytes, 8 of length, 4 of mask.
const MAX_HEADER: usize = 14;

/// What is known of the first Close frame of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Closing {
    /// None has begun.
    #[default]
    No,
    /// Its header has come; the two bytes of its code, masked with these, come next.
    Code([u8; 2]),
    /// The second byte of its code comes next, masked with this.
    Low { high: u8, mask: u8 },
    /// Its code has come, or it has none.
    Known(Option<u16>),
}

impl Closing {
    fn take(self, byte: u8) -> Self {
        match self {
            Self::Code([first, mask]) => Self::Low {
                high: byte ^ first,
                mask,
            },
            Self::Low { high, mask } => Self::Known(Some(u16::from_be_bytes([high, byte ^ mask]))),
            other => other,
        }
    }
}

/// Follows one direction of a socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Frames {
    header: [u8; MAX_HEADER],
    /// Bytes of the header that were seen; 0 at a boundary and inside a payload.
    seen: usize,
    /// Bytes of payload still to come.
    payload: u64,
    closing: Closing,
}

impl Frames {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let taken = self.advance(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    /// Takes in bytes up to the end of a frame, and returns how many that were: one at least, if
    /// there are any.
    pub fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&next) = bytes.get(at) {
            if matches!(self.closing, Closing::Code(_) | Closing::Low { .. }) {
                // Of the payload of a Close, which is short, byte by byte.
                self.closing = self.closing.take(next);
                self.payload -= 1;
                at += 1;
            } else if self.payload > 0 {
                let left = (bytes.len() - at) as u64;
                let skip = self.payload.min(left);
                self.payload -= skip;
                at += usize::try_from(skip).unwrap_or(usize::MAX);
            } else {
                if let Some(slot) = self.header.get_mut(self.seen) {
                    *slot = next;
                }
                self.seen += 1;
                at += 1;
                self.take_header();
            }
            if self.at_boundary() {
                break;
            }
        }
        at
    }

    /// Whether the next byte begins a frame.
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.seen == 0 && self.payload == 0
    }

    /// Whether a Close frame has begun: nothing may follow it.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing != Closing::No
    }

    /// Status code of the first Close frame, if it has one and that has come.
    #[must_use]
    pub fn close_code(&self) -> Option<u16> {
        match self.closing {
            Closing::Known(code) => code,
            _ => None,
        }
    }

    fn take_header(&mut self) {
        let [first, second, rest @ ..] = &self.header;
        if self.seen < 2 {
            return;
        }
        let mask = if second & 0x80 != 0 { 4 } else { 0 };
        let short = second & 0x7f;
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        if self.seen < 2 + extended + mask {
            return;
        }
        self.payload = match extended {
            0 => u64::from(short),
            n => rest
                .iter()
                .take(n)
                .fold(0, |length, byte| (length << 8) | u64::from(*byte)),
        };
        if first & 0x0f == CLOSE && !self.is_closing() {
            self.closing = if self.payload < 2 {
                Closing::Known(None)
            } else {
                let key = rest.get(extended..).filter(|_| mask > 0);
                Closing::Code(match key {
                    Some([first, second, ..]) => [*first, *second],
                    _ => [0, 0],
                })
            };
        }
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(opcode: u8, payload: usize, masked: bool) -> Vec<u8> {
        let bit = if masked { 0x80 } else { 0 };
        let mut out = vec![0x80 | opcode];
        match payload {
            0..=125 => out.push(bit | payload as u8),
            126..=0xffff => {
                out.push(bit | 126);
                out.extend_from_slice(&(payload as u16).to_be_bytes());
            }
            _ => {
                out.push(bit | 127);
                out.extend_from_slice(&(payload as u64).to_be_bytes());
            }
        }
        if masked {
            out.extend_from_slice(&[1, 2, 3, 4]);
        }
        out.extend(std::iter::repeat_n(0x81, payload));
        out
    }

    #[test]
    fn a_close_is_noticed_and_nothing_else_is() {
        let mut frames = Frames::new();
        frames.feed(&frame(1, 3, false));
        assert!(frames.at_boundary() && !frames.is_closing());
        frames.feed(&close(1012));
        assert!(frames.at_boundary() && frames.is_closing());
        assert_eq!(close(1012), [0x88, 0x02, 0x03, 0xf4]);
    }

    #[test]
    fn the_code_of_a_close_is_read_masked_or_not_however_it_is_cut() {
        for (close, code) in [
            (close(1012).to_vec(), Some(1012)),
            (masked_close(4001, [9, 8, 7, 6]).to_vec(), Some(4001)),
            (vec![0x88, 0], None),
            (vec![0x88, 0x80, 1, 2, 3, 4], None),
            (vec![0x88, 1, 3], None),
            (vec![0x88, 126, 0, 4, 0x03, 0xe8, b'h', b'i'], Some(1000)),
        ] {
            let stream = [frame(1, 3, true), close, frame(8, 2, false)].concat();
            for cut in 0..stream.len() {
                let mut frames = Frames::new();
                frames.feed(&stream[..cut]);
                frames.feed(&stream[cut..]);
                assert_eq!((frames.close_code(), frames.at_boundary()), (code, true));
            }
        }
    }

    proptest! {
        /// However the bytes are cut, boundaries are exactly where frames end.
        #[test]
        fn boundaries(
            shapes in prop::collection::vec((prop::sample::select(vec![0u8, 1, 2, 9, 10]), prop::sample::select(vec![0usize, 1, 125, 126, 127, 300, 65_535, 65_536]), any::<bool>()), 1..6),
            cuts in prop::collection::vec(1usize..200, 1..50),
        ) {
            let mut stream = Vec::new();
            let mut ends = std::collections::BTreeSet::from([0]);
            for (opcode, payload, masked) in shapes {
                stream.extend(frame(opcode, payload, masked));
                ends.insert(stream.len());
            }
            let mut frames = Frames::new();
            let mut at = 0;
            let mut cuts = cuts.iter().cycle();
            while at < stream.len() {
                let next = (at + cuts.next().unwrap() * 7).min(stream.len());
                frames.feed(&stream[at..next]);
                at = next;
                prop_assert_eq!(frames.at_boundary(), ends.contains(&at), "at {}", at);
                prop_assert!(!frames.is_closing());
            }
        }

        /// Garbage never panics and never loops.
        #[test]
        fn garbage(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut frames = Frames::new();
            frames.feed(&bytes);
            let mut one_by_one = Frames::new();
            for byte in &bytes {
                one_by_one.feed(&[*byte]);
            }
            prop_assert_eq!(frames.at_boundary(), one_by_one.at_boundary());
            prop_assert_eq!(frames.is_closing(), one_by_one.is_closing());
        }
    }
}
