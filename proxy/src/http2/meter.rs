//! Counts the frames of an HTTP/2 connection as their bytes pass. Pure.
//!
//! What a frame holds is for the HTTP/2 library to judge. What no library judges is how many there are
//! of those that cost the client nothing and us some work: that is judged by [`Budget`].

use std::time::Duration;

/// Bytes that a client begins with (RFC 9113, section 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before a frame's payload (RFC 9113, section 4.1).
const HEAD: usize = 9;
/// Window updates and PINGs that one frame of an answer may bring about. Clients that read in small
/// pieces send several updates, for the stream and for the connection; some measure with a PING how far
/// away we are, as often as data comes.
const EARNED_A_FRAME: u64 = 16;
/// Flag of a frame that ends its stream (RFC 9113, sections 6.1 and 6.2).
pub const END_STREAM: u8 = 1;
/// Time over which a rate is an average.
const BURST: Duration = Duration::from_secs(10);
/// Time within which resets are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// What the head of a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of payload.
    pub length: u32,
    /// Type (RFC 9113, section 6).
    pub kind: u8,
    /// Flags, which mean something else for each type.
    pub flags: u8,
}

/// Types of frames.
pub mod kind {
    /// DATA.
    pub const DATA: u8 = 0;
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// RST_STREAM.
    pub const RESET: u8 = 3;
    /// PING.
    pub const PING: u8 = 6;
    /// WINDOW_UPDATE.
    pub const WINDOW_UPDATE: u8 = 8;
    /// CONTINUATION.
    pub const CONTINUATION: u8 = 9;
}

/// Finds frames in bytes that come in pieces.
#[derive(Debug, Clone)]
pub struct Meter {
    /// Bytes of preface or payload that are still to come.
    skip: u32,
    head: [u8; HEAD],
    have: usize,
}

impl Meter {
    /// Of what a client sends.
    #[must_use]
    pub fn of_client() -> Self {
        Self {
            skip: PREFACE.len() as u32,
            ..Self::of_server()
        }
    }

    /// Of what a server sends.
    #[must_use]
    pub fn of_server() -> Self {
        Self {
            skip: 0,
            head: [0; HEAD],
            have: 0,
        }
    }

    /// Tells `seen` of every frame whose head is complete with these bytes.
    pub fn feed(&mut self, mut bytes: &[u8], mut seen: impl FnMut(Frame)) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let skipped = bytes.len().min(self.skip as usize);
                self.skip -= skipped as u32;
                bytes = bytes.get(skipped..).unwrap_or_default();
                continue;
            }
            let taken = bytes.len().min(HEAD - self.have);
            for (to, from) in self.head.iter_mut().skip(self.have).zip(bytes) {
                *to = *from;
            }
            self.have += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.have == HEAD {
                let [a, b, c, kind, flags, ..] = self.head;
                let length = u32::from_be_bytes([0, a, b, c]);
                (self.skip, self.have) = (length, 0);
                seen(Frame {
                    length,
                    kind,
                    flags,
                });
            }
        }
    }
}

/// What a client may do on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Requests that it may cancel within a minute.
    pub resets: u32,
    /// Frames a second that carry nothing, on average over ten.
    pub control: u32,
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// Too many requests were cancelled.
    Resets,
    /// Too many frames carried nothing.
    Control,
}

/// How much of [`Rates`] is used up.
#[derive(Debug, Clone)]
pub struct Budget {
    rates: Rates,
    resets: Bucket,
    control: Bucket,
    /// Window updates and PINGs that were earned by answers.
    earned: u64,
    /// Answers that were sent to their end: some clients reset such a stream all the same, which calls
    /// nothing off.
    answered: u64,
}

impl Budget {
    /// All of it.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            resets: Bucket::default(),
            control: Bucket::default(),
            earned: EARNED_A_FRAME,
            answered: 0,
        }
    }

    /// Notes a frame of ours.
    pub fn sent(&mut self, frame: Frame) {
        if !matches!(frame.kind, kind::DATA | kind::HEADERS) {
            // What is sent for nothing earns nothing: a PING has an answer too.
            return;
        }
        self.earned = self.earned.saturating_add(EARNED_A_FRAME);
        if frame.flags & END_STREAM != 0 {
            // No more than may be called off anyway, so that nobody saves up for a flood.
            let most = u64::from(self.rates.resets);
            self.answered = self.answered.saturating_add(1).min(most);
        }
    }

    /// Judges a frame of the client's at a time after the connection's begin.
    ///
    /// # Errors
    /// It is one too many.
    pub fn received(&mut self, frame: Frame, now: Duration) -> Result<(), Excess> {
        let control = u64::from(self.rates.control);
        match frame.kind {
            // How many of these there may be, the library says: by streams, windows and sizes.
            kind::DATA | kind::HEADERS | kind::CONTINUATION => Ok(()),
            kind::WINDOW_UPDATE | kind::PING if self.earned > 0 => {
                self.earned -= 1;
                Ok(())
            }
            kind::RESET if self.answered > 0 => {
                self.answered -= 1;
                Ok(())
            }
            kind::RESET => {
                let most = u64::from(self.rates.resets);
                let fits = self.resets.take(most, MINUTE, now);
                fits.then_some(()).ok_or(Excess::Resets)
            }
            _ => {
                let fits = self.control.take(control * BURST.as_secs(), BURST, now);
                fits.then_some(()).ok_or(Excess::Control)
            }
        }
    }
}

/// A bucket that leaks evenly.
#[derive(Debug, Clone, Default)]
struct Bucket {
    /// When it is empty again.
    empty: Duration,
}

impl Bucket {
    /// Puts one in, if it holds fewer than `most`; as many leak within `period`.
    fn take(&mut self, most: u64, period: Duration, now: Duration) -> bool {
        let one = Duration::from_nanos(
            u64::try_from(period.as_nanos())
                .unwrap_or(u64::MAX)
                .checked_div(most)
                .unwrap_or(u64::MAX),
        );
        let empty = self.empty.max(now).saturating_add(one);
        let fits = empty.saturating_sub(now) <= period;
        if fits {
            self.empty = empty;
        }
        fits
    }
}

#[cfg(test)]
mod tests;
