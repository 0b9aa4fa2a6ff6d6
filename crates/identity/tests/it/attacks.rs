//! Tokens as somebody makes them who has no signing key: none of them may count.

use crate::support::{AUDIENCE, ISSUER, NOW, Signer, bearers, claims, claims_but, key_set};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use nogoo9_identity::TokenError;
use nogoo9_identity::bearer::Bearers;
use nogoo9_identity::jwks::Keys;
use serde_json::{Value, json};

fn part(json: &str) -> String {
    BASE64URL_NOPAD.encode(json.as_bytes())
}

fn verdict(bearers: &Bearers, token: &str) -> Result<(), TokenError> {
    bearers.verify(token, NOW).map(|_| ())
}

#[test]
fn no_spelling_of_no_algorithm_counts() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let claims = part(&claims().to_string());
    for alg in [
        "none",
        "None",
        "NONE",
        "nOnE",
        "",
        "null",
        "none ",
        "EdDSA\u{0}",
        "eddsa",
    ] {
        let head = part(&json!({"alg": alg, "kid": "k", "typ": "JWT"}).to_string());
        for signature in ["", "AA", &BASE64URL_NOPAD.encode(&[0; 64])] {
            let token = format!("{head}.{claims}.{signature}");
            assert_eq!(
                verdict(&bearers, &token),
                Err(TokenError::Algorithm),
                "{alg:?}"
            );
        }
    }
    for head in [
        json!({"kid": "k"}),
        json!({"alg": null}),
        json!({"alg": ["EdDSA"]}),
        json!({"alg": 0}),
        json!(["EdDSA"]),
        json!(["EdDSA", null, "k"]),
    ] {
        let token = format!("{}.{claims}.AA", part(&head.to_string()));
        assert_eq!(
            verdict(&bearers, &token),
            Err(TokenError::Malformed),
            "{head}"
        );
    }
}

#[test]
fn a_public_key_is_no_shared_secret() {
    let signers = [
        Signer::rsa("k", Algorithm::RS256),
        Signer::p256("k"),
        Signer::ed25519("k"),
    ];
    let base64url = |text: &Value| {
        let text = text.as_str().expect("a member of the key");
        BASE64URL_NOPAD.decode(text.as_bytes()).expect("base64url")
    };
    for signer in &signers {
        let bearers = bearers(Keys::fixed(key_set(&[signer])));
        let jwk = signer.jwk();
        // What a confused verifier might take for the secret: the published key, in any form.
        let mut secrets = vec![
            jwk.to_string().into_bytes(),
            serde_json::to_vec_pretty(&jwk).expect("JSON"),
            key_document(&jwk),
        ];
        for name in ["n", "x", "y"] {
            if let Some(member) = jwk.get(name) {
                secrets.push(base64url(member));
                secrets.push(member.as_str().expect("text").as_bytes().to_vec());
            }
        }
        for secret in secrets {
            for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                let mut header = Header::new(algorithm);
                header.kid = Some("k".to_owned());
                let key = EncodingKey::from_secret(&secret).expect("a key");
                let token = jsonwebtoken::encode(&header, &claims(), &key).expect("a token");
                assert_eq!(verdict(&bearers, &token), Err(TokenError::Algorithm));
            }
        }
    }
}

fn key_document(jwk: &Value) -> Vec<u8> {
    json!({ "keys": [jwk] }).to_string().into_bytes()
}

#[test]
fn keys_that_a_token_brings_along_are_not_looked_at() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let there = format!("http://{}/keys", listener.local_addr().expect("an address"));
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let impostor = Signer::ed25519("k");
    let stranger = Signer::ed25519("stranger");
    let own = |signer: &Signer| serde_json::from_value(signer.jwk()).expect("a JWK");
    type Change<'a> = (&'static str, Box<dyn Fn(&mut Header, &Signer) + 'a>);
    let changes: [Change<'_>; 5] = [
        (
            "jwk",
            Box::new(|header, signer| header.jwk = Some(own(signer))),
        ),
        (
            "jku",
            Box::new(|header, _| header.jku = Some(there.clone())),
        ),
        (
            "x5u",
            Box::new(|header, _| header.x5u = Some(there.clone())),
        ),
        (
            "x5c",
            Box::new(|header, _| header.x5c = Some(vec!["AAAA".to_owned()])),
        ),
        (
            "x5t",
            Box::new(|header, _| header.x5t = Some("AAAA".to_owned())),
        ),
    ];
    for (name, change) in &changes {
        for (by, wanted) in [
            (&impostor, TokenError::Signature),
            (&stranger, TokenError::UnknownKey),
        ] {
            let mut header = by.header();
            change(&mut header, by);
            let token = by.sign_with(&header, &claims());
            assert_eq!(verdict(&bearers, &token), Err(wanted), "{name}");
        }
        // They take nothing from a good token either.
        let mut header = signer.header();
        change(&mut header, &stranger);
        let token = signer.sign_with(&header, &claims());
        assert_eq!(verdict(&bearers, &token), Ok(()), "{name}");
    }
    let asked = listener.accept().map(|_| ());
    assert_eq!(
        asked.expect_err("nobody called").kind(),
        std::io::ErrorKind::WouldBlock
    );
}

#[test]
fn a_key_id_is_compared_and_nothing_else() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let long = "k".repeat(8000);
    for kid in [
        "",
        "K",
        "k ",
        " k",
        "k\u{0}",
        "../../../../dev/null",
        "/dev/null",
        "file:///etc/passwd",
        "k' OR '1'='1",
        "x'; DROP TABLE keys; --",
        "' UNION SELECT 'secret' --",
        "k|id",
        "$(id)",
        "http://127.0.0.1/k",
        "*",
        "\u{212a}",
        &long,
    ] {
        let mut header = signer.header();
        header.kid = Some(kid.to_owned());
        let token = signer.sign_with(&header, &claims());
        assert_eq!(
            verdict(&bearers, &token),
            Err(TokenError::UnknownKey),
            "{kid:.40}"
        );
    }
    let payload = part(&claims().to_string());
    for kid in [json!(7), json!(["k"]), json!({"k": "k"}), json!(true)] {
        let head = part(&json!({"alg": "EdDSA", "kid": kid}).to_string());
        let token = format!("{head}.{payload}.AA");
        assert_eq!(
            verdict(&bearers, &token),
            Err(TokenError::Malformed),
            "{kid}"
        );
    }
}

#[test]
fn huge_tokens_are_refused_before_anything_is_read() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let padded = |bytes: usize| signer.sign(&claims_but(&json!({"pad": "a".repeat(bytes)})));
    let fits = padded(11_000);
    assert!(fits.len() <= 16 * 1024);
    assert_eq!(verdict(&bearers, &fits), Ok(()));
    let signed = padded(13_000);
    assert!(signed.len() > 16 * 1024);
    assert_eq!(verdict(&bearers, &signed), Err(TokenError::TooLong));
    for token in [
        ".".repeat(1 << 20),
        "e30.".repeat(1 << 18),
        "\u{e9}".repeat(1 << 19),
    ] {
        assert_eq!(verdict(&bearers, &token), Err(TokenError::TooLong));
    }
    // JSON of a depth that would exhaust a stack, in either part.
    let deep = format!(
        "{{\"alg\":\"EdDSA\",\"kid\":\"k\",\"x\":{}",
        "[".repeat(5000)
    );
    let flat = part(&claims().to_string());
    for token in [
        format!("{}.{flat}.AA", part(&deep)),
        format!(
            "{}.{}.AA",
            part(&json!({"alg": "EdDSA", "kid": "k"}).to_string()),
            part(&"[".repeat(5000))
        ),
    ] {
        assert_eq!(verdict(&bearers, &token), Err(TokenError::Malformed));
    }
}

#[test]
fn what_is_named_twice_is_refused_though_signed() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let base = format!(
        r#""iss":"{ISSUER}","aud":"{AUDIENCE}","sub":"alice","exp":{}"#,
        NOW + 60
    );
    let good = signer.sign_text(r#"{"alg":"EdDSA","kid":"k"}"#, &format!("{{{base}}}"));
    assert_eq!(verdict(&bearers, &good), Ok(()));
    for twice in [
        r#""sub":"alice""#,
        r#""sub":"root""#,
        r#""s\u0075b":"root""#,
        r#""aud":"other""#,
        r#""iss":"https://elsewhere""#,
        r#""exp":9999999999"#,
        r#""roles":["user"],"roles":["admin"]"#,
        r#""realm_access":{"roles":["user"],"roles":["admin"]}"#,
        r#""groups":[{"a":1,"a":2}]"#,
    ] {
        for claims in [format!("{{{base},{twice}}}"), format!("{{{twice},{base}}}")] {
            let token = signer.sign_text(r#"{"alg":"EdDSA","kid":"k"}"#, &claims);
            assert_eq!(
                verdict(&bearers, &token),
                Err(TokenError::Malformed),
                "{claims}"
            );
            // It is no application's own token either, and must not reach a pod.
            assert!(bearers.claims_to_us(&token), "{claims}");
        }
    }
    for head in [
        r#"{"alg":"EdDSA","kid":"k","kid":"k"}"#,
        r#"{"alg":"none","kid":"k","alg":"EdDSA"}"#,
        r#"{"alg":"EdDSA","kid":"k","typ":"logout+jwt","typ":"JWT"}"#,
        r#"{"alg":"EdDSA","kid":"k","crit":["exp"],"crit":[]}"#,
        r#"{"alg":"EdDSA","kid":"k","x":1,"x":1}"#,
    ] {
        let token = signer.sign_text(head, &format!("{{{base}}}"));
        assert_eq!(
            verdict(&bearers, &token),
            Err(TokenError::Malformed),
            "{head}"
        );
        assert!(bearers.claims_to_us(&token), "{head}");
    }
}

#[test]
fn claims_of_the_wrong_type_neither_count_nor_stop_anything() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("x"),
        json!([]),
        json!([[]]),
        json!([null, 1]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    for name in ["iss", "aud", "sub"] {
        for value in odd
            .iter()
            .filter(|value| !(name == "sub" && **value == json!("x")))
        {
            let mut all = claims();
            all[name] = value.clone();
            assert!(
                verdict(&bearers, &signer.sign(&all)).is_err(),
                "{name}: {value}"
            );
        }
    }
    let number = |value: &Value| value.is_number();
    for name in ["exp", "nbf"] {
        for value in odd.iter().filter(|value| !number(value)) {
            let mut all = claims();
            all[name] = value.clone();
            assert_eq!(
                verdict(&bearers, &signer.sign(&all)),
                Err(TokenError::Malformed),
                "{name}: {value}"
            );
        }
    }
    assert_eq!(
        verdict(&bearers, &signer.sign(&claims_but(&json!({"exp": 1e300})))),
        Err(TokenError::Malformed)
    );
    assert_eq!(
        verdict(&bearers, &signer.sign(&claims_but(&json!({"exp": -1})))),
        Err(TokenError::Expired)
    );
    // The last second there is does not overflow into the past.
    for far in [json!(i64::MAX), json!(i64::MAX - 1)] {
        let token = signer.sign(&claims_but(&json!({ "exp": far })));
        assert_eq!(verdict(&bearers, &token), Ok(()), "{far}");
    }
    // Roles of another shape are none.
    for value in odd {
        let mut all = claims();
        all["roles"] = value.clone();
        let found = bearers
            .verify(&signer.sign(&all), NOW)
            .expect("a good token");
        assert!(!found.caller.is_admin(), "{value}");
    }
    for document in ["null", "[]", "7", "\"x\"", "", "{", "\u{feff}{}"] {
        let token = signer.sign_text(r#"{"alg":"EdDSA","kid":"k"}"#, document);
        assert_eq!(
            verdict(&bearers, &token),
            Err(TokenError::Malformed),
            "{document}"
        );
    }
}

#[test]
fn the_leeway_ends_to_the_second() {
    let signer = Signer::ed25519("k");
    let bearers = bearers(Keys::fixed(key_set(&[&signer])));
    let at = |claims: Value| verdict(&bearers, &signer.sign(&claims_but(&claims)));
    assert_eq!(at(json!({"exp": NOW - 29})), Ok(()));
    assert_eq!(at(json!({"exp": NOW - 30})), Err(TokenError::Expired));
    assert_eq!(at(json!({"exp": NOW - 31})), Err(TokenError::Expired));
    assert_eq!(at(json!({"nbf": NOW + 30})), Ok(()));
    assert_eq!(at(json!({"nbf": NOW + 31})), Err(TokenError::NotYetValid));
}
