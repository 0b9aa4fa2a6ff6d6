//! What others wrote, made fit for a line of the log. Pure.

use std::borrow::Cow;

/// What stands in the place of what may be a secret.
const WITHHELD: &str = "(withheld)";
/// How personal access tokens begin, and JSON Web Tokens: nothing that may be named holds these.
const SECRETS: [&str; 2] = ["ng9_", "eyJ"];

/// `text`, percent-encoded outside of visible ASCII, and `%`, `"` and `\`, so that nothing in it ends
/// a line, a field or a quote; cut, with `...`, after `most` bytes of what was given. What looks like
/// a token is withheld: somebody has put one where a name belongs.
#[must_use]
pub fn shown(text: &str, most: usize) -> Cow<'_, str> {
    if SECRETS.iter().any(|secret| text.contains(secret)) {
        return Cow::Borrowed(WITHHELD);
    }
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'"' | b'\\');
    if text.len() <= most && text.as_bytes().iter().all(&plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len().min(most) + 3);
    for byte in text.bytes().take(most) {
        if plain(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            for half in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(half), 16).unwrap_or('0');
                out.push(digit.to_ascii_uppercase());
            }
        }
    }
    if text.len() > most {
        out.push_str("...");
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_stay_and_the_rest_is_escaped() {
        for (text, is) in [
            ("alice", "alice"),
            ("auth0|5f7c8ec7", "auth0|5f7c8ec7"),
            ("Jörg", "J%C3%B6rg"),
            ("a b", "a%20b"),
            ("a\nresult=ok", "a%0Aresult=ok"),
            ("a\" result=\"ok", "a%22%20result=%22ok"),
            ("50%", "50%25"),
            ("\u{202e}x", "%E2%80%AEx"),
            ("", ""),
            ("ng9_abc", "(withheld)"),
            ("x/ng9_abc", "(withheld)"),
            ("eyJhbGciOiJub25lIn0.e30.", "(withheld)"),
        ] {
            assert_eq!(shown(text, 255), is, "{text:?}");
        }
        assert_eq!(shown("abcdef", 3), "abc...");
        assert_eq!(shown("abc", 3), "abc");
    }

    proptest! {
        #[test]
        fn it_is_bounded_visible_ascii(text in any::<String>(), most in 0_usize..300) {
            let shown = shown(&text, most);
            prop_assert!(shown.len() <= 3 * most + WITHHELD.len());
            let harmless = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            prop_assert!(shown.bytes().all(harmless), "{}", shown);
            prop_assert!(!SECRETS.iter().any(|secret| shown.contains(secret)));
        }
    }
}
