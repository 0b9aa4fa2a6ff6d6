//! Refresh tokens with rotation (RFC 9700, 4.14.2), kept as hashes in one file.
//!
//! A family is what one sign-in led to. Each use replaces its token. The replaced one
//! still works for a minute, since a reply can get lost; used later than that, it was
//! stolen, and the family ends.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};

use super::{IdpError, User, file, key::sha256_base64url, random, users};

/// Longest life of a family, seconds: a working day's session and the night after it.
const FAMILY_LIFE: i64 = 30 * 24 * 3600;
/// How long a replaced token still works, seconds.
const GRACE: i64 = 60;
/// Most families remembered; beyond it the oldest go first.
const MAX_FAMILIES: usize = 1000;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Family {
    sub: String,
    client_id: String,
    scope: String,
    /// When the person signed in, unix seconds.
    since: i64,
    current: String,
    previous: Option<String>,
    /// When `current` replaced `previous`, unix seconds.
    rotated: i64,
}

/// What a valid refresh token stands for.
#[derive(Debug)]
pub(super) struct Refreshed {
    pub(super) user: &'static User,
    pub(super) scope: String,
    /// When the person signed in, unix seconds.
    pub(super) since: i64,
    /// The token that replaces the one used.
    pub(super) token: String,
}

/// All families.
#[derive(Debug)]
pub(super) struct RefreshTokens {
    path: PathBuf,
    families: Mutex<BTreeMap<String, Family>>,
}

impl RefreshTokens {
    /// Reads the file; one that cannot be parsed counts as empty (people sign in again).
    pub(super) fn open(path: PathBuf) -> Result<Self, IdpError> {
        let families = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "refresh tokens are unreadable");
                BTreeMap::new()
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return file(&path, Err(e)),
        };
        Ok(Self {
            path,
            families: Mutex::new(families),
        })
    }

    /// A name for a family to be.
    pub(super) fn name() -> Result<String, IdpError> {
        random(16)
    }

    /// Starts a family; returns its first token.
    pub(super) fn start(
        &self,
        family: &str,
        user: &User,
        client_id: &str,
        scope: &str,
        now: i64,
    ) -> Result<String, IdpError> {
        let (token, hash) = make(family)?;
        let mut families = self.families();
        families.retain(|_, f| now - f.since < FAMILY_LIFE);
        if families.len() >= MAX_FAMILIES {
            let oldest = families
                .iter()
                .min_by_key(|(_, f)| f.rotated)
                .map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                families.remove(&oldest);
            }
        }
        families.insert(
            family.to_owned(),
            Family {
                sub: user.sub.to_owned(),
                client_id: client_id.to_owned(),
                scope: scope.to_owned(),
                since: now,
                current: hash,
                previous: None,
                rotated: now,
            },
        );
        self.save(&families)?;
        Ok(token)
    }

    /// Uses a token. `Ok(None)`: unknown, expired, another client's, or replaced too long
    /// ago, in which case the family has ended.
    pub(super) fn rotate(
        &self,
        token: &str,
        client_id: &str,
        now: i64,
    ) -> Result<Option<Refreshed>, IdpError> {
        let Some((name, _)) = token.split_once('.') else {
            return Ok(None);
        };
        let mut families = self.families();
        let Some(family) = families.get_mut(name) else {
            return Ok(None);
        };
        if family.client_id != client_id {
            return Ok(None);
        }
        // Hashes of 256 random bits: comparing them leaks nothing of use.
        let hash = sha256_base64url(token);
        let current = family.current == hash;
        let late = family.previous.as_ref() == Some(&hash);
        if !current && !late {
            return Ok(None);
        }
        let user = users::find(&family.sub);
        let (Some(user), false) = (
            user,
            now - family.since >= FAMILY_LIFE || (late && now - family.rotated >= GRACE),
        ) else {
            families.remove(name);
            self.save(&families)?;
            return Ok(None);
        };
        let (token, fresh) = make(name)?;
        let replaced = std::mem::replace(&mut family.current, fresh);
        if current {
            family.previous = Some(replaced);
            family.rotated = now;
        }
        let refreshed = Refreshed {
            user,
            scope: family.scope.clone(),
            since: family.since,
            token,
        };
        self.save(&families)?;
        Ok(Some(refreshed))
    }

    /// Ends a family.
    pub(super) fn revoke(&self, family: &str) -> Result<(), IdpError> {
        let mut families = self.families();
        match families.remove(family) {
            Some(_) => self.save(&families),
            None => Ok(()),
        }
    }

    fn save(&self, families: &BTreeMap<String, Family>) -> Result<(), IdpError> {
        let json = serde_json::to_vec(families).map_err(|e| IdpError::Sign(e.to_string()))?;
        file(&self.path, crate::files::write_private(&self.path, &json))
    }

    fn families(&self) -> MutexGuard<'_, BTreeMap<String, Family>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token of the family, and its hash.
fn make(family: &str) -> Result<(String, String), IdpError> {
    let token = format!("{family}.{}", random(32)?);
    let hash = sha256_base64url(&token);
    Ok((token, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &tempfile::TempDir) -> RefreshTokens {
        RefreshTokens::open(dir.path().join("refresh.json")).unwrap()
    }

    #[test]
    fn rotation_survives_a_restart_and_ends_on_theft() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let user = &super::super::USERS[0];
        let first = store.start("f", user, "c", "openid", 0).unwrap();
        assert!(store.rotate(&first, "other", 1).unwrap().is_none());
        let second = store.rotate(&first, "c", 10).unwrap().unwrap().token;

        let store = open(&dir);
        // The reply with `second` got lost: the first still works for a minute.
        let again = store.rotate(&first, "c", 60).unwrap().unwrap();
        assert_eq!((again.user.sub, again.since), ("alice", 0));
        assert!(store.rotate(&second, "c", 61).unwrap().is_none());
        let third = store.rotate(&again.token, "c", 62).unwrap().unwrap().token;
        // `again` was replaced at 62; at 122 it can only be a thief's.
        assert!(store.rotate(&again.token, "c", 122).unwrap().is_none());
        assert!(store.rotate(&third, "c", 123).unwrap().is_none());
        assert!(open(&dir).rotate(&third, "c", 124).unwrap().is_none());
    }

    #[test]
    fn the_file_holds_no_token() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let token = store
            .start("f", &super::super::USERS[1], "c", "openid", 0)
            .unwrap();
        let text = std::fs::read_to_string(dir.path().join("refresh.json")).unwrap();
        let secret = token.split_once('.').unwrap().1;
        assert!(text.contains("bob") && !text.contains(secret), "{text}");
        store.revoke("f").unwrap();
        assert!(store.rotate(&token, "c", 1).unwrap().is_none());
    }
}
