//! Our own tokens: bound to a host, an hour and a kind.

use crate::support::{
    AUDIENCE, HOST, ISSUER, NOW, PUBLIC_URL, Signer, bearers, claims, key_set, public_keys,
    session, session_signer, sessions,
};
use nogoo9_identity::TokenError;
use nogoo9_identity::code::{Code, Codes, LoginState, is_nonce, new_nonce, nonce_hash};
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::SigningKey;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{Freshness, MAX_LEN, Session, SessionSigner, Sessions, SignError};
use nogoo9_model::access::Role;
use std::sync::Arc;

fn code(nonce: &str) -> Code {
    Code {
        host: HOST.to_owned(),
        nonce_hash: nonce_hash(nonce),
        session: session(),
    }
}

fn login() -> LoginState {
    LoginState {
        state: "state".to_owned(),
        nonce: "nonce".to_owned(),
        verifier: "verifier".to_owned(),
        return_to: "/somewhere?x=1".to_owned(),
    }
}

fn codes(signer: &SessionSigner) -> Codes {
    Codes::new(PUBLIC_URL, Keys::fixed(public_keys(&[signer])))
}

#[test]
fn a_session_says_who_it_is() {
    let signer = session_signer();
    let token = signer.sign_session(&session(), HOST, NOW).expect("a token");
    assert!(token.len() <= MAX_LEN);
    let found = sessions(&signer)
        .verify(&token, HOST, NOW)
        .expect("a session");
    assert_eq!(found.caller.sub, "alice");
    assert_eq!(found.caller.roles, ["user", "dev"]);
    assert_eq!(found.caller.role, Role::User);
    assert_eq!(found.sid.as_deref(), Some("s-1"));
    assert_eq!(found.expires, NOW + 3600);
}

#[test]
fn a_session_counts_on_its_host_until_its_end() {
    let signer = session_signer();
    let sessions = sessions(&signer);
    let token = signer
        .sign_session(&session(), "Dev.WS.example.org", NOW)
        .expect("a token");
    let verdict = |host: &str, now| sessions.verify(&token, host, now).map(|_| ());
    // Twice: the second comes from the cache and must not be any more lenient.
    for _ in 0..2 {
        assert_eq!(verdict(HOST, NOW), Ok(()));
        assert_eq!(verdict("DEV.ws.example.org", NOW), Ok(()));
        assert_eq!(
            verdict("other.ws.example.org", NOW),
            Err(TokenError::WrongAudience)
        );
        assert_eq!(
            verdict("dev.ws.example.org:8443", NOW),
            Err(TokenError::WrongAudience)
        );
        assert_eq!(verdict("", NOW), Err(TokenError::WrongAudience));
        assert_eq!(verdict(HOST, NOW + 3599), Ok(()));
        assert_eq!(verdict(HOST, NOW - 61), Err(TokenError::NotYetValid));
    }
    assert_eq!(verdict(HOST, NOW + 3600), Err(TokenError::Expired));
}

#[test]
fn a_session_of_another_key_or_edge_does_not_count() {
    let (signer, other) = (session_signer(), session_signer());
    let token = other.sign_session(&session(), HOST, NOW).expect("a token");
    assert_eq!(
        sessions(&signer).verify(&token, HOST, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    let elsewhere = Sessions::new(
        "https://other.example.org/",
        Arc::new(ClaimPolicy::default()),
        Keys::fixed(public_keys(&[&other])),
    );
    assert_eq!(
        elsewhere.verify(&token, HOST, NOW).map(|_| ()),
        Err(TokenError::WrongIssuer)
    );
    let none = Sessions::new(
        PUBLIC_URL,
        Arc::new(ClaimPolicy::default()),
        Keys::fixed(nogoo9_identity::keyset::KeySet::default()),
    );
    assert_eq!(
        none.verify(&token, HOST, NOW).map(|_| ()),
        Err(TokenError::KeysUnavailable)
    );
}

#[test]
fn the_last_slash_of_the_public_url_decides_nothing() {
    let key = || SigningKey::generate().expect("a key");
    for (signs, verifies) in [("https://x", "https://x/"), ("https://x/", "https://x")] {
        let signer = SessionSigner::new(key(), signs);
        let keys = Keys::fixed(public_keys(&[&signer]));
        let sessions = Sessions::new(verifies, Arc::new(ClaimPolicy::default()), keys.clone());
        let token = signer.sign_session(&session(), HOST, NOW).expect("a token");
        assert!(sessions.verify(&token, HOST, NOW).is_ok());
        let nonce = new_nonce().expect("a nonce");
        let token = signer.sign_code(&code(&nonce), NOW).expect("a code");
        let codes = Codes::new(verifies, keys);
        assert!(codes.redeem(&token, HOST, &nonce, NOW).is_ok());
    }
}

#[test]
fn a_new_key_beside_the_old_one_takes_over() {
    let (old, new) = (session_signer(), session_signer());
    let keys = Keys::fixed(public_keys(&[&old]));
    let sessions = Sessions::new(PUBLIC_URL, Arc::new(ClaimPolicy::default()), keys.clone());
    let by_old = old.sign_session(&session(), HOST, NOW).expect("a token");
    let by_new = new.sign_session(&session(), HOST, NOW).expect("a token");
    keys.replace(public_keys(&[&old, &new]));
    assert!(sessions.verify(&by_old, HOST, NOW).is_ok());
    assert!(sessions.verify(&by_new, HOST, NOW).is_ok());
    keys.replace(public_keys(&[&new]));
    assert_eq!(
        sessions.verify(&by_old, HOST, NOW).map(|_| ()),
        Err(TokenError::UnknownKey)
    );
    assert!(sessions.verify(&by_new, HOST, NOW).is_ok());
}

#[test]
fn one_kind_of_token_is_never_taken_for_another() {
    let signer = session_signer();
    let nonce = new_nonce().expect("a nonce");
    let as_session = signer.sign_session(&session(), HOST, NOW).expect("a token");
    let as_code = signer.sign_code(&code(&nonce), NOW).expect("a token");
    let as_login = signer.sign_login(&login(), NOW).expect("a token");
    // The provider's own key, were it published among ours, would not help either.
    let provider = Signer::ed25519("provider");
    let as_access = provider.sign(&claims());

    let (sessions, codes) = (sessions(&signer), codes(&signer));
    for token in [&as_code, &as_login, &as_access] {
        assert_eq!(
            sessions.verify(token, HOST, NOW).map(|_| ()),
            Err(TokenError::WrongType)
        );
    }
    for token in [&as_session, &as_login, &as_access] {
        assert_eq!(
            codes.redeem(token, HOST, &nonce, NOW).map(|_| ()),
            Err(TokenError::WrongType)
        );
    }
    for token in [&as_session, &as_code, &as_access] {
        assert_eq!(
            codes.login(token, NOW).map(|_| ()),
            Err(TokenError::WrongType)
        );
    }
    let bearers = bearers(Keys::fixed(key_set(&[&provider])));
    for token in [&as_session, &as_code, &as_login] {
        assert!(!bearers.claims_to_us(token));
        assert_eq!(
            bearers.verify(token, NOW).map(|_| ()),
            Err(TokenError::WrongType)
        );
    }
    assert_ne!(ISSUER, PUBLIC_URL);
    assert_ne!(AUDIENCE, HOST);
}

#[test]
fn roles_that_do_not_fit_are_left_off_from_the_end() {
    let signer = session_signer();
    let roles: Vec<String> = std::iter::once("user".to_owned())
        .chain((0..31).map(|n| format!("{n:02}-{}", "x".repeat(100))))
        .collect();
    let many = Session {
        roles: roles.clone(),
        ..session()
    };
    let token = signer.sign_session(&many, HOST, NOW).expect("a token");
    assert!(token.len() <= MAX_LEN);
    let found = sessions(&signer)
        .verify(&token, HOST, NOW)
        .expect("a session");
    let kept = &found.caller.roles;
    assert!(!kept.is_empty() && kept.len() < roles.len());
    assert_eq!(kept[..], roles[..kept.len()]);
    // The longest subject fits; a host beyond all names does not.
    let long = Session {
        sub: "s".repeat(255),
        ..many
    };
    assert!(signer.sign_session(&long, HOST, NOW).is_ok());
    assert_eq!(
        signer.sign_session(&long, &"h".repeat(900), NOW),
        Err(SignError::TooLong)
    );
}

#[test]
fn three_hundred_groups_do_not_grow_the_cookie() {
    let policy = ClaimPolicy {
        roles_claim: "groups".to_owned(),
        ..ClaimPolicy::default()
    };
    let groups: Vec<String> = (0..300)
        .map(|n| format!("/company/department-{n:03}/everybody"))
        .chain(["admin".to_owned()])
        .collect();
    let claims = serde_json::json!({ "groups": groups });
    let roles = policy.roles(claims.as_object().expect("an object"));
    let signer = session_signer();
    let of_many = Session { roles, ..session() };
    let token = signer.sign_session(&of_many, HOST, NOW).expect("a token");
    assert!(token.len() <= MAX_LEN);
    let found = sessions(&signer)
        .verify(&token, HOST, NOW)
        .expect("a session");
    // The last of them all is the one that means something here.
    assert_eq!(
        found.caller.roles.first().map(String::as_str),
        Some("admin")
    );
    assert!(found.caller.is_admin());
}

#[test]
fn a_code_is_for_one_host_one_browser_and_one_minute() {
    let signer = session_signer();
    let codes = codes(&signer);
    let (nonce, other) = (new_nonce().expect("a nonce"), new_nonce().expect("a nonce"));
    let token = signer.sign_code(&code(&nonce), NOW).expect("a code");
    assert_eq!(codes.redeem(&token, HOST, &nonce, NOW), Ok(session()));
    assert_eq!(
        codes.redeem(&token, "DEV.ws.example.org", &nonce, NOW + 59),
        Ok(session())
    );
    let table = [
        (HOST, nonce.as_str(), NOW + 60, TokenError::Expired),
        (
            "evil.ws.example.org",
            &nonce,
            NOW,
            TokenError::WrongAudience,
        ),
        (HOST, &other, NOW, TokenError::WrongNonce),
        (HOST, "", NOW, TokenError::WrongNonce),
        // Its own hash is in the code for all to read, and is no nonce.
        (HOST, &nonce_hash(&nonce), NOW, TokenError::WrongNonce),
    ];
    for (host, nonce, now, wanted) in table {
        assert_eq!(
            codes.redeem(&token, host, nonce, now),
            Err(wanted),
            "{host} {nonce} {now}"
        );
    }
    let ended = Code {
        session: Session {
            expires: NOW,
            ..session()
        },
        ..code(&nonce)
    };
    let token = signer.sign_code(&ended, NOW).expect("a code");
    assert_eq!(
        codes.redeem(&token, HOST, &nonce, NOW),
        Err(TokenError::Expired)
    );
}

#[test]
fn a_login_state_lasts_ten_minutes() {
    let signer = session_signer();
    let codes = codes(&signer);
    let token = signer.sign_login(&login(), NOW).expect("a token");
    assert_eq!(codes.login(&token, NOW + 599), Ok(login()));
    assert_eq!(codes.login(&token, NOW + 600), Err(TokenError::Expired));
    let foreign = session_signer().sign_login(&login(), NOW).expect("a token");
    assert_eq!(codes.login(&foreign, NOW), Err(TokenError::UnknownKey));
    let shown = format!("{:?}", login());
    assert!(
        !shown.contains("verifier") && !shown.contains("\"nonce\""),
        "{shown}"
    );
}

#[test]
fn nonces_are_long_and_never_the_same() {
    let (one, two) = (new_nonce().expect("a nonce"), new_nonce().expect("a nonce"));
    assert_ne!(one, two);
    assert!(is_nonce(&one) && is_nonce(&two));
    for not in [
        "",
        "short",
        &"a".repeat(44),
        &"=".repeat(43),
        &"ü".repeat(21),
    ] {
        assert!(!is_nonce(not), "{not}");
    }
    assert_eq!(
        nonce_hash("abc"),
        "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"
    );
}

#[test]
fn a_token_says_until_when_it_counts_by_itself() {
    let signer = session_signer();
    let sessions = sessions(&signer);
    let fresh = |at| Session {
        fresh_until: Some(at),
        ..session()
    };
    let token = signer
        .sign_session(&fresh(NOW + 900), HOST, NOW)
        .expect("a token");
    let found = sessions.verify(&token, HOST, NOW).expect("a session");
    for (at, wanted) in [
        (0, Freshness::Fresh),
        (599, Freshness::Fresh),
        (600, Freshness::Due),
        (899, Freshness::Due),
        (900, Freshness::Stale),
        (3599, Freshness::Stale),
    ] {
        assert_eq!(found.freshness(NOW + at), wanted, "{at}");
    }
    // Stale is not over: control may say that it goes on. Over is over.
    assert!(sessions.verify(&token, HOST, NOW + 3599).is_ok());
    assert_eq!(
        sessions.verify(&token, HOST, NOW + 3600).map(|_| ()),
        Err(TokenError::Expired)
    );
    // Never beyond the session's end.
    let token = signer
        .sign_session(&fresh(NOW + 9000), HOST, NOW)
        .expect("a token");
    let found = sessions.verify(&token, HOST, NOW).expect("a session");
    assert_eq!(found.fresh_until, Some(NOW + 3600));
    // One of an earlier version counts until it ends.
    let token = signer.sign_session(&session(), HOST, NOW).expect("a token");
    let found = sessions.verify(&token, HOST, NOW).expect("a session");
    assert_eq!(found.fresh_until, None);
    assert_eq!(found.freshness(NOW + 3599), Freshness::Fresh);
}
