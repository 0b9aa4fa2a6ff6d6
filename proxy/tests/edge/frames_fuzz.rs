//! Bytes of any kind in the place of frames. A few thousand streams, always the same ones, as part of
//! the tests; with `NOGOO9_FUZZ_SECONDS` (`make fuzz`) as many as fit into that time, from a new seed,
//! which a failure names (`NOGOO9_FUZZ_SEED`).
//!
//! Held against a second reading of RFC 6455, section 5.2, that has the whole stream at hand: ends of
//! frames are where that finds them, however the stream is cut, and so is the code of its first Close.

use nogoo9_proxy::tunnel::frames::Frames;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Streams without a time to fill.
const STREAMS: u64 = 5_000;

/// Small numbers that look like chance and are none (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, bound: u64) -> usize {
        usize::try_from(self.next() % bound).unwrap()
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64)]
    }
}

/// Frames mostly, some of them spoilt, some cut off.
fn stream(dice: &mut Dice) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..dice.below(8) {
        let first = (dice.next() & 0xff) as u8;
        let mask = if dice.below(2) == 0 { 0x80 } else { 0 };
        let length = dice.pick(&[0, 1, 2, 3, 125, 126, 127, 300, 65_535, 65_536]);
        let form = match length {
            0..=125 if dice.below(8) > 0 => length as u8,
            0..=0xffff if dice.below(8) > 0 => 126,
            _ => 127,
        };
        out.extend_from_slice(&[first, mask | form]);
        match form {
            126 => out.extend_from_slice(&(length as u16).to_be_bytes()),
            127 => out.extend_from_slice(&(length as u64).to_be_bytes()),
            _ => {}
        }
        let payload = length + if mask > 0 { 4 } else { 0 };
        out.extend((0..payload).map(|n| (n as u64 ^ dice.0) as u8));
    }
    for _ in 0..dice.below(3) {
        if !out.is_empty() {
            let at = dice.below(out.len() as u64);
            out[at] = (dice.next() & 0xff) as u8;
        }
    }
    let end = dice.below(out.len() as u64 + 1);
    if dice.below(3) == 0 {
        out.truncate(end);
    }
    out
}

/// Where frames end, and the code of the first Close that is whole.
fn read(stream: &[u8]) -> (Vec<usize>, Option<u16>, bool) {
    let (mut ends, mut code, mut closing) = (vec![0], None, false);
    let mut at = 0;
    loop {
        let rest = &stream[at..];
        let [first, second, ..] = *rest else { break };
        let (length, mut header) = match second & 0x7f {
            126 if rest.len() >= 4 => (u64::from(u16::from_be_bytes([rest[2], rest[3]])), 4),
            127 if rest.len() >= 10 => (u64::from_be_bytes(rest[2..10].try_into().unwrap()), 10),
            126 | 127 => break,
            short => (u64::from(short), 2),
        };
        let mut key = [0; 4];
        if second & 0x80 != 0 {
            let Some(found) = rest.get(header..header + 4) else {
                break;
            };
            key = found.try_into().unwrap();
            header += 4;
        }
        if rest.len() < header {
            break;
        }
        if first & 0x0f == 8 && !closing {
            closing = true;
            if let (true, Some([high, low, ..])) = (length >= 2, rest.get(header..)) {
                code = Some(u16::from_be_bytes([high ^ key[0], low ^ key[1]]));
            }
        }
        let whole = u64::try_from(header).unwrap().checked_add(length);
        match whole.and_then(|whole| usize::try_from(whole).ok()) {
            Some(whole) if whole <= rest.len() => at += whole,
            _ => break,
        }
        ends.push(at);
    }
    (ends, code, closing)
}

#[test]
fn frames_end_where_a_second_reading_finds_it() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seconds = number("NOGOO9_FUZZ_SECONDS");
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let fresh = seconds.map_or(1, |_| clock.as_nanos() as u64);
    let first = number("NOGOO9_FUZZ_SEED").unwrap_or(fresh);
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut streams, mut closes) = (0_u64, 0_u64);
    loop {
        if until.map_or(streams >= STREAMS, |until| Instant::now() >= until) {
            break;
        }
        let seed = first.wrapping_add(streams);
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let bytes = stream(&mut dice);
        let (ends, code, closing) = read(&bytes);
        let mut frames = Frames::new();
        let mut at = 0;
        while at < bytes.len() {
            let most = dice.pick(&[1_u64, 3, 20, 5_000, 100_000]);
            let next = (at + 1 + dice.below(most)).min(bytes.len());
            frames.feed(&bytes[at..next]);
            at = next;
            let expected = ends.binary_search(&at).is_ok();
            assert_eq!(
                frames.at_boundary(),
                expected,
                "NOGOO9_FUZZ_SEED={seed}, at {at}"
            );
        }
        assert_eq!(frames.close_code(), code, "NOGOO9_FUZZ_SEED={seed}");
        assert_eq!(frames.is_closing(), closing, "NOGOO9_FUZZ_SEED={seed}");
        streams += 1;
        closes += u64::from(code.is_some());
    }
    println!("{streams} streams, {closes} with the code of a Close");
    assert!(streams > 0);
}
