//! What providers publish and claim: odd key sets, odd claims, odd texts for challenges.

use super::fuzz;
use super::world::WORLD;
use crate::support::NOW;
use http::HeaderValue;
use nogoo9_identity::challenge::{challenge, metadata_url};
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::{ClaimPolicy, MAX_ROLES};
use nogoo9_model::access::SCOPES;
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        select(
            &[
                "admin",
                "user",
                "viewer",
                "nogoo9:read nogoo9:admin",
                "AQAB",
                "sig"
            ][..]
        )
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 40, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..40).prop_map(Value::from),
            hash_map("a|b|roles|[a-z.]{0,6}", inner, 0..6)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

#[test]
fn an_odd_key_set_costs_nobody_anything() {
    const MEMBERS: &[&str] = &[
        "kty", "crv", "x", "y", "n", "e", "kid", "use", "alg", "k", "key_ops",
    ];
    let word = select(
        &[
            "RSA", "EC", "OKP", "oct", "P-256", "P-384", "Ed25519", "RS256", "HS256", "k", "AQAB",
            "AA",
        ][..],
    );
    let value = prop_oneof![
        2 => word.prop_map(Value::from),
        1 => (0usize..2000).prop_map(|len| Value::from("A".repeat(len))),
        1 => json(),
    ];
    let changes = vec((any::<Index>(), select(MEMBERS), value), 0..6);
    fuzz("key sets", &(changes, any::<Index>()), |(changes, of)| {
        let mut document: Value = serde_json::from_slice(&WORLD.jwks).expect("JSON");
        let keys = document["keys"].as_array_mut().expect("a list");
        for (at, name, value) in &changes {
            let at = at.index(keys.len());
            keys[at][*name] = value.clone();
        }
        let Ok(set) = KeySet::parse(document.to_string().as_bytes()) else {
            return Ok(());
        };
        let bearers = crate::support::bearers(nogoo9_identity::jwks::Keys::fixed(set));
        let token = of.get(&WORLD.access);
        // A key that is published unchanged goes on to verify, whatever is wrong with the others.
        let verdict = bearers.verify(token, NOW);
        if changes.is_empty() {
            prop_assert_eq!(
                verdict.is_ok(),
                WORLD.door.bearers().issuer() == issuer(token)
            );
        }
        Ok(())
    });
}

fn issuer(token: &str) -> String {
    let claims = token.split('.').nth(1).expect("claims");
    let json = data_encoding::BASE64URL_NOPAD
        .decode(claims.as_bytes())
        .expect("base64url");
    let claims: Value = serde_json::from_slice(&json).expect("JSON");
    claims["iss"].as_str().expect("an issuer").to_owned()
}

#[test]
fn odd_claims_make_a_bounded_caller() {
    let path = prop_oneof!["roles", "a", "a\\.b", "[a-z.]{0,12}", "\\PC{0,8}"];
    fuzz("claims", &(json(), path), |(claims, path)| {
        let policy = ClaimPolicy {
            roles_claim: path.clone(),
            scopes_claim: Some(path),
            ..ClaimPolicy::default()
        };
        let claims = match claims {
            Value::Object(all) => all,
            other => [("roles".to_owned(), other)].into_iter().collect(),
        };
        let roles = policy.roles(&claims);
        prop_assert!(roles.len() <= MAX_ROLES);
        prop_assert!(
            roles
                .iter()
                .all(|role| !role.is_empty() && role.len() <= 128)
        );
        let caller = policy.caller("alice", roles.clone());
        prop_assert_eq!(caller.is_admin(), roles.iter().any(|role| role == "admin"));
        let scopes = policy.scopes(&claims).expect("the rule is on");
        prop_assert!(scopes.iter().all(|scope| SCOPES.contains(&scope.as_str())));
        Ok(())
    });
}

#[test]
fn a_challenge_is_one_header_line_whatever_is_put_in() {
    let text = || prop_oneof![any::<String>(), "[ -~\r\n\"\\\\]{0,40}"];
    fuzz("challenges", &(text(), text()), |(place, scope)| {
        let value = challenge(&place, None, Some(&scope));
        prop_assert!(HeaderValue::from_str(&value).is_ok(), "{:?}", value);
        prop_assert_eq!(value.matches('"').count() % 2, 0, "{}", value);
        if let Ok(url) = url::Url::parse(&format!("https://x/{place}")) {
            prop_assert!(HeaderValue::from_str(&metadata_url(&url)).is_ok());
        }
        Ok(())
    });
}
