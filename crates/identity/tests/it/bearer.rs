//! Every reason for which an access token is refused, and those for which it is not.

use crate::support::{AUDIENCE, ISSUER, NOW, Signer, bearers, claims, claims_but, jwks, key_set};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::Algorithm;
use nogoo9_identity::TokenError;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keyset::{KeySet, KeySetError};
use nogoo9_model::access::Role;
use serde_json::{Value, json};

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        BASE64URL_NOPAD.encode(b"signature")
    )
}

#[test]
fn every_accepted_algorithm_verifies() {
    let signers = [
        Signer::ed25519("ed"),
        Signer::p256("ec"),
        Signer::rsa("rs", Algorithm::RS256),
        Signer::rsa("rs512", Algorithm::RS512),
        Signer::rsa("ps", Algorithm::PS256),
    ];
    let keys = Keys::fixed(key_set(&signers.each_ref()));
    let bearers = bearers(keys);
    for signer in &signers {
        let found = bearers
            .verify(&signer.sign(&claims()), NOW)
            .expect("a good token");
        assert_eq!(found.caller.sub, "alice", "{:?}", signer.algorithm);
        assert_eq!(found.caller.roles, ["user", "dev"]);
        assert_eq!(found.caller.role, Role::User);
        assert_eq!((found.expires, &found.sid), (NOW + 3630, &None));
    }
}

#[test]
fn claims_that_are_refused() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let table = [
        (
            json!({"iss": format!("{ISSUER}/")}),
            TokenError::WrongIssuer,
        ),
        (json!({"iss": [ISSUER]}), TokenError::WrongIssuer),
        (json!({"iss": null}), TokenError::MissingClaim),
        (
            json!({"aud": "https://ws.example.org/"}),
            TokenError::WrongAudience,
        ),
        (json!({"aud": ["a", "b"]}), TokenError::WrongAudience),
        (json!({"aud": []}), TokenError::WrongAudience),
        (json!({"aud": {"x": AUDIENCE}}), TokenError::WrongAudience),
        (json!({"aud": null}), TokenError::MissingClaim),
        (json!({"exp": NOW - 30}), TokenError::Expired),
        (json!({"exp": 0}), TokenError::Expired),
        (json!({"exp": null}), TokenError::MissingClaim),
        (json!({"exp": "tomorrow"}), TokenError::Malformed),
        (json!({"nbf": NOW + 31}), TokenError::NotYetValid),
        (json!({"nbf": "now"}), TokenError::Malformed),
        (json!({"sub": null}), TokenError::MissingClaim),
        (json!({"sub": 7}), TokenError::MissingClaim),
        (json!({"sub": ""}), TokenError::Malformed),
        (json!({"sub": "a\u{0}"}), TokenError::Malformed),
        (json!({"sub": "a".repeat(256)}), TokenError::Malformed),
    ];
    for (changes, wanted) in table {
        let verdict = bearers.verify(&signer.sign(&claims_but(&changes)), NOW);
        assert_eq!(
            verdict.map(|found| found.caller.clone()),
            Err(wanted),
            "{changes}"
        );
    }
}

#[test]
fn claims_that_are_accepted() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let table = [
        json!({"aud": AUDIENCE}),
        json!({"aud": "other"}),
        json!({"exp": NOW - 29}),
        json!({"exp": (NOW + 10) as f64 + 0.5}),
        json!({"nbf": NOW + 30}),
        json!({"roles": null}),
        json!({"sub": "Grüße|世界"}),
    ];
    for changes in table {
        let verdict = bearers.verify(&signer.sign(&claims_but(&changes)), NOW);
        assert!(verdict.is_ok(), "{changes}: {verdict:?}");
    }
}

#[test]
fn headers_and_signatures_that_are_refused() {
    let (signer, other) = (Signer::ed25519("k"), Signer::ed25519("other"));
    let impostor = Signer::ed25519("k");
    let rsa = Signer::rsa("k", Algorithm::RS256);
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let good = signer.sign(&claims());
    let with = |change: &dyn Fn(&mut jsonwebtoken::Header)| {
        let mut header = signer.header();
        change(&mut header);
        signer.sign_with(&header, &claims())
    };
    let cut = good.rsplit_once('.').expect("three parts").0;
    let altered = {
        let parts: Vec<&str> = good.split('.').collect();
        let claims =
            BASE64URL_NOPAD.encode(claims_but(&json!({"sub": "bob"})).to_string().as_bytes());
        format!("{}.{claims}.{}", parts[0], parts[2])
    };
    let table = [
        ("empty", String::new(), TokenError::Malformed),
        (
            "opaque",
            "0123456789abcdef".to_owned(),
            TokenError::Malformed,
        ),
        ("two parts", cut.to_owned(), TokenError::Malformed),
        ("four parts", format!("{good}.x"), TokenError::Malformed),
        (
            "no JSON",
            "AAAA.AAAA.AAAA".to_owned(),
            TokenError::Malformed,
        ),
        (
            "none",
            unsigned(&json!({"alg": "none"}), &claims()),
            TokenError::Algorithm,
        ),
        (
            "HS256",
            unsigned(&json!({"alg": "HS256", "kid": "k"}), &claims()),
            TokenError::Algorithm,
        ),
        (
            "unheard of",
            unsigned(&json!({"alg": "XX", "kid": "k"}), &claims()),
            TokenError::Algorithm,
        ),
        (
            "other algorithm",
            rsa.sign(&claims()),
            TokenError::Algorithm,
        ),
        ("unknown key", other.sign(&claims()), TokenError::UnknownKey),
        (
            "same id, other key",
            impostor.sign(&claims()),
            TokenError::Signature,
        ),
        ("altered", altered, TokenError::Signature),
        ("no signature", format!("{cut}."), TokenError::Signature),
        (
            "session",
            with(&|h| h.typ = Some("ng9-session+jwt".to_owned())),
            TokenError::WrongType,
        ),
        (
            "logout",
            with(&|h| h.typ = Some("logout+jwt".to_owned())),
            TokenError::WrongType,
        ),
        (
            "critical",
            with(&|h| h.crit = Some(vec!["x".to_owned()])),
            TokenError::Malformed,
        ),
        ("endless", "a".repeat(16 * 1024 + 1), TokenError::TooLong),
    ];
    for (name, token, wanted) in table {
        assert_eq!(
            bearers.verify(&token, NOW).map(|_| ()),
            Err(wanted),
            "{name}"
        );
    }
    for typ in [
        None,
        Some("JWT"),
        Some("jwt"),
        Some("at+jwt"),
        Some("application/at+jwt"),
    ] {
        let token = with(&|h| h.typ = typ.map(str::to_owned));
        assert!(bearers.verify(&token, NOW).is_ok(), "{typ:?}");
    }
}

#[test]
fn without_a_key_id_there_must_be_no_choice() {
    let (one, two) = (Signer::ed25519("1"), Signer::ed25519("2"));
    let ec = Signer::p256("3");
    let mut header = one.header();
    header.kid = None;
    let token = one.sign_with(&header, &claims());
    let alone = bearers(Keys::fixed(key_set(&[&one, &ec])));
    assert!(alone.verify(&token, NOW).is_ok());
    let several = bearers(Keys::fixed(key_set(&[&one, &two])));
    assert_eq!(
        several.verify(&token, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
}

#[test]
fn a_token_that_verified_once_still_expires() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let token = signer.sign(&claims_but(&json!({"nbf": NOW})));
    assert!(bearers.verify(&token, NOW).is_ok());
    let last = bearers.verify(&token, NOW + 3629).expect("still good");
    assert!(last.expires > NOW + 3629, "what is let in has time left");
    assert_eq!(
        bearers.verify(&token, NOW + 3630).map(|_| ()),
        Err(TokenError::Expired)
    );
    assert_eq!(
        bearers.verify(&token, NOW - 31).map(|_| ()),
        Err(TokenError::NotYetValid)
    );
}

#[test]
fn a_withdrawn_key_takes_its_tokens_along() {
    let (old, new) = (Signer::ed25519("old"), Signer::ed25519("new"));
    let keys = Keys::fixed(key_set(&[&old]));
    let bearers = bearers(keys.clone());
    let (by_old, by_new) = (old.sign(&claims()), new.sign(&claims()));
    assert!(bearers.verify(&by_old, NOW).is_ok());
    assert_eq!(
        bearers.verify(&by_new, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    keys.replace(key_set(&[&old, &new]));
    assert!(bearers.verify(&by_old, NOW).is_ok());
    assert!(bearers.verify(&by_new, NOW).is_ok());
    keys.replace(key_set(&[&new]));
    assert_eq!(
        bearers.verify(&by_old, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    assert!(bearers.verify(&by_new, NOW).is_ok());
}

#[test]
fn ours_is_what_names_our_issuer_and_an_audience_of_ours() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let table = [
        (signer.sign(&claims()), true),
        // Ours too, so refused rather than passed on: expired, forged, by an unknown key.
        (signer.sign(&claims_but(&json!({"exp": 0}))), true),
        (unsigned(&json!({"alg": "none"}), &claims()), true),
        (Signer::ed25519("x").sign(&claims()), true),
        (
            signer.sign(&claims_but(&json!({"pad": "a".repeat(20_000)}))),
            true,
        ),
        ("ng9_0123456789".to_owned(), true),
        // The application's own.
        (
            signer.sign(&claims_but(&json!({"iss": "https://elsewhere"}))),
            false,
        ),
        (
            signer.sign(&claims_but(&json!({"aud": "elsewhere"}))),
            false,
        ),
        (signer.sign(&claims_but(&json!({"aud": null}))), false),
        ("ghp_0123456789".to_owned(), false),
        (String::new(), false),
    ];
    for (token, wanted) in table {
        assert_eq!(bearers.claims_to_us(&token), wanted, "{token:.60}");
    }
}

#[test]
fn keys_of_no_use_are_left_out_and_cost_the_rest_nothing() {
    let good = Signer::ed25519("good");
    let x = good.jwk()["x"].clone();
    let odd = [
        json!({"kty": "oct", "kid": "secret", "k": "AAAA", "alg": "HS256"}),
        json!({"kty": "RSA", "kid": "short", "n": BASE64URL_NOPAD.encode(&[255; 128]), "e": "AQAB"}),
        json!({"kty": "RSA", "kid": "huge", "n": BASE64URL_NOPAD.encode(&[255; 2048]), "e": "AQAB"}),
        json!({"kty": "OKP", "crv": "Ed25519", "kid": "cut", "x": "AAAA"}),
        json!({"kty": "OKP", "crv": "X25519", "kid": "x", "x": x}),
        json!({"kty": "EC", "crv": "P-256", "kid": "ec", "x": "AAAA", "y": "AAAA"}),
        json!({"kty": "OKP", "crv": "Ed25519", "kid": "enc", "x": x, "use": "enc"}),
        json!({"kty": "OKP", "crv": "Ed25519", "kid": "alg", "x": x, "alg": "RS256"}),
        json!({"kty": "NEW", "kid": "new"}),
        json!("no object"),
    ];
    let mut keys = odd.to_vec();
    assert_eq!(
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).map(|_| ()),
        Err(KeySetError::NoUsableKey)
    );
    keys.push(good.jwk());
    let set = KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("one good key");
    assert_eq!(set.kids().collect::<Vec<_>>(), ["good"]);
    for document in ["", "[]", "{}", r#"{"keys": 1}"#] {
        assert_eq!(
            KeySet::parse(document.as_bytes()).map(|_| ()),
            Err(KeySetError::Malformed)
        );
    }
    assert!(
        KeySet::parse(&jwks(&[&good]))
            .expect("a set")
            .same_document(&key_set(&[&good]))
    );
}

#[test]
fn no_error_shows_the_token() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let token = signer.sign(&claims_but(&json!({"exp": 0})));
    let error = bearers.verify(&token, NOW).expect_err("expired");
    let shown = format!("{error} {error:?} {}", error.reason());
    assert!(
        token.split('.').all(|part| !shown.contains(part)),
        "{shown}"
    );
}
