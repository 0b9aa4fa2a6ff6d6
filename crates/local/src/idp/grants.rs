//! Authorisation codes: single use, 60 s, bounded in number.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::User;

/// Life of a code, seconds.
pub(super) const CODE_LIFE: i64 = 60;
/// Most codes remembered; beyond it the oldest go first.
const MAX_CODES: usize = 1000;

/// What a person agreed to when signing in.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) user: &'static User,
    pub(super) client_id: String,
    /// Whether the application gets a refresh token.
    pub(super) refreshes: bool,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) nonce: Option<String>,
    pub(super) scope: String,
    /// When the person signed in, unix seconds.
    pub(super) at: i64,
}

#[derive(Debug)]
enum Code {
    Fresh(Box<Grant>),
    /// Redeemed: the refresh family that came of it.
    Used(String),
}

#[derive(Debug)]
struct Entry {
    code: Code,
    made: i64,
}

/// What presenting a code comes to.
#[derive(Debug)]
pub(super) enum Redeemed {
    /// The first time: here is what was agreed.
    Grant(Box<Grant>),
    /// Again: whatever came of it must be revoked (RFC 6749, 4.1.2).
    Replayed {
        /// The refresh family to revoke.
        family: String,
    },
    /// Unknown or expired.
    Unknown,
}

/// Codes in memory: a restart within their 60 s means signing in again.
#[derive(Debug, Default)]
pub(super) struct Grants(Mutex<HashMap<String, Entry>>);

impl Grants {
    pub(super) fn add(&self, code: String, grant: Grant) {
        let now = grant.at;
        let mut codes = self.codes();
        codes.retain(|_, entry| now - entry.made < CODE_LIFE);
        if codes.len() >= MAX_CODES {
            let oldest = codes
                .iter()
                .min_by_key(|(_, entry)| entry.made)
                .map(|(code, _)| code.clone());
            if let Some(oldest) = oldest {
                codes.remove(&oldest);
            }
        }
        let code_state = Code::Fresh(Box::new(grant));
        codes.insert(
            code,
            Entry {
                code: code_state,
                made: now,
            },
        );
    }

    /// Uses the code up; `family` names what will come of it.
    pub(super) fn redeem(&self, code: &str, family: &str, now: i64) -> Redeemed {
        let mut codes = self.codes();
        let Some(entry) = codes.get_mut(code) else {
            return Redeemed::Unknown;
        };
        if now - entry.made >= CODE_LIFE {
            codes.remove(code);
            return Redeemed::Unknown;
        }
        match std::mem::replace(&mut entry.code, Code::Used(family.to_owned())) {
            Code::Fresh(grant) => Redeemed::Grant(grant),
            Code::Used(first) => {
                entry.code = Code::Used(first.clone());
                Redeemed::Replayed { family: first }
            }
        }
    }

    fn codes(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(at: i64) -> Grant {
        Grant {
            user: &super::super::USERS[0],
            client_id: "c".to_owned(),
            refreshes: true,
            redirect_uri: "http://localhost/".to_owned(),
            challenge: "x".to_owned(),
            nonce: None,
            scope: "openid".to_owned(),
            at,
        }
    }

    #[test]
    fn a_code_works_once_within_its_minute() {
        let grants = Grants::default();
        grants.add("a".to_owned(), grant(100));
        assert!(matches!(grants.redeem("b", "f0", 100), Redeemed::Unknown));
        assert!(matches!(grants.redeem("a", "f1", 159), Redeemed::Grant(_)));
        for family in ["f2", "f3"] {
            let Redeemed::Replayed { family } = grants.redeem("a", family, 159) else {
                panic!("not seen as replayed")
            };
            assert_eq!(family, "f1");
        }
        grants.add("late".to_owned(), grant(200));
        assert!(matches!(
            grants.redeem("late", "f4", 260),
            Redeemed::Unknown
        ));
    }

    #[test]
    fn the_oldest_code_makes_room() {
        let grants = Grants::default();
        for i in 0..=MAX_CODES {
            grants.add(i.to_string(), grant(i64::from(i != 0)));
        }
        assert!(matches!(grants.redeem("0", "f", 1), Redeemed::Unknown));
        assert!(matches!(grants.redeem("1000", "f", 1), Redeemed::Grant(_)));
    }
}
