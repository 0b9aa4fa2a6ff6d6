//! The one spelling of a path, to tell whether others read it as we do. Pure.
//!
//! Requests are routed and forwarded by the bytes of their path. Servers, proxies and browsers resolve
//! `..`, decode `%2e`, merge `//`, take `\` for `/` and leave out what follows a `;`, each in its own way.
//! Where that would make another place of it than the bytes do, nobody can say what was meant.

/// The path as whoever resolves everything would read it; `None`: it is that already.
#[must_use]
pub fn plain(path: &str) -> Option<String> {
    if is_plain(path.as_bytes()) {
        return None;
    }
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
    let mut segments: Vec<&[u8]> = Vec::new();
    let mut is_open = false;
    for segment in decoded.split(|byte| matches!(byte, b'/' | b'\\')) {
        is_open = false;
        // Servlets take `..;x` for `..`.
        let name = segment.split(|byte| *byte == b';').next();
        match name.unwrap_or_default() {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            _ => {
                is_open = true;
                segments.push(segment);
            }
        }
    }
    let mut text = String::with_capacity(decoded.len() + 1);
    for segment in &segments {
        text.push('/');
        text.push_str(&String::from_utf8_lossy(segment));
    }
    // What does not end in a name ends in a slash.
    if !is_open {
        text.push('/');
    }
    Some(text)
}

/// Whether nobody reads anything else in it: no escape, no backslash, no empty and no dot segment.
fn is_plain(path: &[u8]) -> bool {
    let mut slash = false;
    for byte in path {
        match byte {
            b'%' | b'\\' => return false,
            // Of names that begin with a dot there are few.
            b'/' | b'.' if slash => return false,
            _ => slash = *byte == b'/',
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_spelling() {
        for (path, expected) in [
            ("/", None),
            ("/a/b.c", None),
            ("*", None),
            ("/a//b", Some("/a/b")),
            ("//a", Some("/a")),
            ("/a/../b", Some("/b")),
            ("/a/%2E%2e/b", Some("/b")),
            ("/a%2f..%5cb", Some("/b")),
            ("/a\\b", Some("/a/b")),
            ("/a/..", Some("/")),
            ("/a/b/.", Some("/a/b/")),
            ("/../../a", Some("/a")),
            ("/%2enogoo9/x", Some("/.nogoo9/x")),
            ("/.nogoo9/x", Some("/.nogoo9/x")),
            ("/a;b/%zz", Some("/a;b/%zz")),
            ("/a/..;/b", Some("/b")),
            ("/a/.;x=y/..;z", Some("/")),
            ("/a/%2e.%3b/b", Some("/b")),
            ("/a/;/../b", Some("/b")),
            ("/a;/..b;", Some("/a;/..b;")),
        ] {
            assert_eq!(plain(path).as_deref(), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn there_is_nothing_left_to_resolve(path in "/[a%2eEfF5cC./;3bB\\\\]{0,16}") {
            let once = plain(&path).unwrap_or(path);
            prop_assert!(once.starts_with('/'), "{}", once);
            let name = |segment: &str| segment.split(';').next() == Some("..");
            let climbs = once.split('/').any(|segment| name(segment) || segment == ".");
            prop_assert!(!climbs && !once.contains("//") && !once.contains('\\'), "{}", once);
        }
    }
}
