//! Several issuers side by side: each vouches for its own tokens and for no others.

use crate::support::{AUDIENCE, ISSUER, NOW, Signer, claims, claims_but, key_set};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use nogoo9_identity::TokenError;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keyset::SecretError;
use nogoo9_identity::policy::ClaimPolicy;
use serde_json::{Value, json};
use std::sync::Arc;

const OTHER: &str = "https://login.other.example";
const SECRET: &[u8] = b"a secret of more than thirty-two bytes";

fn config(issuer: &str, audience: &str) -> BearerConfig {
    BearerConfig {
        issuer: issuer.to_owned(),
        audiences: vec![audience.to_owned()],
    }
}

fn with_scopes(keys: Keys) -> Bearers {
    let policy = ClaimPolicy {
        scopes_claim: Some("scope".to_owned()),
        ..ClaimPolicy::default()
    };
    Bearers::new(config(ISSUER, AUDIENCE), Arc::new(policy), keys)
}

fn bearers(keys: Keys) -> Bearers {
    let policy = Arc::new(ClaimPolicy::default());
    Bearers::new(config(ISSUER, AUDIENCE), policy, keys)
}

fn verdict(bearers: &Bearers, token: &str) -> Result<(), TokenError> {
    bearers.verify(token, NOW).map(|_| ())
}

fn hs(algorithm: Algorithm, kid: Option<&str>, secret: &[u8], claims: &Value) -> String {
    let mut header = Header::new(algorithm);
    header.kid = kid.map(str::to_owned);
    let key = EncodingKey::from_secret(secret).expect("a key");
    jsonwebtoken::encode(&header, claims, &key).expect("a token")
}

#[test]
fn the_same_key_id_of_two_issuers_is_two_keys() {
    let (one, two) = (Signer::ed25519("k"), Signer::ed25519("k"));
    let bearers = bearers(Keys::fixed(key_set(&[&one])))
        .and_issuer(config(OTHER, "app"), Keys::fixed(key_set(&[&two])));
    let of_one = claims();
    let of_two = claims_but(&json!({"iss": OTHER, "aud": "app", "sub": "bob"}));
    // Twice: the second answer comes from the cache and must be the same.
    for _ in 0..2 {
        assert_eq!(verdict(&bearers, &one.sign(&of_one)), Ok(()));
        assert_eq!(verdict(&bearers, &two.sign(&of_two)), Ok(()));
        assert_eq!(
            verdict(&bearers, &two.sign(&of_one)),
            Err(TokenError::Signature)
        );
        assert_eq!(
            verdict(&bearers, &one.sign(&of_two)),
            Err(TokenError::Signature)
        );
    }
    let found = bearers
        .verify(&two.sign(&of_two), NOW)
        .expect("a good token");
    assert_eq!(found.caller.sub, "bob");
    // An issuer speaks for its own audiences only, and one that is not configured for none.
    let table = [
        (json!({"iss": OTHER}), TokenError::WrongAudience),
        (
            json!({"iss": OTHER, "aud": AUDIENCE}),
            TokenError::WrongAudience,
        ),
        (
            json!({"iss": "https://third.example", "aud": "app"}),
            TokenError::WrongIssuer,
        ),
        (
            json!({"iss": format!("{OTHER}/"), "aud": "app"}),
            TokenError::WrongIssuer,
        ),
    ];
    for (changes, wanted) in table {
        let token = two.sign(&claims_but(&changes));
        assert_eq!(verdict(&bearers, &token), Err(wanted), "{changes}");
        assert!(!bearers.claims_to_us(&token), "{changes}");
    }
    assert!(bearers.claims_to_us(&one.sign(&of_one)));
    assert!(bearers.claims_to_us(&two.sign(&of_two)));
    assert!(
        bearers.claims_to_us(&one.sign(&of_two)),
        "refused, not passed on"
    );
    assert_eq!(bearers.issuer(), ISSUER);
}

#[test]
fn a_key_that_one_issuer_withdraws_leaves_the_other_alone() {
    let (one, two) = (Signer::ed25519("k"), Signer::ed25519("k"));
    let (keys_one, keys_two) = (Keys::fixed(key_set(&[&one])), Keys::fixed(key_set(&[&two])));
    let bearers = bearers(keys_one).and_issuer(config(OTHER, "app"), keys_two.clone());
    let by_one = one.sign(&claims());
    let by_two = two.sign(&claims_but(&json!({"iss": OTHER, "aud": "app"})));
    assert_eq!(verdict(&bearers, &by_one), Ok(()));
    assert_eq!(verdict(&bearers, &by_two), Ok(()));
    keys_two.replace(key_set(&[&Signer::ed25519("k")]));
    assert_eq!(verdict(&bearers, &by_one), Ok(()));
    assert_eq!(verdict(&bearers, &by_two), Err(TokenError::Signature));
}

#[test]
fn a_shared_secret_counts_only_where_it_is_configured() {
    let signer = Signer::ed25519("k");
    let of_other = claims_but(&json!({"iss": OTHER, "aud": "app"}));
    let all = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
    let keys = Keys::fixed(key_set(&[&signer]));

    let without = bearers(keys.clone()).and_issuer(config(OTHER, "app"), keys.clone());
    for algorithm in all {
        let token = hs(algorithm, Some("k"), SECRET, &of_other);
        assert_eq!(
            verdict(&without, &token),
            Err(TokenError::Algorithm),
            "{algorithm:?}"
        );
    }

    let with = bearers(keys)
        .and_shared_secret(config(OTHER, "app"), SECRET)
        .expect("a secret");
    for algorithm in all {
        for kid in [None, Some("k"), Some("anything")] {
            let token = hs(algorithm, kid, SECRET, &of_other);
            assert_eq!(verdict(&with, &token), Ok(()), "{algorithm:?} {kid:?}");
            let token = hs(
                algorithm,
                kid,
                b"another secret of more than 32 bytes",
                &of_other,
            );
            assert_eq!(
                verdict(&with, &token),
                Err(TokenError::Signature),
                "{kid:?}"
            );
            // The secret of one issuer signs nothing in the name of another.
            let token = hs(algorithm, kid, SECRET, &claims());
            assert_eq!(
                verdict(&with, &token),
                Err(TokenError::Algorithm),
                "{kid:?}"
            );
        }
    }
    // Nor do published keys in the name of the issuer that has a secret.
    assert_eq!(
        verdict(&with, &signer.sign(&of_other)),
        Err(TokenError::Algorithm)
    );
    assert_eq!(verdict(&with, &signer.sign(&claims())), Ok(()));
}

#[test]
fn a_short_secret_is_none() {
    for secret in [&b""[..], &[b'x'; 31]] {
        let keys = Keys::fixed(key_set(&[&Signer::ed25519("k")]));
        let refused = bearers(keys).and_shared_secret(config(OTHER, "app"), secret);
        assert_eq!(refused.map(|_| ()), Err(SecretError::TooShort));
    }
}

#[test]
fn scopes_reach_the_caller_where_the_rule_is_on() {
    let signer = Signer::ed25519("k");
    let keys = Keys::fixed(key_set(&[&signer]));
    let token = |scope: Value| signer.sign(&claims_but(&json!({ "scope": scope })));
    let scopes = |bearers: &Bearers, token: &str| {
        let found = bearers.verify(token, NOW).expect("a good token");
        let scopes = found.caller.scopes.clone();
        scopes.map(|all| all.into_iter().collect::<Vec<_>>())
    };
    let (on, off) = (with_scopes(keys.clone()), bearers(keys));
    let granted = token(json!("openid nogoo9:write nogoo9:read"));
    let wanted = vec!["nogoo9:read".to_owned(), "nogoo9:write".to_owned()];
    assert_eq!(scopes(&on, &granted), Some(wanted));
    assert_eq!(
        scopes(&on, &token(json!(null))),
        Some(Vec::new()),
        "silence grants nothing"
    );
    assert_eq!(scopes(&off, &granted), None);
}
