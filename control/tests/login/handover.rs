//! From the console's host to a workspace's, and to no other.

use crate::browser::{Browser, CONSOLE, HOUR, WORKSPACE, config, param, path_of};
use crate::provider::Provider;
use axum::http::StatusCode;
use nogoo9_identity::code::new_nonce;
use std::sync::Arc;

async fn signed_in() -> (Arc<Provider>, Browser) {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    (provider, browser)
}

#[tokio::test]
async fn somebody_new_opens_a_workspace() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let open = browser.meet(WORKSPACE, "/files?a=1&b=2");
    // Not signed in: to the provider, and from there on with the hand-over.
    let to_login = browser.get(CONSOLE, &open).await.location().to_owned();
    let to_open = browser
        .sign_in(&provider, &to_login)
        .await
        .location()
        .to_owned();
    assert!(to_open.starts_with("/auth/open?"), "{to_open}");
    let to_workspace = browser.get(CONSOLE, &to_open).await.location().to_owned();
    assert!(
        to_workspace.starts_with("http://dev.localhost:9009/.nogoo9/login?"),
        "{to_workspace}"
    );
    let there = browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    assert_eq!(there.location(), "/files?a=1&b=2");

    let (console, workspace) = (
        browser.session(CONSOLE).expect("a session"),
        browser.session(WORKSPACE).expect("a session"),
    );
    assert_eq!(workspace.caller, console.caller);
    assert_eq!(
        (&workspace.sid, workspace.expires),
        (&console.sid, console.expires)
    );
    // One nonce, one use.
    assert_eq!(
        browser.cookies[WORKSPACE].keys().collect::<Vec<_>>(),
        ["nogoo9"]
    );
    // The workspace's cookie is worth nothing on any other host.
    let stolen = browser.cookies[WORKSPACE]["nogoo9"].clone();
    for host in [CONSOLE, "other.localhost:9009"] {
        browser
            .cookies
            .entry(host.to_owned())
            .or_default()
            .insert("nogoo9".to_owned(), stolen.clone());
        assert!(browser.session(host).is_none(), "{host}");
    }
}

#[tokio::test]
async fn a_handed_over_session_never_outlives_its_origin() {
    let (_provider, mut browser) = signed_in().await;
    browser.stop_the_clock();
    browser.wait(HOUR - 30);
    let open = browser.meet(WORKSPACE, "/");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    let there = browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    assert_eq!(there.location(), "/");
    let set = there.headers["set-cookie"].to_str().expect("ASCII");
    let life: i64 = set
        .split("Max-Age=")
        .nth(1)
        .and_then(|s| s.split(';').next())
        .expect("a life")
        .parse()
        .expect("a number");
    assert!((0..=30).contains(&life), "{set}");
    browser.wait(30);
    assert!(browser.session(WORKSPACE).is_none());
}

#[tokio::test]
async fn tabs_that_open_at_once_all_get_there() {
    let (_provider, mut browser) = signed_in().await;
    // The proxy keeps the nonce of the first, so both codes name the same.
    let first = browser.meet(WORKSPACE, "/one");
    let second = first.replace("%2Fone", "%2Ftwo");
    let mut ways = Vec::new();
    for open in [&first, &second] {
        ways.push(path_of(browser.get(CONSOLE, open).await.location()));
    }
    assert_eq!(browser.get(WORKSPACE, &ways[0]).await.location(), "/one");
    let session = browser.session(WORKSPACE);
    assert!(session.is_some());
    assert_eq!(browser.get(WORKSPACE, &ways[1]).await.location(), "/two");
    assert_eq!(browser.session(WORKSPACE), session);
}

#[tokio::test]
async fn tabs_that_overwrite_each_others_nonce_all_get_there() {
    let (_provider, mut browser) = signed_in().await;
    // The proxy saw no nonce of either yet, and the browser keeps the one that it is given last.
    let mut ways = Vec::new();
    for place in ["/one", "/two"] {
        browser.cookies.remove(WORKSPACE);
        let open = browser.meet(WORKSPACE, place);
        ways.push(path_of(browser.get(CONSOLE, &open).await.location()));
    }
    assert_eq!(browser.get(WORKSPACE, &ways[0]).await.location(), "/one");
    assert!(browser.session(WORKSPACE).is_none());
    // There the proxy begins anew.
    let open = browser.meet(WORKSPACE, "/one");
    let way = path_of(browser.get(CONSOLE, &open).await.location());
    assert_eq!(browser.get(WORKSPACE, &way).await.location(), "/one");
    assert!(browser.session(WORKSPACE).is_some());
    assert_eq!(browser.get(WORKSPACE, &ways[1]).await.location(), "/two");
}

#[tokio::test]
async fn hosts_that_no_workspace_can_have() {
    let (_provider, mut browser) = signed_in().await;
    let good = browser.meet(WORKSPACE, "/");
    let hash = param(&good, "n");
    for host in [
        "",
        "localhost:9009",
        ".localhost:9009",
        "dev.localhost",
        "dev.localhost:9010",
        "DEV.localhost:9009",
        "a.b.localhost:9009",
        "-a.localhost:9009",
        "a--b--c.localhost:9009",
        "--b.localhost:9009",
        "xn--b.localhost:9009",
        "evil.example",
        "evil.example/.localhost:9009",
        "evil.example%2523.localhost:9009",
        "user@dev.localhost:9009",
        "dev.localhost:9009/",
        "devlocalhost:9009",
        "dev.localhost:9009.evil.example",
    ] {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("host", host), ("return", "/"), ("n", &hash)])
            .finish();
        let answer = browser.get(CONSOLE, &format!("/auth/open?{query}")).await;
        answer.assert_page(StatusCode::BAD_REQUEST, "/");
    }
    for hash in ["", "short", &"a".repeat(44), "%3Cscript%3E"] {
        let answer = browser
            .get(
                CONSOLE,
                &format!("/auth/open?host={WORKSPACE}&return=/&n={hash}"),
            )
            .await;
        answer.assert_page(StatusCode::BAD_REQUEST, "/");
    }
    browser
        .get(CONSOLE, "/auth/open")
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/");
}

#[tokio::test]
async fn codes_that_do_not_count() {
    let (_provider, mut browser) = signed_in().await;
    browser.stop_the_clock();
    let open = browser.meet(WORKSPACE, "/files");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    let path = path_of(&to_workspace);
    let nonce = browser.cookies[WORKSPACE]["nogoo9-nonce"].clone();

    // On another workspace's host, even with the nonce.
    let other = "other.localhost:9009";
    let jar = browser.cookies.entry(other.to_owned()).or_default();
    jar.insert("nogoo9-nonce".to_owned(), nonce.clone());
    browser
        .get(other, &path)
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/files");
    assert!(browser.session(other).is_none());
    // On the console's own.
    let jar = browser.cookies.entry(CONSOLE.to_owned()).or_default();
    jar.insert("nogoo9-nonce".to_owned(), nonce.clone());
    browser
        .get(CONSOLE, &path)
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/files");

    // In a browser without the nonce, or with what is none.
    for planted in [None, Some("none".to_owned())] {
        let jar = browser.cookies.entry(WORKSPACE.to_owned()).or_default();
        jar.clear();
        jar.extend(planted.map(|nonce| ("nogoo9-nonce".to_owned(), nonce)));
        browser
            .get(WORKSPACE, &path)
            .await
            .assert_page(StatusCode::BAD_REQUEST, "/files");
        assert!(browser.session(WORKSPACE).is_none());
    }
    // In one that has a nonce of its own: it begins anew, by itself.
    let jar = browser.cookies.entry(WORKSPACE.to_owned()).or_default();
    jar.insert("nogoo9-nonce".to_owned(), new_nonce().expect("a nonce"));
    assert_eq!(browser.get(WORKSPACE, &path).await.location(), "/files");
    assert!(browser.session(WORKSPACE).is_none());
    let jar = browser.cookies.entry(WORKSPACE.to_owned()).or_default();
    jar.insert("nogoo9-nonce".to_owned(), nonce.clone());
    // Altered, or none at all.
    for wrong in [
        path.replace("code=", "code=x"),
        "/.nogoo9/login?return=/files".to_owned(),
    ] {
        browser
            .get(WORKSPACE, &wrong)
            .await
            .assert_page(StatusCode::BAD_REQUEST, "/files");
    }
    // A session token is no code.
    let session = browser.cookies[CONSOLE]["nogoo9"].clone();
    let wrong = format!("/.nogoo9/login?code={session}&return=/files");
    browser
        .get(WORKSPACE, &wrong)
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/files");

    // The browser it was made for may take 59 seconds, and not 60; it goes only where it may.
    browser.wait(58);
    let elsewhere = path.replace("return=%2Ffiles", "return=%2F%2Fevil.example");
    assert_eq!(browser.get(WORKSPACE, &elsewhere).await.location(), "/");
    assert!(browser.session(WORKSPACE).is_some());
    let jar = browser.cookies.entry(WORKSPACE.to_owned()).or_default();
    jar.clear();
    jar.insert("nogoo9-nonce".to_owned(), nonce);
    browser.wait(2);
    browser
        .get(WORKSPACE, &path)
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/files");
    assert!(browser.session(WORKSPACE).is_none());
}

#[tokio::test]
async fn pages_of_siblings_get_no_code() {
    let (_provider, mut browser) = signed_in().await;
    let open = browser.meet(WORKSPACE, "/");
    // Fetched, or framed, by a page of a sibling workspace: as if nobody were signed in.
    for (mode, dest) in [
        ("cors", "empty"),
        ("no-cors", "image"),
        ("navigate", "iframe"),
    ] {
        let headers = [
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", dest),
        ];
        let answer = browser.send("GET", CONSOLE, &open, &headers).await;
        assert!(answer.location().starts_with("/auth/login?"), "{mode}");
    }
    // A person who follows a link gets one.
    let headers = [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let answer = browser.send("GET", CONSOLE, &open, &headers).await;
    assert!(answer.location().contains("/.nogoo9/login?code="));
}

#[tokio::test]
async fn a_path_too_long_for_the_way_is_left_behind() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let open = browser.meet(WORKSPACE, &format!("/{}", "%C3%BC".repeat(300)));
    let to_login = browser.get(CONSOLE, &open).await.location().to_owned();
    let to_open = browser
        .sign_in(&provider, &to_login)
        .await
        .location()
        .to_owned();
    let to_workspace = browser.get(CONSOLE, &to_open).await.location().to_owned();
    assert_eq!(
        browser
            .get(WORKSPACE, &path_of(&to_workspace))
            .await
            .location(),
        "/"
    );
    assert!(browser.session(WORKSPACE).is_some());
}

#[tokio::test]
async fn the_host_of_an_extra_port_has_a_hand_over_of_its_own() {
    const PORT: &str = "web--dev.localhost:9009";
    let (_provider, mut browser) = signed_in().await;
    let open = browser.meet(PORT, "/x?y");
    let to_port = browser.get(CONSOLE, &open).await.location().to_owned();
    assert!(
        to_port.starts_with("http://web--dev.localhost:9009/.nogoo9/login?"),
        "{to_port}"
    );
    // The code is for that host: on the workspace's own it opens nothing, whatever nonce it has.
    let nonce = browser.cookies[PORT].clone();
    browser.cookies.insert(WORKSPACE.to_owned(), nonce);
    let stolen = browser.get(WORKSPACE, &path_of(&to_port)).await;
    assert_ne!(stolen.status, StatusCode::SEE_OTHER);
    assert!(browser.session(WORKSPACE).is_none());
    let there = browser.get(PORT, &path_of(&to_port)).await;
    assert_eq!(there.location(), "/x?y");
    assert!(browser.session(PORT).is_some());
    let cookie = browser.cookies[PORT]["nogoo9"].clone();
    browser
        .cookies
        .entry(WORKSPACE.to_owned())
        .or_default()
        .insert("nogoo9".to_owned(), cookie);
    assert!(browser.session(WORKSPACE).is_none(), "bound to its host");
}
