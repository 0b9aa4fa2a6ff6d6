//! How much may be held, and whose it is: bounds that no workspace can take for itself. Pure.

use std::collections::HashMap;
use std::sync::Arc;

/// What is held: requests, and the bytes that they occupy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Requests.
    pub requests: usize,
    /// Bytes of their heads.
    pub bytes: usize,
}

/// Most that may be held.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests of one workspace.
    pub per_workspace: usize,
    /// In all.
    pub total: Amount,
}

/// Why one more is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Its workspace has as many as one may have.
    Workspace,
    /// Its workspace has its share of what there is; others may still have some.
    Share,
    /// Nothing is left.
    All,
}

/// Whether a workspace that holds `mine` of `all` may hold one more request of `bytes`.
///
/// A workspace may have as much as is left, and no more (dynamic thresholds, Choudhury and Hahne,
/// 1998): alone, it takes half of all at most; the more there are that want, the less each has, and
/// something is always left for the next one that holds nothing yet.
///
/// # Errors
/// [`Full`].
pub fn admit(mine: Amount, all: Amount, bytes: usize, limits: &Limits) -> Result<(), Full> {
    if mine.requests >= limits.per_workspace {
        return Err(Full::Workspace);
    }
    let left = Amount {
        requests: limits.total.requests.saturating_sub(all.requests),
        bytes: limits.total.bytes.saturating_sub(all.bytes),
    };
    if left.requests == 0 || left.bytes < bytes {
        return Err(Full::All);
    }
    // A workspace that holds nothing gets what is left for one request.
    let within = mine.requests < left.requests && mine.bytes.saturating_add(bytes) <= left.bytes;
    if mine.requests > 0 && !within {
        return Err(Full::Share);
    }
    Ok(())
}

/// Who holds how much.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    all: Amount,
    /// By workspace; those that hold nothing are not in it.
    by: HashMap<Arc<str>, Amount>,
}

impl Ledger {
    /// Nothing held.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            all: Amount::default(),
            by: HashMap::new(),
        }
    }

    /// Notes one more request; returns how many of its workspace are before it.
    ///
    /// # Errors
    /// [`Full`].
    pub fn take(&mut self, workspace: &Arc<str>, bytes: usize) -> Result<usize, Full> {
        let mine = self.by.get(workspace).copied().unwrap_or_default();
        admit(mine, self.all, bytes, &self.limits)?;
        let mine = self.by.entry(workspace.clone()).or_default();
        let before = mine.requests;
        for amount in [mine, &mut self.all] {
            amount.requests += 1;
            amount.bytes += bytes;
        }
        Ok(before)
    }

    /// Notes that one has gone; returns whether its workspace has none left.
    pub fn give_back(&mut self, workspace: &Arc<str>, bytes: usize) -> bool {
        let Some(mine) = self.by.get_mut(workspace) else {
            return true;
        };
        for amount in [&mut *mine, &mut self.all] {
            amount.requests = amount.requests.saturating_sub(1);
            amount.bytes = amount.bytes.saturating_sub(bytes);
        }
        let was_last = mine.requests == 0;
        if was_last {
            self.by.remove(workspace);
        }
        was_last
    }

    /// What is held in all.
    #[must_use]
    pub fn all(&self) -> Amount {
        self.all
    }

    /// Whether nothing is held, and nothing is kept of what was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by.is_empty() && self.all == Amount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(per_workspace: usize, requests: usize, bytes: usize) -> Limits {
        Limits {
            per_workspace,
            total: Amount { requests, bytes },
        }
    }

    fn amount(requests: usize, bytes: usize) -> Amount {
        Amount { requests, bytes }
    }

    #[test]
    fn who_gets_a_place() {
        let none = amount(0, 0);
        for (mine, all, bytes, limits, wanted) in [
            (none, none, 10, limits(2, 8, 100), Ok(())),
            (
                amount(2, 20),
                amount(2, 20),
                10,
                limits(2, 8, 100),
                Err(Full::Workspace),
            ),
            // Half of all is one's own at most.
            (amount(3, 3), amount(3, 3), 1, limits(9, 8, 100), Ok(())),
            (
                amount(4, 4),
                amount(4, 4),
                1,
                limits(9, 8, 100),
                Err(Full::Share),
            ),
            // Who has nothing gets the last one.
            (none, amount(7, 7), 1, limits(9, 8, 100), Ok(())),
            (
                amount(1, 1),
                amount(7, 7),
                1,
                limits(9, 8, 100),
                Err(Full::Share),
            ),
            (none, amount(8, 8), 1, limits(9, 8, 100), Err(Full::All)),
            // The same by bytes.
            (none, amount(1, 90), 10, limits(9, 8, 100), Ok(())),
            (none, amount(1, 91), 10, limits(9, 8, 100), Err(Full::All)),
            (amount(1, 30), amount(1, 30), 30, limits(9, 8, 100), Ok(())),
            (
                amount(2, 60),
                amount(2, 60),
                30,
                limits(9, 8, 100),
                Err(Full::Share),
            ),
        ] {
            assert_eq!(
                admit(mine, all, bytes, &limits),
                wanted,
                "{mine:?} of {all:?}"
            );
        }
    }

    proptest! {
        /// Whoever comes and goes: no bound is passed, nobody has more than half unless at their first
        /// request, one who holds nothing is refused only if nothing is left, and all is given back.
        #[test]
        fn bounds_hold_and_shares_are_fair(
            steps in proptest::collection::vec((0usize..5, 1usize..40, any::<bool>()), 1..200),
            per in 1usize..20, total in 1usize..30, bytes in 40usize..400,
        ) {
            let limits = limits(per, total, bytes);
            let mut ledger = Ledger::new(limits);
            let names: Vec<Arc<str>> = ["a", "b", "c", "d", "e"].map(Arc::from).to_vec();
            let mut held: Vec<(usize, usize)> = Vec::new();
            for (who, cost, takes) in steps {
                if takes {
                    let mine = held.iter().filter(|(by, _)| *by == who).count();
                    let before = ledger.all();
                    match ledger.take(&names[who], cost) {
                        Ok(place) => {
                            prop_assert_eq!(place, mine);
                            held.push((who, cost));
                            prop_assert!(mine < per && before.requests < total);
                            prop_assert!(mine == 0 || 2 * (mine + 1) <= total + 1, "{mine} of {total}");
                        }
                        Err(Full::All) => prop_assert!(before.requests == total || before.bytes + cost > bytes),
                        Err(_) => prop_assert!(mine > 0),
                    }
                } else if let Some(at) = held.iter().position(|(by, _)| *by == who) {
                    let (by, cost) = held.remove(at);
                    ledger.give_back(&names[by], cost);
                }
                let sum: usize = held.iter().map(|(_, cost)| cost).sum();
                prop_assert_eq!(ledger.all(), amount(held.len(), sum));
                prop_assert!(held.len() <= total && sum <= bytes);
            }
            for (by, cost) in held {
                ledger.give_back(&names[by], cost);
            }
            prop_assert!(ledger.is_empty());
        }

        /// However many are greedy, one who comes last finds a place.
        #[test]
        fn the_greedy_leave_something(greedy in 1usize..6, total in 8usize..200) {
            let mut ledger = Ledger::new(limits(usize::MAX, total, usize::MAX));
            let names: Vec<Arc<str>> = (0..greedy).map(|n| Arc::from(n.to_string())).collect();
            for _ in 0..total {
                for name in &names {
                    let _ = ledger.take(name, 1);
                }
            }
            prop_assert!(ledger.all().requests < total);
            prop_assert!(ledger.take(&Arc::from("last"), 1).is_ok());
        }
    }
}
