//! Encoding of subjects, which may be anything, into label values, which may not.

use sha2::{Digest, Sha256};

/// Longest label value that Kubernetes takes.
const MAX: usize = 63;
/// Marks an encoded subject; raw ones that start so are encoded too, which keeps the two apart.
const HASHED: &str = "h-";

/// The label value of an owner: the subject itself where it is a valid label value that does not
/// start with `h-`, else `h-` and 52 characters of its SHA-256 in base32.
///
/// ```
/// use nogoo9_model::label::owner;
/// assert_eq!(owner("alice"), "alice");
/// assert!(owner("auth0|5f7c").starts_with("h-"));
/// ```
#[must_use]
pub fn owner(sub: &str) -> String {
    if is_value(sub) && !sub.is_empty() && !sub.starts_with(HASHED) {
        sub.to_owned()
    } else {
        format!("{HASHED}{}", base32_sha256(sub.as_bytes(), 52))
    }
}

/// Whether `value` is a valid label value (Kubernetes: empty, or at most 63 of `[A-Za-z0-9._-]`
/// that start and end alphanumeric).
#[must_use]
pub fn is_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return true;
    };
    bytes.len() <= MAX
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The first `len` characters (52 at most) of the lower-case base32 of `data`'s SHA-256.
#[must_use]
pub fn base32_sha256(data: &[u8], len: usize) -> String {
    let mut text = data_encoding::BASE32_NOPAD.encode(&Sha256::digest(data));
    text.make_ascii_lowercase();
    text.truncate(len);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn subjects() {
        for (sub, raw) in [
            ("alice", true),
            ("Alice.Smith_2", true),
            ("a", true),
            ("", false),
            ("auth0|x", false),
            ("alice@example.com", false),
            ("-alice", false),
            ("alice-", false),
            ("h-alice", false),
            ("ålice", false),
            (&"a".repeat(63), true),
            (&"a".repeat(64), false),
        ] {
            let label = owner(sub);
            assert_eq!(label == sub, raw, "{sub}");
            assert!(raw || label.len() == 54, "{label}");
        }
    }

    proptest! {
        #[test]
        fn always_a_label_and_never_shared(a in "\\PC{0,80}", b in "\\PC{0,80}") {
            prop_assert!(is_value(&owner(&a)));
            prop_assert_eq!(a == b, owner(&a) == owner(&b));
        }
    }
}
