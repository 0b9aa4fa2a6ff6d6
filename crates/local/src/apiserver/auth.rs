//! Bearer tokens and what each may do.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

/// The bearer tokens of the embedded API server.
#[derive(Clone)]
pub struct Tokens {
    /// May do everything: people, the kubelet, the supervisor.
    pub admin: String,
    /// May do everything: `nogoo9-control`.
    pub control: String,
    /// May only get, list and watch pods: `nogoo9-proxy`.
    pub proxy: String,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(redacted)")
    }
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Admin,
    Control,
    Proxy,
}

impl User {
    pub(crate) fn name(self) -> &'static str {
        match self {
            User::Admin => "nogoo9-admin",
            User::Control => "nogoo9-control",
            User::Proxy => "nogoo9-proxy",
        }
    }

    /// Whether this user may do `verb` to a kind (or a `kind/subresource`) of a group.
    pub(crate) fn may(self, verb: &str, group: &str, resource: &str) -> bool {
        match self {
            User::Admin | User::Control => true,
            User::Proxy => {
                group.is_empty() && resource == "pods" && matches!(verb, "get" | "list" | "watch")
            }
        }
    }
}

/// The user of a request; `None` without a known token. Every token is compared in constant time.
pub(crate) fn authenticate(tokens: &Tokens, headers: &HeaderMap) -> Option<User> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let token = token.trim();
    let known = [
        (&tokens.admin, User::Admin),
        (&tokens.control, User::Control),
        (&tokens.proxy, User::Proxy),
    ];
    let mut found = None;
    for (expected, user) in known {
        let same = bool::from(expected.as_bytes().ct_eq(token.as_bytes()));
        // An unset token admits nobody.
        if same && !expected.is_empty() {
            found = Some(user);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(header: &str) -> Option<User> {
        let tokens = Tokens {
            admin: "a1".into(),
            control: "c1".into(),
            proxy: String::new(),
        };
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        authenticate(&tokens, &headers)
    }

    #[test]
    fn only_known_bearers_pass() {
        assert_eq!(user("Bearer a1"), Some(User::Admin));
        assert_eq!(user("bearer c1"), Some(User::Control));
        for refused in [
            "Bearer",
            "Bearer ",
            "Bearer a",
            "Bearer a11",
            "Basic a1",
            "a1",
        ] {
            assert_eq!(user(refused), None, "{refused}");
        }
    }

    #[test]
    fn proxy_reads_pods_and_nothing_else() {
        for verb in ["get", "list", "watch"] {
            assert!(User::Proxy.may(verb, "", "pods"));
            assert!(!User::Proxy.may(verb, "", "secrets"));
            assert!(!User::Proxy.may(verb, "", "pods/log"));
        }
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            assert!(!User::Proxy.may(verb, "", "pods"));
        }
    }
}
