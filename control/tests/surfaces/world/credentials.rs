//! Who somebody is: tokens and cookies.

use super::World;
use nogoo9_control::session::SessionRecord;
use nogoo9_identity::session::Session;
use nogoo9_local::idp;
use std::time::Duration;

impl World {
    pub(crate) fn token(&self, user: &str) -> String {
        self.token_for(user, &format!("{}/mcp", self.url))
    }

    pub(crate) fn token_for(&self, user: &str, audience: &str) -> String {
        idp::mint(
            self.idp_dir.path(),
            &self.issuer,
            user,
            audience,
            Duration::from_secs(600),
        )
        .unwrap()
    }

    /// As [`Self::token`], by another issuer that has the same keys.
    pub(crate) fn token_by(&self, issuer: &str, user: &str) -> String {
        let audience = format!("{}/mcp", self.url);
        let (dir, life) = (self.idp_dir.path(), Duration::from_secs(600));
        idp::mint(dir, issuer, user, &audience, life).unwrap()
    }

    /// As [`Self::token`], with these scopes alone.
    pub(crate) fn scoped(&self, user: &str, scope: &str) -> String {
        let audience = format!("{}/mcp", self.url);
        let (dir, life) = (self.idp_dir.path(), Duration::from_secs(600));
        idp::mint_scoped(dir, &self.issuer, user, &audience, scope, life).unwrap()
    }

    /// The cookie of a browser that is signed in to the console.
    pub(crate) fn cookie(&self, user: &str) -> String {
        self.cookie_for(user, 600)
    }

    /// The cookie of a session that ends in so many seconds.
    pub(crate) fn cookie_for(&self, user: &str, seconds: i64) -> String {
        self.session(user, self.url.trim_start_matches("http://"), seconds)
    }

    /// The cookie of a browser that is signed in on `host`.
    pub(crate) fn cookie_on(&self, user: &str, host: &str) -> String {
        self.session(user, host, 600)
    }

    fn session(&self, user: &str, host: &str, seconds: i64) -> String {
        let now = self.connection.clock.now();
        let roles = vec![if user == "admin" { "admin" } else { "user" }.to_owned()];
        let session = Session {
            sub: user.into(),
            roles,
            sid: "s".into(),
            expires: now + seconds,
            fresh_until: None,
        };
        format!(
            "nogoo9={}",
            self.signer.sign_session(&session, host, now).unwrap()
        )
    }

    /// The cookie of the session with a record, on the console, as fresh as that.
    pub(crate) fn cookie_of(&self, record: &SessionRecord, fresh_until: i64) -> String {
        let session = Session {
            sub: record.sub.clone(),
            roles: record.roles.clone(),
            sid: record.sid.clone(),
            expires: record.ends,
            fresh_until: Some(fresh_until),
        };
        let host = self.url.trim_start_matches("http://");
        let signed = self.signer.sign_session(&session, host, self.now());
        format!("nogoo9={}", signed.unwrap())
    }
}
