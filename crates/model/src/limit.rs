//! How many workspaces one user may have.
//!
//! What counts is the record, not the pod: a stopped workspace counts, one that is being deleted
//! counts until nothing is left of it, and the second pod of an upgrade is no second workspace. The
//! limit is asked when a workspace is new, and never again: what is there stays, is upgraded,
//! replaced and adopted whatever the limit says.
//!
//! A new workspace takes its place first ([`Record::reserve`]) and runs once it is let in
//! ([`Record::start`]).

use crate::record::Record;

/// Most workspaces of one user; at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerUser(usize);

/// There is no room for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit of workspaces per user ({most}) is reached")]
pub struct Exceeded {
    /// How many count.
    pub have: usize,
    /// How many there may be.
    pub most: usize,
}

impl PerUser {
    /// A limit of so many. `None`: nobody could have any.
    #[must_use]
    pub fn new(most: usize) -> Option<Self> {
        (most > 0).then_some(Self(most))
    }

    /// Whether `id` has room among the other workspaces of its owner.
    ///
    /// # Errors
    /// [`Exceeded`]: those others are as many as there may be.
    pub fn room<'a>(
        self,
        owner: &str,
        id: Option<&str>,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), Exceeded> {
        let others = records.into_iter().filter(|record| {
            record.owner == owner && !record.is_gone() && Some(record.id.as_str()) != id
        });
        let (have, most) = (others.count(), self.0);
        if have < most {
            Ok(())
        } else {
            Err(Exceeded { have, most })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{intent, recreate, running, spawned};

    fn named(id: &str, record: Record) -> Record {
        Record {
            id: id.into(),
            ..record
        }
    }

    #[test]
    fn what_counts() {
        let gone = Record {
            gone_at: Some(1),
            ..running().delete().unwrap()
        };
        let anothers = Record {
            owner: "bob".into(),
            ..running()
        };
        for (what, record, counts) in [
            ("new", spawned(), true),
            ("reserved", spawned().reserve(), true),
            ("running", running(), true),
            ("stopped", running().stop().unwrap(), true),
            ("being deleted", running().delete().unwrap(), true),
            ("gone", gone, false),
            ("another's", anothers, false),
            (
                "upgraded side by side",
                running().begin_upgrade(intent("v2"), 1).unwrap(),
                true,
            ),
            (
                "recreated",
                running().begin_upgrade(recreate("v2"), 1).unwrap(),
                true,
            ),
        ] {
            let records = [named("other", record)];
            let one = PerUser(1).room("alice", Some("dev"), &records);
            let expected = if counts {
                Err(Exceeded { have: 1, most: 1 })
            } else {
                Ok(())
            };
            assert_eq!(one, expected, "{what}");
            assert_eq!(PerUser(2).room("alice", None, &records), Ok(()), "{what}");
        }
    }

    #[test]
    fn where_the_limit_is() {
        let records: Vec<Record> = ["a", "b", "c"].map(|id| named(id, running())).into();
        for (most, id, expected) in [
            (1, None, Err((3, 1))),
            (2, Some("a"), Err((2, 2))),
            (3, None, Err((3, 3))),
            (3, Some("a"), Ok(())),
            (3, Some("d"), Err((3, 3))),
            (4, None, Ok(())),
        ] {
            let room = PerUser(most).room("alice", id, &records);
            let room = room.map_err(|full| (full.have, full.most));
            assert_eq!(room, expected, "{most} {id:?}");
        }
        assert_eq!(PerUser(1).room("alice", None, &[]), Ok(()));
        assert_eq!(PerUser::new(0), None);
    }
}
