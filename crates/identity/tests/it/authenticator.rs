//! The front door: which of several proofs counts, and what is left for the pod.

use crate::support::{
    HOST, NOW, Signer, authenticator, claims, claims_but, session, session_signer,
};
use data_encoding::{BASE64, BASE64URL};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use nogoo9_identity::session::Session;
use nogoo9_identity::{Authenticated, TokenError, Via};
use nogoo9_model::origins::AllowedOrigins;
use serde_json::json;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, HeaderValue::from_str(value).expect("a header value"));
    }
    map
}

fn who(found: Option<Authenticated>) -> Option<(String, Via)> {
    found.map(|found| (found.caller().sub.clone(), found.via))
}

#[test]
fn who_is_calling() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let bob = format!(
        "bearer {}",
        provider.sign(&claims_but(&json!({"sub": "bob"})))
    );
    let expired = format!("Bearer {}", provider.sign(&claims_but(&json!({"exp": 0}))));
    let alice = format!(
        "__Host-nogoo9={}",
        signer.sign_session(&session(), HOST, NOW).expect("a token")
    );
    let ended = Session {
        expires: NOW,
        ..session()
    };
    let ended = format!(
        "__Host-nogoo9={}",
        signer.sign_session(&ended, HOST, NOW).expect("a token")
    );
    let elsewhere = signer
        .sign_session(&session(), "other.ws.example.org", NOW)
        .expect("a token");
    let elsewhere = format!("__Host-nogoo9={elsewhere}");
    let unprefixed = alice.replace("__Host-", "");
    let planted = format!("__Host-nogoo9=x; {alice}");

    let by_cookie = Ok(Some(("alice".to_owned(), Via::Cookie)));
    let by_bearer = Ok(Some(("bob".to_owned(), Via::Bearer)));
    type Row<'a> = (&'static str, Vec<(&'static str, &'a str)>, Verdict);
    type Verdict = Result<Option<(String, Via)>, TokenError>;
    let table: Vec<Row<'_>> = vec![
        ("nothing", vec![], Ok(None)),
        ("cookie", vec![("cookie", &alice)], by_cookie.clone()),
        ("bearer", vec![("authorization", &bob)], by_bearer.clone()),
        (
            "both",
            vec![("cookie", &alice), ("authorization", &bob)],
            by_bearer,
        ),
        ("cookie that ended", vec![("cookie", &ended)], Ok(None)),
        (
            "cookie of another host",
            vec![("cookie", &elsewhere)],
            Ok(None),
        ),
        (
            "cookie without the prefix",
            vec![("cookie", &unprefixed)],
            Ok(None),
        ),
        (
            "junk beside the cookie",
            vec![("cookie", &planted)],
            by_cookie.clone(),
        ),
        (
            "cookie, sibling's fetch",
            vec![("cookie", &alice), ("sec-fetch-site", "same-site")],
            Ok(None),
        ),
        (
            "expired bearer",
            vec![("authorization", &expired)],
            Err(TokenError::Expired),
        ),
        (
            "expired bearer, good cookie",
            vec![("authorization", &expired), ("cookie", &alice)],
            Err(TokenError::Expired),
        ),
        (
            "two bearers",
            vec![("authorization", &bob), ("authorization", &bob)],
            Err(TokenError::Malformed),
        ),
        (
            "personal token",
            vec![("authorization", "Bearer ng9_x")],
            Err(TokenError::Malformed),
        ),
        (
            "the application's own",
            vec![("authorization", "Basic eDp5"), ("cookie", &alice)],
            by_cookie,
        ),
        (
            "the application's alone",
            vec![("authorization", "Bearer opaque")],
            Ok(None),
        ),
    ];
    for (name, pairs, wanted) in table {
        let found = door.authenticate(&Method::GET, &headers(&pairs), HOST, NOW);
        assert_eq!(found.map(who), wanted, "{name}");
    }
    let posted = headers(&[("cookie", &alice)]);
    assert_eq!(
        door.authenticate(&Method::POST, &posted, HOST, NOW),
        Ok(None)
    );
}

#[test]
fn a_session_is_found_among_planted_ones_and_forty_of_the_applications() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let token = |session: &Session, host: &str| {
        let token = signer.sign_session(session, host, NOW).expect("a token");
        format!("__Host-nogoo9={token}")
    };
    let own = token(&session(), HOST);
    // Of another host, of a session that is over, and of nobody.
    let replayed = token(&session(), "other.ws.example.org");
    let over = Session {
        expires: NOW - 1,
        ..session()
    };
    let over = token(&over, HOST);
    let apps: Vec<String> = (0..40).map(|n| format!("app{n}=\"v={n}\"")).collect();
    let planted = format!("{replayed}; {over}; __Host-nogoo9=x");
    let around = format!("{}; {planted}; {own}", apps.join("; "));
    let mut map = headers(&[("cookie", &around)]);
    let found = door.authenticate(&Method::GET, &map, HOST, NOW);
    assert_eq!(found.map(who), Ok(Some(("alice".to_owned(), Via::Cookie))));
    door.strip(&mut map);
    assert_eq!(map[COOKIE], apps.join("; "));
    // Without the one that is this host's, the planted ones are nobody.
    let map = headers(&[("cookie", &planted)]);
    assert_eq!(door.authenticate(&Method::GET, &map, HOST, NOW), Ok(None));
}

#[test]
fn a_pod_sees_none_of_ours_and_all_of_its_own() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let ours = format!("BEARER  {}", provider.sign(&claims_but(&json!({"exp": 0}))));
    let theirs = format!(
        "Bearer {}",
        provider.sign(&claims_but(&json!({"aud": "app"})))
    );
    let mut map = headers(&[
        ("authorization", &ours),
        ("authorization", &theirs),
        ("authorization", "Bearer ng9_x"),
        ("authorization", "token ng9_x"),
        ("authorization", "ng9_x"),
        ("authorization", "Basic eDp5"),
        ("cookie", "a=1; __Host-nogoo9=t"),
        ("cookie", "nogoo9-nonce=n"),
        ("cookie", "b=2 ;c=3"),
        ("x-other", "1"),
        ("x-other", "2"),
    ]);
    door.strip(&mut map);
    let left = |name: http::HeaderName| {
        map.get_all(name)
            .iter()
            .map(|v| v.to_str().expect("ASCII").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(left(AUTHORIZATION), [theirs.as_str(), "Basic eDp5"]);
    assert_eq!(left(COOKIE), ["a=1", "b=2 ;c=3"]);
    assert_eq!(left(http::HeaderName::from_static("x-other")), ["1", "2"]);

    let mut map = headers(&[("authorization", &ours), ("cookie", "nogoo9=t")]);
    door.strip(&mut map);
    assert!(map.is_empty(), "{map:?}");
}

#[test]
fn a_token_in_a_name_or_password_proves_nothing_and_reaches_no_pod() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let jwt = provider.sign(&claims());
    let personal = "ng9_abcdefghijklmnopqrstuvwxyz234567";
    let ours = [
        format!("git:{personal}"),
        format!("{personal}:x-oauth-basic"),
        format!("{personal}:"),
        personal.to_owned(),
        format!("__token__:{jwt}"),
        format!("{jwt}:"),
    ];
    for text in ours {
        let padded = BASE64.encode(text.as_bytes());
        let bare = padded.trim_end_matches('=');
        for credential in [
            format!("Basic {padded}"),
            format!("basic\t{bare} "),
            format!("BASIC  {}", BASE64URL.encode(text.as_bytes())),
        ] {
            let mut map = headers(&[("authorization", &credential)]);
            assert_eq!(
                door.authenticate(&Method::GET, &map, HOST, NOW),
                Ok(None),
                "{text}"
            );
            assert_eq!(door.personal_token(&map), None, "{text}");
            door.strip(&mut map);
            assert!(map.is_empty(), "{credential}: {map:?}");
        }
    }
    // The application's own: names, passwords and other issuers' tokens.
    let theirs = provider.sign(&claims_but(&json!({"aud": "app"})));
    for text in ["a:b", ":", "", "ng9:x", "x:a ng9_y", &format!("x:{theirs}")] {
        let credential = format!("Basic {}", BASE64.encode(text.as_bytes()));
        let mut map = headers(&[("authorization", &credential)]);
        door.strip(&mut map);
        assert_eq!(map[AUTHORIZATION], credential.as_str(), "{text}");
    }
    for odd in ["Basic", "Basic !", "Basic \t", "Basic YTpi YTpi"] {
        let mut map = headers(&[("authorization", odd)]);
        door.strip(&mut map);
        assert_eq!(map[AUTHORIZATION], odd);
    }
}

#[test]
fn pages_of_allowed_origins_may_use_a_session_and_no_others() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let token = signer.sign_session(&session(), HOST, NOW).expect("a token");
    let cookie = format!("__Host-nogoo9={token}");
    let allowed = AllowedOrigins::parse(Some("https://docs.ws.example.org"));
    let ask = |method: &Method, pairs: &[(&'static str, &str)], allowed: &AllowedOrigins| {
        let mut pairs = pairs.to_vec();
        pairs.push(("cookie", &cookie));
        let found = door.authenticate_for(method, &headers(&pairs), HOST, allowed, NOW);
        found.expect("no bearer").is_some()
    };
    let docs = ("origin", "https://docs.ws.example.org");
    let socket = [("sec-fetch-site", "same-site"), ("upgrade", "websocket")];
    for (pairs, counts) in [
        (vec![docs], true),
        (vec![docs, ("sec-fetch-site", "same-site")], true),
        (vec![docs, socket[0], socket[1]], true),
        (vec![("origin", "https://evil.ws.example.org")], false),
        (vec![docs, docs], false),
        (vec![("origin", "null")], false),
        (vec![("sec-fetch-site", "same-site")], false),
        (vec![("referer", "https://docs.ws.example.org/")], false),
        // Its own pages as ever.
        (vec![("sec-fetch-site", "same-origin")], true),
    ] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(ask(&method, &pairs, &allowed), counts, "{method} {pairs:?}");
        }
        let without = ask(&Method::POST, &pairs, &AllowedOrigins::NONE);
        assert_eq!(without, counts && !pairs.contains(&docs), "{pairs:?}");
    }
}

#[tokio::test]
async fn waiting_for_keys_changes_nothing_for_tokens_that_verify() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let bearer = format!("Bearer {}", provider.sign(&claims()));
    let map = headers(&[("authorization", &bearer)]);
    let found = door
        .authenticate_async(&Method::POST, &map, HOST, NOW)
        .await;
    assert_eq!(found.map(who), Ok(Some(("alice".to_owned(), Via::Bearer))));
}

#[test]
fn tokens_in_queries() {
    let (provider, signer) = (Signer::ed25519("k"), session_signer());
    let door = authenticator(&provider, &signer);
    let ours = provider.sign(&claims());
    let expired = provider.sign(&claims_but(&json!({"exp": 0})));
    let theirs = provider.sign(&claims_but(&json!({"aud": "another"})));
    for (query, held) in [
        (format!("access_token={ours}"), true),
        (format!("a=b&Access_Token={expired}&c"), true),
        (format!("access%5Ftoken={}", ours.replace('.', "%2E")), true),
        ("access_token=x&access_token=ng9_abc".to_owned(), true),
        ("access_token=+ng9_abc".to_owned(), true),
        (format!("access_token={theirs}"), false),
        ("access_token=opaque".to_owned(), false),
        ("access_token".to_owned(), false),
        (format!("token={ours}"), false),
        (String::new(), false),
    ] {
        assert_eq!(door.holds_token(Some(&query)), held, "{query}");
    }
    assert!(!door.holds_token(None));
}
