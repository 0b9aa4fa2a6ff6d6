//! Our cookies: their names, reading them, setting them, and keeping them from pods.
//!
//! On https the names have the `__Host-` prefix: the browser then accepts them only from this very
//! host, so no sibling host can plant one. On plain http, which is allowed on loopback only, browsers
//! refuse that prefix.

use http::HeaderMap;
use http::header::COOKIE;

/// Every name that is ours begins with this, after an optional `__Host-`.
const BASE: &str = "nogoo9";
/// Pairs looked at in one request; browsers send some 180 a host at most.
const MAX_PAIRS: usize = 512;
/// Values of one name that are considered; more than one only where somebody planted others.
const MAX_VALUES: usize = 4;

/// The names in use, by the scheme of the public URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieNames {
    secure: bool,
}

impl CookieNames {
    /// Names for https (`secure`) or for plain http on loopback.
    #[must_use]
    pub fn new(secure: bool) -> Self {
        Self { secure }
    }

    /// The session token.
    #[must_use]
    pub fn session(self) -> &'static str {
        if self.secure {
            "__Host-nogoo9"
        } else {
            "nogoo9"
        }
    }

    /// The nonce that a hand-over code is bound to, on a workspace's host.
    #[must_use]
    pub fn nonce(self) -> &'static str {
        if self.secure {
            "__Host-nogoo9-nonce"
        } else {
            "nogoo9-nonce"
        }
    }

    /// What the names of login states begin with, on control's host; one cookie a login, so that
    /// logins in parallel tabs do not disturb each other.
    #[must_use]
    pub fn login_prefix(self) -> &'static str {
        if self.secure {
            "__Host-nogoo9-login-"
        } else {
            "nogoo9-login-"
        }
    }

    /// A `Set-Cookie` value: HttpOnly, for this host only, for `max_age` seconds. `value` must be
    /// of the characters of a JWT.
    #[must_use]
    pub fn set(self, name: &str, value: &str, max_age: i64) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!(
            "{name}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
            max_age.max(0)
        )
    }

    /// A `Set-Cookie` value that deletes what [`Self::set`] set.
    #[must_use]
    pub fn delete(self, name: &str) -> String {
        self.set(name, "", 0)
    }
}

/// Whether a cookie of that name is ours, under either scheme, and must not reach a pod.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    let bare = name.strip_prefix("__Host-").unwrap_or(name);
    bare == BASE
        || bare
            .strip_prefix(BASE)
            .is_some_and(|rest| rest.starts_with('-'))
}

/// Every `name=value` of all `Cookie` headers, in order. Pairs without `=`, and pairs that are not
/// UTF-8, are passed over: one such cookie, which any application may set, must not hide the others.
pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|header| header.as_bytes().split(|byte| *byte == b';'))
        .filter_map(|pair| std::str::from_utf8(pair).ok())
        .filter_map(|pair| pair.trim_matches([' ', '\t']).split_once('='))
        .take(MAX_PAIRS)
}

/// The values of the cookies of exactly that name, in order; of more than four, the last four.
/// Browsers send those of longer paths first (RFC 6265, section 5.4) and ours have the shortest
/// there is, so what somebody planted at any number of paths does not push ours out.
pub fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let mut last = [None; MAX_VALUES];
    for (_, value) in pairs(headers).filter(|(one, _)| *one == name) {
        last.rotate_left(1);
        if let Some(end) = last.last_mut() {
            *end = Some(value);
        }
    }
    last.into_iter().flatten()
}

/// What is left of a `Cookie` header's value for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stripped {
    /// None of ours in it: pass it on as it is.
    Unchanged,
    /// Nothing but ours in it: drop the header.
    Nothing,
    /// Send this instead. The other cookies are in it byte for byte, in their order.
    Rest(Vec<u8>),
}

/// Takes our cookies out of one `Cookie` header value. Works on bytes, whatever they are, and errs
/// towards taking out: spaces around a name and a missing `=` do not save a cookie of ours.
#[must_use]
pub fn strip(value: &[u8]) -> Stripped {
    let ours = |pair: &[u8]| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        std::str::from_utf8(name.trim_ascii()).is_ok_and(is_ours)
    };
    if !value.split(|byte| *byte == b';').any(ours) {
        return Stripped::Unchanged;
    }
    let mut rest: Vec<u8> = Vec::with_capacity(value.len());
    for pair in value.split(|byte| *byte == b';').filter(|pair| !ours(pair)) {
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        if !rest.is_empty() {
            rest.extend_from_slice(b"; ");
        }
        rest.extend_from_slice(pair);
    }
    if rest.is_empty() {
        Stripped::Nothing
    } else {
        Stripped::Rest(rest)
    }
}
