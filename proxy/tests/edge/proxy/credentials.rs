//! What callers show: sessions that control would have signed, and tokens of the identity provider.

use super::{CONSOLE, Stage};
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::session::Session;
use nogoo9_local::idp;
use nogoo9_model::renew;
use std::time::Duration;

fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs() as i64
}

impl Stage {
    /// The host of a workspace, and the cookie of alice's session there.
    pub(crate) fn alice(&self, workspace: &str) -> (String, String) {
        let host = format!("{workspace}.{CONSOLE}");
        let cookie = self.cookie_on("alice", &host);
        (host, cookie)
    }

    /// The cookie of a session of `user` on `host`.
    pub(crate) fn cookie_on(&self, user: &str, host: &str) -> String {
        let session = Session {
            sub: user.to_owned(),
            roles: vec!["user".to_owned()],
            sid: "s1".to_owned(),
            expires: now() + 3600,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now()).unwrap()
        )
    }

    /// A session token that ends in some seconds.
    pub(crate) fn short_cookie(&self, user: &str, host: &str, seconds: i64) -> String {
        let session = Session {
            sub: user.to_owned(),
            roles: Vec::new(),
            sid: "s2".to_owned(),
            expires: now() + seconds,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now()).unwrap()
        )
    }

    /// A token of a session of alice on `host` that counts by itself for so many seconds.
    pub(crate) fn token_fresh_for(&self, sid: &str, role: &str, host: &str, fresh: i64) -> String {
        let session = Session {
            sub: "alice".to_owned(),
            roles: vec![role.to_owned()],
            sid: sid.to_owned(),
            expires: now() + 12 * 3600,
            fresh_until: Some(now() + fresh),
        };
        // As old as it must be to be that fresh.
        let signed = now() - (900 - fresh).max(0);
        self.signer.sign_session(&session, host, signed).unwrap()
    }

    /// Puts another key in place of the one that sessions are signed with, as control does once its
    /// Secret was deleted.
    pub(crate) fn withdraw_session_key(&self) {
        let path = self.dir.path().join("session-keys.json");
        let new = self.dir.path().join("session-keys.new");
        let key = SigningKey::generate().unwrap();
        std::fs::write(&new, public_jwks([&key])).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    /// What control says of a session that goes on.
    pub(crate) fn goes_on(&self, sid: &str, role: &str, host: &str) -> renew::Answer {
        renew::Answer::Renewed {
            token: self.token_fresh_for(sid, role, host, 900),
            fresh_until: now() + 900,
            ends: now() + 12 * 3600,
        }
    }

    /// A bearer token of the identity provider.
    pub(crate) fn bearer(&self, user: &str) -> String {
        self.bearer_for(user, Duration::from_secs(600))
    }

    /// One that ends after a while.
    pub(crate) fn bearer_for(&self, user: &str, life: Duration) -> String {
        let audience = format!("http://{CONSOLE}/mcp");
        idp::mint(self.dir.path(), &self.issuer, user, &audience, life).unwrap()
    }
}
