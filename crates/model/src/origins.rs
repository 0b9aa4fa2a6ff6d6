//! Origins whose pages may use a session on a workspace's host beside the workspace's own.
//!
//! A browser attaches cookies by itself, so a workspace's counts for its own pages alone. Where
//! somebody means a page elsewhere to call the workspace in its reader's name, the annotation
//! `allow-origins` names that page's origin.

use std::sync::Arc;

/// Longest origin, in bytes: `https://`, a name of 253 characters, and a port.
const MAX_LEN: usize = 8 + 253 + 6;
/// Most of them.
const MAX: usize = 32;

/// What `allow-origins` names. Clones share it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedOrigins(Option<Arc<[String]>>);

impl AllowedOrigins {
    /// None: a workspace's own pages alone.
    pub const NONE: Self = Self(None);

    /// Reads the annotation: origins as browsers write them, separated by commas or spaces. With one
    /// entry that is none, none counts: half a rule is not what its author meant.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        Self::checked(text.unwrap_or_default()).unwrap_or_default()
    }

    /// As [`Self::parse`].
    ///
    /// # Errors
    /// The entry that is no origin, or one too many.
    pub fn checked(text: &str) -> Result<Self, String> {
        let entries = || {
            text.split([',', ' ', '\t', '\n'])
                .filter(|one| !one.is_empty())
        };
        if let Some(wrong) = entries()
            .find(|one| !is_origin(one))
            .or_else(|| entries().nth(MAX))
        {
            return Err(wrong.to_owned());
        }
        let all: Arc<[String]> = entries().map(ToOwned::to_owned).collect();
        Ok(Self((!all.is_empty()).then_some(all)))
    }

    /// Whether it names `origin`, the value of an `Origin` header.
    #[must_use]
    pub fn contains(&self, origin: &str) -> bool {
        self.iter().any(|one| one == origin)
    }

    /// Each of them; twice, if it is named twice.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|all| all.iter().map(String::as_str))
    }

    /// Whether it names none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Whether a browser writes an origin like this: scheme, host and, if it is not the scheme's own, a
/// port; in lower case, with nothing behind it. Neither `*` nor `null`.
fn is_origin(text: &str) -> bool {
    let (rest, own_port) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (rest, 443),
        (_, Some(rest)) => (rest, 80),
        _ => return false,
    };
    let (host, port) = match rest.split_once(':') {
        None => (rest, None),
        Some((host, port)) => (host, Some(port)),
    };
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
    };
    let port_fits = port.is_none_or(|port| {
        let plain = !port.starts_with('0') && port.bytes().all(|b| b.is_ascii_digit());
        plain && port.parse::<u16>().is_ok_and(|port| port != own_port)
    });
    text.len() <= MAX_LEN && host.split('.').all(label) && port_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_origins_are_named() {
        let named = AllowedOrigins::parse(Some(
            "https://app.example.org, http://docs.localhost:9009\n https://a_b.example:8443",
        ));
        for (origin, allowed) in [
            ("https://app.example.org", true),
            ("http://docs.localhost:9009", true),
            ("https://a_b.example:8443", true),
            ("http://app.example.org", false),
            ("https://app.example.org:443", false),
            ("https://app.example.org.evil.example", false),
            ("https://xapp.example.org", false),
            ("https://APP.example.org", false),
            ("http://docs.localhost", false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(named.contains(origin), allowed, "{origin}");
        }
        assert!(!named.is_empty());
    }

    #[test]
    fn what_is_not_understood_allows_nobody() {
        for text in [
            "*",
            "null",
            "app.example.org",
            "https://",
            "https://*.example.org",
            "https://app.example.org/",
            "https://app.example.org/path",
            "https://App.example.org",
            "https://app.example.org:443",
            "http://app.example.org:80",
            "https://app.example.org:0443",
            "https://app.example.org:99999",
            "https://app.example.org:",
            "https://user@app.example.org",
            "https://app..org",
            "https://[::1]",
            "ftp://app.example.org",
            "https://app.example.org, *",
        ] {
            assert!(AllowedOrigins::checked(text).is_err(), "{text}");
            assert_eq!(
                AllowedOrigins::parse(Some(text)),
                AllowedOrigins::NONE,
                "{text}"
            );
        }
        let many = "https://a.example ".repeat(MAX + 1);
        assert!(AllowedOrigins::checked(&many).is_err());
        for none in [None, Some(""), Some(" , ")] {
            assert!(AllowedOrigins::parse(none).is_empty());
        }
    }
}
