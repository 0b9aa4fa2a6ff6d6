//! A provider in trouble: who is signed in goes on, who signs in is told what is wrong, and once it is
//! well again all is, without a restart.

use crate::browser::{Browser, CONSOLE, config, path_of};
use crate::provider::Provider;
use axum::http::StatusCode;
use nogoo9_control::login::{Kept, LoginConfig};
use nogoo9_model::renew::Answer;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MINUTE: i64 = 60;
const AGAIN: &str = "/auth/login?return=%2Fhere";
/// Longest wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

async fn signed_in(provider: &Arc<Provider>) -> Browser {
    provider.whims(|whims| whims.refreshes = true);
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.stop_the_clock();
    browser.sign_in(provider, "/auth/login").await.location();
    browser
}

/// Signs in as soon as the provider is asked again.
async fn signs_in(browser: &mut Browser, provider: &Provider) {
    let wait = async {
        // What failed a moment ago is not tried by each who comes.
        while browser.get(CONSOLE, AGAIN).await.status != StatusCode::SEE_OTHER {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait)
        .await
        .expect("a way there");
    let home = browser.sign_in(provider, AGAIN).await;
    assert_eq!(home.location(), "/here");
    assert!(browser.session(CONSOLE).is_some());
}

async fn fresh_for(browser: &Browser) -> i64 {
    let token = browser.token(CONSOLE);
    match browser.renew(&[(CONSOLE, &token)]).await.pop() {
        Some(Answer::Renewed { fresh_until, .. }) => fresh_until - browser.now(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn down_at_the_start() {
    let provider = Provider::away();
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let answer = browser.get(CONSOLE, AGAIN).await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
    assert!(answer.body.contains("does not answer"), "{}", answer.body);
    assert_eq!(answer.headers["retry-after"], "5");
    provider.come_back();
    signs_in(&mut browser, &provider).await;
}

#[tokio::test]
async fn down_later() {
    let provider = Provider::start().await;
    let browser = signed_in(&provider).await;
    provider.go_away().await;
    // Who is signed in goes on, by shorter tokens, to the end of the session.
    for minutes in [20, 60, 5 * 60] {
        browser.wait(minutes * MINUTE);
        assert_eq!(fresh_for(&browser).await, 5 * MINUTE);
    }
    // Who signs in elsewhere is told.
    let mut other = Browser::new(config(&provider.issuer)).await;
    let answer = other.get(CONSOLE, AGAIN).await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
    provider.come_back();
    browser.wait(MINUTE);
    assert_eq!(fresh_for(&browser).await, 15 * MINUTE);
    signs_in(&mut other, &provider).await;
}

/// What a provider says of itself changes rarely; that it cannot say it now keeps nobody from asking it.
#[tokio::test]
async fn only_its_own_description_is_missing() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.refreshes = true);
    let mut browser = Browser::forgetful(config(&provider.issuer)).await;
    browser.stop_the_clock();
    browser.sign_in(&provider, "/auth/login").await.location();
    provider.whims(|whims| whims.no_discovery = Some((404, "gone".to_owned())));
    browser.wait(10 * MINUTE);
    assert_eq!(fresh_for(&browser).await, 15 * MINUTE);
    let no = json!({"error": "invalid_grant"}).to_string();
    provider.whims(|whims| whims.no_refresh = Some((400, no)));
    browser.wait(10 * MINUTE);
    let token = browser.token(CONSOLE);
    assert_eq!(browser.renew(&[(CONSOLE, &token)]).await, [Answer::Refused]);
}

#[tokio::test]
async fn two_seconds_a_call() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.takes = Duration::from_secs(2));
    let browser = signed_in(&provider).await;
    browser.wait(20 * MINUTE);
    assert_eq!(fresh_for(&browser).await, 15 * MINUTE);
}

#[tokio::test]
async fn nobody_in_passing_waits_for_one_that_hangs() {
    let provider = Provider::start().await;
    let browser = signed_in(&provider).await;
    let found = browser.session(CONSOLE).expect("a session");
    provider.whims(|whims| whims.takes = PATIENCE);
    browser.wait(11 * MINUTE);
    let as_it_is = Kept::Counts {
        renewed: None,
        until: found.fresh_until.expect("one that is renewed"),
        cookie: None,
    };
    assert_eq!(browser.login.keep(&found).await, as_it_is);
    assert!(provider.refreshed.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn new_keys_meanwhile() {
    let provider = Provider::start().await;
    let browser = signed_in(&provider).await;
    provider.whims(|whims| whims.rotated = true);
    // The session goes on by the refresh token alone, whether or not the new key is known already.
    browser.wait(10 * MINUTE);
    assert_eq!(fresh_for(&browser).await, 15 * MINUTE);
    assert!(provider.discoveries.load(Ordering::SeqCst) <= 2);
    // And a control that may look for the key at once takes the roles of now.
    let mut impatient = Browser::impatient(config(&provider.issuer)).await;
    impatient.stop_the_clock();
    provider.whims(|whims| whims.rotated = false);
    impatient.sign_in(&provider, "/auth/login").await.location();
    provider.whims(|whims| {
        whims.rotated = true;
        whims.claims = Some(json!({"realm_access": {"roles": ["viewer"]}}));
    });
    impatient.wait(10 * MINUTE);
    let token = impatient.token(CONSOLE);
    let renewed = impatient.renew(&[(CONSOLE, &token)]).await.pop();
    let Some(Answer::Renewed { token, .. }) = renewed else {
        panic!("{renewed:?}")
    };
    let found = impatient.verify(&token, CONSOLE, impatient.now());
    assert_eq!(found.expect("a session").caller.roles, ["viewer"]);
}

#[tokio::test]
async fn answers_that_are_none() {
    let provider = Provider::start().await;
    let mut browser = signed_in(&provider).await;
    let known = provider.discoveries.load(Ordering::SeqCst);
    for (status, body) in [
        (500, "oh".to_owned()),
        (404, String::new()),
        (302, String::new()),
        (
            200,
            "<!doctype html><title>Be right back</title>".to_owned(),
        ),
        (200, json!({"issuer": provider.issuer}).to_string()),
        (200, " ".repeat(600 * 1024)),
    ] {
        provider.whims(|whims| whims.no_discovery = Some((status, body.clone())));
        let mut other = Browser::new(config(&provider.issuer)).await;
        let answer = other.get(CONSOLE, AGAIN).await;
        answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
        assert!(other.cookies[CONSOLE].is_empty());
        provider.whims(|whims| whims.no_discovery = None);
        signs_in(&mut other, &provider).await;
    }
    // None of that concerned the session that was there before.
    assert!(provider.discoveries.load(Ordering::SeqCst) > known);
    browser.wait(10 * MINUTE);
    assert_eq!(fresh_for(&browser).await, 15 * MINUTE);
    // Trouble in the middle of a sign-in is told as well, and the way back leads through it.
    provider.whims(|whims| whims.instead = Some((503, "busy".to_owned())));
    let answer = browser.sign_in(&provider, AGAIN).await;
    assert!(answer.status.is_server_error());
    answer.assert_page(answer.status, AGAIN);
    provider.whims(|whims| whims.instead = None);
    signs_in(&mut browser, &provider).await;
}

/// Many providers refuse a sign-in over a scope that they do not know.
#[tokio::test]
async fn offline_access_is_asked_of_those_that_have_it() {
    for (known, asked) in [
        (None, "openid profile offline_access"),
        (
            Some(vec!["openid", "offline_access"]),
            "openid profile offline_access",
        ),
        (Some(vec!["openid", "profile"]), "openid profile"),
    ] {
        let provider = Provider::start().await;
        provider.whims(|whims| whims.scopes = known);
        let scopes = ["profile", "offline_access"].map(ToOwned::to_owned);
        let config = LoginConfig {
            scopes: scopes.to_vec(),
            ..config(&provider.issuer)
        };
        let mut browser = Browser::new(config).await;
        let away = browser.get(CONSOLE, "/auth/login").await;
        assert_eq!(crate::browser::param(away.location(), "scope"), asked);
    }
}

#[tokio::test]
async fn signing_out_gives_the_refresh_token_back() {
    for (secret, in_body) in [
        (None, false),
        (Some("s3cr:t"), false),
        (Some("s3cr:t"), true),
    ] {
        let provider = Provider::start().await;
        provider.whims(|whims| {
            whims.refreshes = true;
            whims.revokes = true;
            whims.secret_in_body = in_body;
        });
        let mut browser = Browser::new(LoginConfig {
            client_secret: secret.map(ToOwned::to_owned),
            ..config(&provider.issuer)
        })
        .await;
        browser.sign_in(&provider, "/auth/login").await.location();
        let token = browser.token(CONSOLE);
        let own = [("sec-fetch-site", "same-origin")];
        let out = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
        assert!(
            out.location()
                .starts_with(&format!("{}/logout?", provider.issuer))
        );
        // No token is in that address.
        assert!(!out.location().contains("refresh-") && !out.location().contains("hint"));
        let mut taken = provider.taken_back.subscribe();
        let taken = tokio::time::timeout(PATIENCE, taken.wait_for(|all| !all.is_empty()));
        let taken = taken.await.expect("in time").expect("it is there").clone();
        let [(form, credentials)] = &taken[..] else {
            panic!("{taken:?}")
        };
        assert_eq!(
            (form["token"].as_str(), form["token_type_hint"].as_str()),
            ("refresh-0", "refresh_token")
        );
        let basic = credentials.as_deref();
        match (secret, in_body) {
            (Some(_), false) => assert_eq!(basic, Some("Basic bm9nb285OnMzY3IlM0F0")),
            (Some(secret), true) => {
                assert_eq!((form["client_secret"].as_str(), basic), (secret, None));
            }
            (None, _) => {
                assert_eq!((form["client_id"].as_str(), basic), ("nogoo9", None));
                assert!(!form.contains_key("client_secret"));
            }
        }
        assert_eq!(browser.renew(&[(CONSOLE, &token)]).await, [Answer::Refused]);
    }
}

#[tokio::test]
async fn nobody_who_signs_out_waits_for_that() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.revokes = true);
    let mut browser = signed_in(&provider).await;
    provider.whims(|whims| whims.takes = PATIENCE);
    let own = [("sec-fetch-site", "same-origin")];
    let out = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    out.location();
    assert!(provider.taken_back.borrow().is_empty());
    assert!(browser.session(CONSOLE).is_none());
    // Nor for one that is gone altogether; and it is out all the same.
    let mut browser = Browser::new(config(&provider.issuer)).await;
    provider.whims(|whims| whims.takes = Duration::ZERO);
    browser.sign_in(&provider, "/auth/login").await.location();
    let token = browser.token(CONSOLE);
    provider.go_away().await;
    let out = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    out.location();
    assert_eq!(browser.renew(&[(CONSOLE, &token)]).await, [Answer::Refused]);
}

/// Where a callback is when its provider has gone away in between, another try leads on.
#[tokio::test]
async fn gone_in_the_middle_and_back() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, AGAIN).await;
    let back = provider.sign_in(away.location());
    provider.go_away().await;
    let answer = browser.get(CONSOLE, &path_of(back.as_str())).await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
    assert!(browser.session(CONSOLE).is_none());
    provider.come_back();
    signs_in(&mut browser, &provider).await;
}
