//! Cookies and claims that are more, or other, than an honest browser or provider has.

use crate::browser::{Answer, Browser, CONSOLE, WORKSPACE, config, param, path_of};
use crate::provider::Provider;
use axum::http::StatusCode;
use nogoo9_control::login::LoginConfig;
use nogoo9_identity::session::MAX_LEN;
use nogoo9_model::access::Role;
use serde_json::json;

/// Sends a request with exactly this `Cookie` header.
async fn with_cookies(browser: &mut Browser, host: &str, path: &str, cookies: &str) -> Answer {
    let kept = browser.cookies.clone();
    browser.cookies.clear();
    let answer = browser
        .send("GET", host, path, &[("cookie", cookies)])
        .await;
    browser.cookies = kept;
    answer
}

#[tokio::test]
async fn three_hundred_groups_do_not_grow_the_cookie() {
    let provider = Provider::start().await;
    let named = |groups: usize| {
        let mut roles: Vec<String> = (0..groups)
            .map(|n| format!("department-of-useful-things/team-{n:03}"))
            .collect();
        // The one that counts comes last.
        roles.push("admin".to_owned());
        roles
    };
    let mut sizes = Vec::new();
    for groups in [0, 3, 300, 2000] {
        let roles = named(groups);
        provider.whims(|whims| whims.claims = Some(json!({"realm_access": {"roles": roles}})));
        let mut browser = Browser::new(config(&provider.issuer)).await;
        browser.sign_in(&provider, "/auth/login").await.location();
        let open = browser.meet(WORKSPACE, "/");
        let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
        let there = browser.get(WORKSPACE, &path_of(&to_workspace)).await;
        assert_eq!(there.location(), "/", "{groups}");
        for host in [CONSOLE, WORKSPACE] {
            let length = browser.token(host).len();
            assert!(length <= MAX_LEN, "{groups}: {length} bytes on {host}");
            let found = browser.session(host).expect("a session");
            assert_eq!(found.caller.role, Role::Admin, "{groups}");
            assert!(found.caller.roles.contains(&"admin".to_owned()), "{groups}");
            sizes.push((groups, length));
        }
    }
    // Some of them travel, and never more of them.
    let of = |groups: usize| sizes.iter().filter(move |(of, _)| *of == groups);
    let longest = |groups: usize| of(groups).map(|(_, length)| *length).max();
    assert!(
        longest(0) < longest(3) && longest(3) < longest(300),
        "{sizes:?}"
    );
    assert_eq!(longest(300), longest(2000), "{sizes:?}");
}

#[tokio::test]
async fn planted_cookies_lead_nowhere_and_push_ours_out_of_nothing() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let own = format!("nogoo9={}", browser.token(CONSOLE));
    let open = browser.meet(WORKSPACE, "/here");
    let nonce = browser.cookies[WORKSPACE]["nogoo9-nonce"].clone();
    let planted: Vec<String> = (0..20).map(|n| format!("nogoo9=x{n}")).collect();
    let planted = planted.join("; ");

    // The console's session counts among planted ones, and they alone are nobody.
    let before = format!("{planted}; {own}; nogoo9=late");
    let answer = with_cookies(&mut browser, CONSOLE, &open, &before).await;
    let to_workspace = answer.location().to_owned();
    assert!(
        to_workspace.contains("/.nogoo9/login?code="),
        "{to_workspace}"
    );
    let answer = with_cookies(&mut browser, CONSOLE, &open, &planted).await;
    assert!(answer.location().starts_with("/auth/login?"));
    // So do the nonces of a hand-over.
    let path = path_of(&to_workspace);
    let others: Vec<String> = (0..20).map(|n| format!("nogoo9-nonce=x{n}")).collect();
    let others = others.join("; ");
    let answer = with_cookies(&mut browser, WORKSPACE, &path, &others).await;
    answer.assert_page(StatusCode::BAD_REQUEST, "/here");
    assert!(!answer.headers.contains_key("set-cookie"));
    let among = format!("{others}; nogoo9-nonce={nonce}");
    let answer = with_cookies(&mut browser, WORKSPACE, &path, &among).await;
    assert_eq!(answer.location(), "/here");
    // The session of another host is none here, and gets nothing handed over.
    let elsewhere = browser.signer();
    let session = browser.session(CONSOLE).expect("a session");
    let elsewhere = elsewhere.sign_session(
        &nogoo9_identity::session::Session {
            sub: session.caller.sub.clone(),
            roles: session.caller.roles.clone(),
            sid: session.sid.clone().expect("an id"),
            expires: session.expires,
            fresh_until: session.fresh_until,
        },
        WORKSPACE,
        browser.now(),
    );
    let elsewhere = format!("nogoo9={}", elsewhere.expect("a token"));
    let answer = with_cookies(&mut browser, CONSOLE, &open, &elsewhere).await;
    assert!(answer.location().starts_with("/auth/login?"));
}

#[tokio::test]
async fn a_hand_over_code_opens_once() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let open = browser.meet(WORKSPACE, "/here");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    let path = path_of(&to_workspace);
    assert_eq!(browser.get(WORKSPACE, &path).await.location(), "/here");
    // The nonce went with it. Signed out there, the same link opens nothing any more.
    let jar = browser.cookies.entry(WORKSPACE.to_owned()).or_default();
    assert_eq!(jar.keys().collect::<Vec<_>>(), ["nogoo9"]);
    jar.clear();
    let again = browser.get(WORKSPACE, &path).await;
    again.assert_page(StatusCode::BAD_REQUEST, "/here");
    assert!(browser.session(WORKSPACE).is_none());
    // Nor does it with the nonce of the next visit: that begins anew.
    let next = browser.meet(WORKSPACE, "/here");
    let again = browser.get(WORKSPACE, &path).await;
    assert_eq!(again.location(), "/here");
    assert!(!again.headers.contains_key("set-cookie"));
    assert!(browser.session(WORKSPACE).is_none());
    // While that one's own code does.
    assert_eq!(param(&next, "host"), WORKSPACE);
    let to_workspace = browser.get(CONSOLE, &next).await.location().to_owned();
    let there = browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    assert_eq!(there.location(), "/here");
}

#[tokio::test]
async fn path_mode_gets_sessions_of_its_own() {
    const PATHS: &str = "paths.example.net:9009";
    let provider = Provider::start().await;
    let mut browser = Browser::new(LoginConfig {
        path_host: Some(PATHS.to_owned()),
        ..config(&provider.issuer)
    })
    .await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let open = browser.meet(PATHS, "/route/dev/files?a=1");
    let to_paths = browser.get(CONSOLE, &open).await.location().to_owned();
    let at = "http://paths.example.net:9009/.nogoo9/login?";
    assert!(to_paths.starts_with(at), "{to_paths}");
    let there = browser.get(PATHS, &path_of(&to_paths)).await;
    assert_eq!(there.location(), "/route/dev/files?a=1");
    assert!(browser.session(PATHS).is_some());
    // What pages there could carry off counts nowhere else.
    let token = browser.token(PATHS);
    for host in [CONSOLE, WORKSPACE] {
        assert!(
            browser.verify(&token, host, browser.now()).is_none(),
            "{host}"
        );
    }
    // And a host that is merely like it gets none.
    for host in [
        "paths.example.net",
        "x.paths.example.net:9009",
        "PATHS.example.net:9009",
    ] {
        let open = browser.meet(host, "/");
        let answer = browser.get(CONSOLE, &open).await;
        answer.assert_page(StatusCode::BAD_REQUEST, "/");
    }
}
