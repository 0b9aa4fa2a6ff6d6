//! The signing key survives being stored, and publishes nothing but its public half.

use nogoo9_identity::keys::{KeyError, SigningKey, public_jwks};
use serde_json::Value;

#[test]
fn a_key_read_back_is_the_same_key() {
    let key = SigningKey::generate().expect("a key");
    let pem = key.to_pem().expect("PEM");
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let again = SigningKey::from_pem(&pem).expect("the key");
    assert_eq!(again.kid(), key.kid());
    assert_eq!(again.public_jwk(), key.public_jwk());
    assert_ne!(SigningKey::generate().expect("a key").kid(), key.kid());
}

#[test]
fn a_key_made_by_openssl_is_read() {
    // RFC 8410, section 10.3: the example key, in the form without the public half.
    let pem = "-----BEGIN PRIVATE KEY-----\n\
               MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
               -----END PRIVATE KEY-----\n";
    let key = SigningKey::from_pem(pem).expect("the key");
    assert_eq!(
        key.public_jwk()["x"],
        "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE"
    );
}

#[test]
fn the_key_id_is_the_thumbprint_of_rfc_8037() {
    // RFC 8037, appendix A: the key and its thumbprint.
    let pem = "-----BEGIN PRIVATE KEY-----\n\
               MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
               -----END PRIVATE KEY-----\n";
    let key = SigningKey::from_pem(pem).expect("the key");
    assert_eq!(
        key.public_jwk()["x"],
        "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    );
    assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
}

#[test]
fn what_is_published_is_public() {
    let keys = [
        SigningKey::generate().expect("a key"),
        SigningKey::generate().expect("a key"),
    ];
    let document: Value = serde_json::from_str(&public_jwks(&keys)).expect("JSON");
    let published = document["keys"].as_array().expect("a list");
    assert_eq!(published.len(), 2);
    for (jwk, key) in published.iter().zip(&keys) {
        assert_eq!(jwk["kid"], key.kid());
        let mut names: Vec<_> = jwk.as_object().expect("an object").keys().collect();
        names.sort();
        assert_eq!(names, ["alg", "crv", "kid", "kty", "use", "x"]);
        assert!(!format!("{key:?}").contains(jwk["x"].as_str().expect("x")));
    }
}

#[test]
fn what_is_no_key_is_refused_and_not_shown() {
    let rsa = include_str!("rsa-test-only.pem");
    for text in [
        "",
        "secret",
        rsa,
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ] {
        let error = SigningKey::from_pem(text).expect_err("no key");
        assert_eq!(error, KeyError::Pem);
        assert!(!error.to_string().contains("secret"));
    }
}
