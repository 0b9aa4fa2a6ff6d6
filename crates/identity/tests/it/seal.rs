//! What is sealed opens for whom it was sealed, and for nothing else.

use nogoo9_identity::seal::{KEY_LEN, SealError, SealKey};

#[test]
fn it_opens_by_its_key_and_for_its_context_only() {
    let key = SealKey::generate().expect("a key");
    let sealed = key.seal("the refresh token", "s-1").expect("sealed");
    assert!(!sealed.contains("refresh"));
    assert_eq!(key.open(&sealed, "s-1").as_deref(), Ok("the refresh token"));
    let again = SealKey::from_bytes(key.as_bytes()).expect("the key");
    assert_eq!(
        again.open(&sealed, "s-1").as_deref(),
        Ok("the refresh token")
    );
    assert_eq!(key.open(&sealed, "s-2"), Err(SealError::Broken));
    let other = SealKey::generate().expect("a key");
    assert_eq!(other.open(&sealed, "s-1"), Err(SealError::Broken));
    // Sealed twice, it looks different.
    assert_ne!(
        sealed,
        key.seal("the refresh token", "s-1").expect("sealed")
    );
}

#[test]
fn what_was_altered_does_not_open() {
    let key = SealKey::generate().expect("a key");
    let sealed = key.seal("text", "context").expect("sealed");
    let mut bytes = data_encoding::BASE64
        .decode(sealed.as_bytes())
        .expect("base64");
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        let altered = data_encoding::BASE64.encode(&bytes);
        assert_eq!(
            key.open(&altered, "context"),
            Err(SealError::Broken),
            "{at}"
        );
        bytes[at] ^= 1;
    }
    for not in ["", "x", "AAAA", "=", &"A".repeat(100_000)] {
        assert_eq!(key.open(not, "context"), Err(SealError::Broken));
    }
}

#[test]
fn a_key_has_its_length_and_is_not_shown() {
    for length in [0, KEY_LEN - 1, KEY_LEN + 1] {
        assert!(SealKey::from_bytes(&vec![7; length]).is_none());
    }
    let key = SealKey::from_bytes(&[7; KEY_LEN]).expect("a key");
    assert_eq!(format!("{key:?}"), "SealKey { .. }");
}
