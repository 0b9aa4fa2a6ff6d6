use super::*;
use std::cell::Cell;

/// Looks `token` up under key set `generation`, and says whether it had to be verified.
fn verified(cache: &TokenCache<String>, token: &str, generation: u64) -> bool {
    let asked = Cell::new(false);
    let found = cache.get_or_verify(token, generation, || {
        asked.set(true);
        Ok::<_, ()>(format!("of {token}"))
    });
    assert_eq!(*found.expect("it verifies"), format!("of {token}"));
    asked.get()
}

#[test]
fn a_token_is_verified_once_a_key_set() {
    let cache = TokenCache::new();
    assert!(verified(&cache, "a", 1));
    assert!(!verified(&cache, "a", 1));
    assert!(verified(&cache, "b", 1));
    // Newer keys, and also older ones, which a reader may still hold: both ask again.
    assert!(verified(&cache, "a", 2));
    assert!(verified(&cache, "a", 1));
    assert!(!verified(&cache, "a", 1));
    cache.forget("a");
    assert!(verified(&cache, "a", 1));
    assert!(!verified(&cache, "b", 1));
}

#[test]
fn a_refusal_is_not_kept() {
    let cache = TokenCache::<String>::new();
    for _ in 0..2 {
        assert_eq!(
            cache.get_or_verify("a", 1, || Err("refused")),
            Err("refused")
        );
    }
    assert!(verified(&cache, "a", 1));
}

#[test]
fn it_is_bounded() {
    let cache = TokenCache::with_capacity(16);
    for n in 0..1000 {
        verified(&cache, &n.to_string(), 1);
    }
    cache.entries.run_pending_tasks();
    assert!(cache.entries.entry_count() <= 16);
}
