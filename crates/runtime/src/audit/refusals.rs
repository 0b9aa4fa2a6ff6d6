//! Which refusals get a record: so many a minute of one caller, and so many in all. The others are
//! counted. Pure: `now` is an argument.
//!
//! A caller is an address and, once they are known, a subject: whoever floods has their own share, and
//! hides nobody else's refusals behind it. Half of all records are for those who are known, whatever is
//! sent without a name from however many addresses. Memory is bounded by the number of records: whom no
//! record was written of is not remembered.

use crate::client::Source;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a share lasts.
const MINUTE: Duration = Duration::from_secs(60);
/// Records of one caller in that time.
const OF_ONE: u64 = 60;
/// Records of all in that time.
const OF_ALL: u64 = 600;
/// Records in that time of those whom nobody knows.
const OF_UNKNOWN: u64 = 300;

/// Whose refusals were left out, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// Their address; `None` for those whom nobody remembers, and where it is not known.
    pub(super) from: Option<Source>,
    /// Their subject, if it is known.
    pub(super) who: Option<Box<str>>,
    /// Refusals without a record.
    pub(super) count: u64,
}

/// What one caller has had of it.
#[derive(Debug, Default)]
struct Share {
    written: u64,
    left_out: u64,
}

/// The refusals of the present minute.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    began: Option<Instant>,
    written: u64,
    /// Of those, records of somebody unknown.
    unknown: u64,
    /// Left out, of callers whom nobody remembers.
    others: u64,
    of: HashMap<(Option<Source>, Option<Box<str>>), Share>,
}

impl Refusals {
    /// Whether the next refusal, of this caller, gets a record; and what is to be told of a minute
    /// that is over.
    pub(super) fn next(
        &mut self,
        from: Option<Source>,
        who: Option<&str>,
        now: Instant,
    ) -> (bool, Vec<LeftOut>) {
        let before = self.over(now);
        self.began.get_or_insert(now);
        let is_known = who.is_some();
        let room = self.written < OF_ALL && (is_known || self.unknown < OF_UNKNOWN);
        let key = (from, who.map(Box::from));
        if !room && !self.of.contains_key(&key) {
            self.others += 1;
            return (false, before);
        }
        let share = self.of.entry(key).or_default();
        let through = room && share.written < OF_ONE;
        if through {
            share.written += 1;
            self.written += 1;
            self.unknown += u64::from(!is_known);
        } else {
            share.left_out += 1;
        }
        (through, before)
    }

    /// Ends the minute if it is over, and tells what was left out of it.
    pub(super) fn over(&mut self, now: Instant) -> Vec<LeftOut> {
        let over = |began: Instant| now.saturating_duration_since(began) >= MINUTE;
        if !self.began.is_some_and(over) {
            return Vec::new();
        }
        let past = std::mem::take(self);
        let each = past.of.into_iter().map(|((from, who), share)| LeftOut {
            from,
            who,
            count: share.left_out,
        });
        let others = LeftOut {
            from: None,
            who: None,
            count: past.others,
        };
        let all = each.chain(std::iter::once(others));
        all.filter(|left_out| left_out.count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn source(n: u32) -> Option<Source> {
        Some(IpAddr::V4(Ipv4Addr::from_bits(n)).into())
    }

    #[test]
    fn one_caller_has_a_share_and_hides_nobody() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for nth in 0..OF_ONE {
            assert!(refusals.next(source(1), None, now).0, "{nth}");
        }
        for _ in 0..7 {
            assert_eq!(refusals.next(source(1), None, now), (false, vec![]));
        }
        // Another address, and somebody who is known at the same one.
        assert!(refusals.next(source(2), None, now).0);
        assert!(refusals.next(source(1), Some("alice"), now).0);
        let left_out = LeftOut {
            from: source(1),
            who: None,
            count: 7,
        };
        // The next minute begins with what the last one left out.
        assert_eq!(refusals.over(now + MINUTE / 2), vec![]);
        let later = now + MINUTE;
        assert_eq!(
            refusals.next(source(1), None, later),
            (true, vec![left_out])
        );
        assert_eq!(refusals.over(later + MINUTE), vec![]);
    }

    #[test]
    fn a_flood_from_everywhere_is_bounded_and_counted() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let through = (0..2_000).filter(|n| refusals.next(source(*n), None, now).0);
        assert_eq!(through.count() as u64, OF_UNKNOWN);
        // It hides nobody who is known.
        let users: Vec<String> = (0..2_000).map(|n| format!("user-{n}")).collect();
        let through = users.iter();
        let through = through.filter(|user| refusals.next(source(1), Some(user), now).0);
        assert_eq!(through.count() as u64, OF_ALL - OF_UNKNOWN);
        assert_eq!(refusals.of.len() as u64, OF_ALL);
        let left_out = LeftOut {
            from: None,
            who: None,
            count: 4_000 - OF_ALL,
        };
        assert_eq!(refusals.over(now + MINUTE), vec![left_out]);
    }

    proptest! {
        /// However they come: each is written or counted, once.
        #[test]
        fn none_is_lost(all in proptest::collection::vec((0_u32..40, 0_u64..400), 1..1500)) {
            let (mut refusals, mut now) = (Refusals::default(), Instant::now());
            let (mut written, mut told) = (0, 0);
            for (who, millis) in &all {
                now += Duration::from_millis(*millis);
                let (through, before) = refusals.next(source(*who), None, now);
                written += u64::from(through);
                told += before.iter().map(|left_out| left_out.count).sum::<u64>();
                prop_assert!(refusals.of.len() as u64 <= OF_ALL);
            }
            let rest = refusals.over(now + MINUTE);
            told += rest.iter().map(|left_out| left_out.count).sum::<u64>();
            prop_assert_eq!(written + told, all.len() as u64);
        }
    }
}
