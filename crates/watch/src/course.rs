//! What is newer than what, and when a watch that goes on without a word is not believed any more.
//! Pure.
//!
//! Resource versions of one cluster are numbers that grow (Kubernetes 1.35 promises that they can be
//! compared; before, it was so). A version smaller than one seen before means that the answer is from
//! the past: an API server whose cache lags behind, or a database that was put back to an older copy.
//! Versions that are no numbers are not compared.

/// Lists in a row that may be older than what was seen. One more, and the database was restored: with
/// the waits between them, three seconds of nothing else.
const OLD_LISTS: u32 = 4;
/// Most full-length watches without a word that are put up with. The periodic list comes first then.
const MOST_QUIET: u32 = 8;

/// What a list is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// At least as new as anything seen.
    Current,
    /// Older than what was seen, for so many lists in a row: it is not taken in.
    Old(u32),
    /// Older, and every list has been for some time: the past is what there is now.
    Restored,
}

/// What a watch has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Said {
    /// Nothing.
    Nothing,
    /// Only what was known: a bookmark that repeats a version.
    Again,
    /// Something new.
    News,
}

/// How a watch ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The next one may begin.
    Fine,
    /// It broke off before its time without a word, or at once without a new one; the next one is not to
    /// begin at once.
    Early,
    /// It was silent although this server is not: only a list can tell what was missed.
    Silent,
}

/// What is known of versions and of the server's habits.
#[derive(Debug, Default)]
pub(crate) struct Course {
    newest: Option<u128>,
    /// Where a watch begins: the newest version, as it was written.
    from: String,
    old_lists: u32,
    /// Whether the server sends bookmarks: then a whole watch without any is suspicious.
    bookmarks: bool,
    quiet: u32,
    /// Quiet watches put up with before the next list.
    patience: u32,
    /// Refusals of a version in a row that nothing was heard after.
    gone: u32,
    /// Watches in a row that came to nothing: they failed soon, and nothing was heard. That they began,
    /// and lists in between, prove nothing.
    failed: u32,
}

impl Course {
    /// Where a watch begins.
    pub(crate) fn from(&self) -> &str {
        &self.from
    }

    /// Judges a list by its version.
    pub(crate) fn listed(&mut self, version: &str) -> Verdict {
        let number = number(version);
        let verdict = if !self.is_before(number, false) {
            Verdict::Current
        } else if self.old_lists < OLD_LISTS {
            self.old_lists += 1;
            return Verdict::Old(self.old_lists);
        } else {
            Verdict::Restored
        };
        self.old_lists = 0;
        self.quiet = 0;
        self.newest = number;
        version.clone_into(&mut self.from);
        verdict
    }

    /// Takes the version of an event or a bookmark in. [`Said::Nothing`]: it is from the past, and is not to
    /// be believed.
    pub(crate) fn heard(&mut self, version: &str, bookmark: bool) -> Said {
        let number = number(version);
        // A bookmark may repeat a version; a change has a version of its own.
        if version.is_empty() || self.is_before(number, !bookmark) {
            return Said::Nothing;
        }
        self.bookmarks |= bookmark;
        (self.quiet, self.patience, self.gone) = (0, 0, 0);
        if bookmark && version == self.from {
            return Said::Again;
        }
        self.failed = 0;
        self.newest = number;
        version.clone_into(&mut self.from);
        Said::News
    }

    /// A watch has ended that did not fail: what it has `said`, and whether it `lasted` for a while, or even
    /// `in_full`.
    pub(crate) fn ended(&mut self, said: Said, lasted: bool, in_full: bool) -> Ended {
        match said {
            Said::News => return Ended::Fine,
            Said::Again if lasted || in_full => return Ended::Fine,
            _ if !in_full => return Ended::Early,
            _ => {}
        }
        (self.gone, self.failed) = (0, 0);
        if !self.bookmarks {
            return Ended::Fine;
        }
        self.quiet += 1;
        if self.quiet <= self.patience {
            return Ended::Fine;
        }
        // Where nothing was missed, silence is this server's way: it is put up with for longer.
        self.patience = (self.patience * 2 + 1).min(MOST_QUIET);
        Ended::Silent
    }

    /// The server knows nothing of the version any more; how often that was so in a row.
    pub(crate) fn gone(&mut self) -> u32 {
        self.gone = self.gone.saturating_add(1);
        self.gone
    }

    /// A watch came to nothing after it had `lasted` for a while, or soon; how often that was so in a row.
    pub(crate) fn failed(&mut self, lasted: bool) -> u32 {
        self.failed = match lasted {
            true => 1,
            false => self.failed.saturating_add(1),
        };
        self.failed
    }

    fn is_before(&self, number: Option<u128>, or_same: bool) -> bool {
        match (number, self.newest) {
            (Some(number), Some(newest)) => number < newest || (or_same && number == newest),
            _ => false,
        }
    }
}

/// A version as a number; `None`: it is none.
pub(crate) fn number(version: &str) -> Option<u128> {
    version.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_older_list_is_not_believed_until_all_are() {
        let mut course = Course::default();
        assert_eq!(course.listed("1000"), Verdict::Current);
        for times in 1..=OLD_LISTS {
            assert_eq!(course.listed("500"), Verdict::Old(times));
            assert_eq!(course.from(), "1000", "a watch goes on where it was");
        }
        assert_eq!(course.listed("501"), Verdict::Restored);
        assert_eq!(course.from(), "501");
        assert_eq!(course.listed("502"), Verdict::Current);
        // One that is new again between the old ones begins the count anew.
        for _ in 0..3 {
            assert_eq!(course.listed("400"), Verdict::Old(1));
            assert_eq!(course.listed("600"), Verdict::Current);
        }
    }

    #[test]
    fn events_only_ever_go_forward() {
        let mut course = Course::default();
        course.listed("10");
        for (version, bookmark, said) in [
            // The list had it.
            ("10", false, Said::Nothing),
            ("10", true, Said::Again),
            ("11", false, Said::News),
            ("20", true, Said::News),
            ("20", false, Said::Nothing),
            ("19", true, Said::Nothing),
        ] {
            assert_eq!(course.heard(version, bookmark), said, "{version}");
        }
        assert_eq!(course.from(), "20");
        // Not compared, nor what comes after it.
        assert_eq!(course.heard("no number", false), Said::News);
        assert_eq!(course.heard("3", false), Said::News);
    }

    #[test]
    fn silence_of_a_server_that_speaks_is_suspicious() {
        let mut course = Course::default();
        course.listed("1");
        assert_eq!(
            course.ended(Said::Nothing, true, true),
            Ended::Fine,
            "it never spoke"
        );
        assert_eq!(course.ended(Said::Nothing, false, false), Ended::Early);
        course.heard("2", true);
        assert_eq!(course.ended(Said::Again, true, true), Ended::Fine);
        assert_eq!(course.ended(Said::Nothing, true, true), Ended::Silent);
        // The list found nothing: two more may be silent, then seven.
        course.listed("2");
        let until = |course: &mut Course| {
            let ended = (1..).find(|_| course.ended(Said::Nothing, true, true) == Ended::Silent);
            course.listed("2");
            ended
        };
        assert_eq!(until(&mut course), Some(2));
        assert_eq!(until(&mut course), Some(4));
        course.heard("3", false);
        assert_eq!(
            course.ended(Said::Nothing, true, true),
            Ended::Silent,
            "it spoke again"
        );
    }

    #[test]
    fn refusals_in_a_row_are_counted() {
        let mut course = Course::default();
        course.listed("1");
        assert_eq!((course.gone(), course.gone()), (1, 2));
        course.listed("5");
        assert_eq!(course.gone(), 3, "a list alone proves nothing");
        course.heard("6", false);
        assert_eq!(course.gone(), 1);
    }

    #[test]
    fn watches_that_come_to_nothing_are_counted() {
        let mut course = Course::default();
        course.listed("1");
        assert_eq!((course.failed(false), course.failed(false)), (1, 2));
        course.listed("5");
        assert_eq!(course.failed(false), 3, "a list alone proves nothing");
        assert_eq!(course.heard("5", false), Said::Nothing);
        assert_eq!(course.failed(false), 4, "nor does what is not believed");
        assert_eq!(course.heard("5", true), Said::Again);
        assert_eq!(course.ended(Said::Again, false, false), Ended::Early);
        assert_eq!(course.failed(false), 5, "nor what is known");
        assert_eq!(course.ended(Said::Again, true, false), Ended::Fine);
        course.heard("6", false);
        assert_eq!(course.failed(false), 1);
        assert_eq!(course.ended(Said::Nothing, true, true), Ended::Silent);
        assert_eq!((course.failed(false), course.failed(false)), (1, 2));
        assert_eq!(course.failed(true), 1, "nobody is pestered");
    }

    proptest! {
        /// Whatever comes in which order, a watch never begins before what was seen, but for a restore.
        #[test]
        fn it_never_goes_back(answers in prop::collection::vec((any::<bool>(), any::<bool>(), 0u32..50), 0..80)) {
            let mut course = Course::default();
            for (list, bookmark, version) in answers {
                let before = number(course.from());
                let restored = if list {
                    course.listed(&version.to_string()) == Verdict::Restored
                } else {
                    course.heard(&version.to_string(), bookmark);
                    false
                };
                prop_assert!(restored || number(course.from()) >= before);
            }
        }
    }
}
