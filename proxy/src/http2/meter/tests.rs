use super::*;
use proptest::prelude::*;

const RATES: Rates = Rates {
    resets: 3,
    control: 2,
};

fn bytes(frames: &[Frame]) -> Vec<u8> {
    let mut all = Vec::new();
    for frame in frames {
        let [_, a, b, c] = frame.length.to_be_bytes();
        all.extend([a, b, c, frame.kind, frame.flags, 0, 0, 0, 1]);
        // What looks like heads of frames is none of them.
        all.extend((0..frame.length).map(|n| (n % 4) as u8));
    }
    all
}

fn frame(kind: u8) -> Frame {
    flagged(kind, 0)
}

fn flagged(kind: u8, flags: u8) -> Frame {
    Frame {
        length: 0,
        kind,
        flags,
    }
}

proptest! {
    #[test]
    fn frames_are_found_however_they_are_cut(
        frames in proptest::collection::vec((0_u32..600, any::<u8>(), any::<u8>()), 0..20),
        cuts in proptest::collection::vec(1_usize..40, 1..200),
    ) {
        let frames: Vec<Frame> = frames
            .into_iter()
            .map(|(length, kind, flags)| Frame { length, kind, flags })
            .collect();
        let all = [PREFACE, &bytes(&frames)].concat();
        let mut meter = Meter::of_client();
        let mut seen = Vec::new();
        let mut rest = all.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            meter.feed(piece, |frame| seen.push(frame));
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(seen, frames);
    }

    #[test]
    fn no_bytes_are_too_many(pieces in proptest::collection::vec(any::<Vec<u8>>(), 0..20)) {
        let mut meter = Meter::of_client();
        let mut frames = 0;
        let total: usize = pieces.iter().map(Vec::len).sum();
        for piece in pieces {
            meter.feed(&piece, |_| frames += 1);
        }
        prop_assert!(frames <= total / HEAD);
    }

    #[test]
    fn never_more_than_twice_the_rate_in_any_period(
        most in 1_u64..50,
        steps in proptest::collection::vec(0_u64..3_000, 1..300),
    ) {
        let period = MINUTE;
        let mut bucket = Bucket::default();
        let mut now = Duration::ZERO;
        let mut taken = Vec::new();
        for step in steps {
            now += Duration::from_millis(step);
            if bucket.take(most, period, now) {
                taken.push(now);
            }
        }
        for (index, first) in taken.iter().enumerate() {
            let within = taken.iter().skip(index).filter(|at| **at - *first <= period);
            prop_assert!(within.count() as u64 <= 2 * most + 1);
        }
    }
}

#[test]
fn what_carries_something_is_free() {
    let mut budget = Budget::new(RATES);
    for _ in 0..10_000 {
        for kind in [kind::DATA, kind::HEADERS, kind::CONTINUATION] {
            assert_eq!(budget.received(frame(kind), Duration::ZERO), Ok(()));
        }
    }
}

#[test]
fn resets_within_a_minute() {
    let mut budget = Budget::new(RATES);
    let mut reset = |seconds| budget.received(frame(kind::RESET), Duration::from_secs(seconds));
    for _ in 0..3 {
        assert_eq!(reset(0), Ok(()));
    }
    assert_eq!(reset(0), Err(Excess::Resets));
    assert_eq!(reset(19), Err(Excess::Resets));
    assert_eq!(reset(20), Ok(()), "a third of a minute makes room for one");
    assert_eq!(reset(20), Err(Excess::Resets));
    for _ in 0..3 {
        assert_eq!(reset(200), Ok(()));
    }
    assert_eq!(reset(200), Err(Excess::Resets));
}

#[test]
fn frames_that_carry_nothing() {
    // PRIORITY, SETTINGS, GOAWAY, PRIORITY_UPDATE, unknown.
    for kind in [2, 4, 7, 16, 255] {
        let mut budget = Budget::new(RATES);
        let mut send =
            |milliseconds| budget.received(frame(kind), Duration::from_millis(milliseconds));
        for _ in 0..20 {
            assert_eq!(send(0), Ok(()), "{kind}");
        }
        assert_eq!(send(0), Err(Excess::Control), "{kind}");
        assert_eq!(send(500), Ok(()), "{kind}");
        assert_eq!(send(500), Err(Excess::Control), "{kind}");
    }
}

#[test]
fn window_updates_and_pings_are_earned_by_answers() {
    for asked in [kind::WINDOW_UPDATE, kind::PING] {
        let mut budget = Budget::new(RATES);
        let flood = |budget: &mut Budget| {
            let mut passed = 0;
            while budget.received(frame(asked), Duration::ZERO).is_ok() {
                passed += 1;
            }
            passed
        };
        assert_eq!(flood(&mut budget), EARNED_A_FRAME + 20);
        assert_eq!(flood(&mut budget), 0);
        budget.sent(frame(kind::HEADERS));
        budget.sent(frame(kind::DATA));
        assert_eq!(flood(&mut budget), 2 * EARNED_A_FRAME);
        // Nor is anything earned by what only answers frames like these.
        for kind in [4, kind::PING, kind::WINDOW_UPDATE, kind::RESET] {
            budget.sent(flagged(kind, 1));
        }
        assert_eq!(flood(&mut budget), 0);
    }
}

#[test]
fn a_reset_of_what_was_answered_calls_nothing_off() {
    let mut budget = Budget::new(RATES);
    let reset = |budget: &mut Budget| budget.received(frame(kind::RESET), Duration::ZERO);
    for _ in 0..1000 {
        budget.sent(frame(kind::HEADERS));
        budget.sent(flagged(kind::DATA, END_STREAM));
        assert_eq!(reset(&mut budget), Ok(()));
        budget.sent(flagged(kind::HEADERS, END_STREAM));
        assert_eq!(reset(&mut budget), Ok(()));
    }
    // Nothing was used up, and no more can be saved up than as many again.
    for _ in 0..1000 {
        budget.sent(flagged(kind::DATA, END_STREAM));
    }
    for _ in 0..2 * RATES.resets {
        assert_eq!(reset(&mut budget), Ok(()));
    }
    assert_eq!(reset(&mut budget), Err(Excess::Resets));
    // Our own resets are no answers.
    budget.sent(flagged(kind::RESET, END_STREAM));
    assert_eq!(reset(&mut budget), Err(Excess::Resets));
}
