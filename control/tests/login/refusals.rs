//! Signing in, when it must not work: no session, and a page that says what to do.

use crate::browser::{Browser, CONSOLE, config, path_of};
use crate::provider::{Provider, Whims, now};
use axum::http::{HeaderValue, StatusCode};
use jsonwebtoken::{Algorithm, Header};
use nogoo9_control::login::LoginConfig;
use serde_json::json;
use std::sync::atomic::Ordering;

const AGAIN: &str = "/auth/login?return=%2Fhere";

#[tokio::test]
async fn answers_that_do_not_prove_who_it_is() {
    type Whim = fn(&mut Whims);
    let table: [(&str, Whim); 16] = [
        ("other nonce", |w| {
            w.claims = Some(json!({"nonce": "other"}));
        }),
        ("no nonce", |w| w.claims = Some(json!({"nonce": null}))),
        ("other audience", |w| {
            w.claims = Some(json!({"aud": "somebody-else"}));
        }),
        ("further audience", |w| {
            w.claims = Some(json!({"aud": ["nogoo9", "somebody-else"]}));
        }),
        ("further audience, made for that", |w| {
            w.claims = Some(json!({"aud": ["nogoo9", "somebody-else"], "azp": "somebody-else"}));
        }),
        ("other audiences, made for us", |w| {
            w.claims = Some(json!({"aud": ["one", "another"], "azp": "nogoo9"}));
        }),
        ("no audience", |w| {
            w.claims = Some(json!({"aud": [], "azp": "nogoo9"}));
        }),
        ("other issuer", |w| {
            w.claims = Some(json!({"iss": "http://127.0.0.1:1"}));
        }),
        ("expired", |w| w.claims = Some(json!({"exp": now() - 1}))),
        ("no subject", |w| w.claims = Some(json!({"sub": null}))),
        ("other access token", |w| {
            w.claims = Some(json!({"at_hash": "77QmUPtjPfzWtF2AnpK9RQ"}));
        }),
        ("unpublished key", |w| w.foreign_key = true),
        ("shared secret", |w| {
            w.header = Some(Header::new(Algorithm::HS256));
        }),
        ("no ID token", |w| w.no_id_token = true),
        ("no JSON", |w| w.instead = Some((200, "<html>".to_owned()))),
        ("endless", |w| {
            w.instead = Some((200, " ".repeat(600 * 1024)));
        }),
    ];
    for (name, whim) in table {
        let provider = Provider::start().await;
        provider.whims(whim);
        let secret = Some("the client secret".to_owned());
        let mut browser = Browser::new(LoginConfig {
            client_secret: secret,
            ..config(&provider.issuer)
        })
        .await;
        let answer = browser.sign_in(&provider, "/auth/login?return=/here").await;
        let status = answer.status;
        assert!(status.is_server_error(), "{name}: {status}");
        answer.assert_page(status, AGAIN);
        assert!(browser.session(CONSOLE).is_none(), "{name}");
        assert!(browser.cookies[CONSOLE].is_empty(), "{name}");
        assert!(!answer.body.contains("the client secret"), "{name}");
    }
}

#[tokio::test]
async fn a_code_that_the_provider_does_not_take() {
    let provider = Provider::start().await;
    let body = json!({"error": "invalid_grant", "error_description": "<script>"}).to_string();
    provider.whims(|whims| whims.instead = Some((400, body)));
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let answer = browser.sign_in(&provider, "/auth/login?return=/here").await;
    answer.assert_page(StatusCode::BAD_GATEWAY, AGAIN);
    assert!(answer.body.contains("invalid_grant") && !answer.body.contains("<script"));
    assert!(browser.session(CONSOLE).is_none());
}

#[tokio::test]
async fn a_subject_that_nobody_can_have() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.claims = Some(json!({"sub": "a\nb"})));
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let answer = browser.sign_in(&provider, "/auth/login?return=/here").await;
    answer.assert_page(StatusCode::FORBIDDEN, AGAIN);
    assert!(browser.session(CONSOLE).is_none());
}

#[tokio::test]
async fn a_provider_that_is_away_is_a_page_and_not_asked_by_each() {
    let provider = Provider::start().await;
    provider.go_away().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let answer = browser.get(CONSOLE, "/auth/login?return=/here").await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
    assert_eq!(answer.headers["retry-after"], "5");
    assert!(browser.cookies[CONSOLE].is_empty());
}

#[tokio::test]
async fn a_provider_that_goes_away_in_between() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, "/auth/login?return=/here").await;
    let back = provider.sign_in(away.location());
    provider.go_away().await;
    let answer = browser.get(CONSOLE, &path_of(back.as_str())).await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, AGAIN);
    assert!(browser.session(CONSOLE).is_none());
}

#[tokio::test]
async fn a_provider_of_another_name() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&format!("{}/", provider.issuer))).await;
    let answer = browser.get(CONSOLE, "/auth/login").await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, "/auth/login?return=%2F");
}

#[tokio::test]
async fn what_the_provider_says_when_it_lets_nobody_in() {
    let provider = Provider::start().await;
    let table = [
        ("access_denied", StatusCode::FORBIDDEN),
        ("login_required", StatusCode::FORBIDDEN),
        ("server_error", StatusCode::SERVICE_UNAVAILABLE),
        ("temporarily_unavailable", StatusCode::SERVICE_UNAVAILABLE),
        ("invalid_scope", StatusCode::BAD_GATEWAY),
        ("%3Cscript%3E", StatusCode::BAD_GATEWAY),
    ];
    for (error, status) in table {
        let mut browser = Browser::new(config(&provider.issuer)).await;
        let away = browser.get(CONSOLE, "/auth/login?return=/here").await;
        let state = crate::browser::param(away.location(), "state");
        let path = format!("/auth/callback?error={error}&error_description=%3Cb%3E&state={state}");
        let answer = browser.get(CONSOLE, &path).await;
        answer.assert_page(status, AGAIN);
        assert!(answer.body.contains("&lt;b&gt;"), "{}", answer.body);
        assert!(!answer.body.contains("<script"), "{}", answer.body);
        assert!(browser.cookies[CONSOLE].is_empty());
    }
    assert!(provider.exchanges.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn callbacks_that_this_browser_did_not_begin() {
    let provider = Provider::start().await;
    let mut attacker = Browser::new(config(&provider.issuer)).await;
    let away = attacker.get(CONSOLE, "/auth/login").await;
    let back = path_of(provider.sign_in(away.location()).as_str());

    // In another browser: login by somebody else's link must not work.
    let mut victim = Browser::new(config(&provider.issuer)).await;
    let again = "/auth/login";
    victim
        .get(CONSOLE, &back)
        .await
        .assert_page(StatusCode::BAD_REQUEST, again);
    // With a cookie of that name which another edge signed.
    victim
        .cookies
        .insert(CONSOLE.to_owned(), attacker.cookies[CONSOLE].clone());
    victim
        .get(CONSOLE, &back)
        .await
        .assert_page(StatusCode::BAD_REQUEST, again);
    assert!(victim.session(CONSOLE).is_none());

    // In the same one: with another state, without one, without anything, with words put in.
    for path in [
        back.replace("state=", "state=x"),
        back.replace("state=", "stat="),
        "/auth/callback".to_owned(),
        "/auth/callback?error=Call%20555&error_description=Call%20555".to_owned(),
    ] {
        let answer = attacker.get(CONSOLE, &path).await;
        answer.assert_page(StatusCode::BAD_REQUEST, again);
        assert!(!answer.body.contains("555"));
    }
    assert!(provider.exchanges.lock().expect("no panic").is_empty());

    // In time it works, once.
    assert_eq!(attacker.get(CONSOLE, &back).await.location(), "/");
    attacker
        .get(CONSOLE, &back)
        .await
        .assert_page(StatusCode::BAD_REQUEST, again);
    assert_eq!(provider.exchanges.lock().expect("no panic").len(), 1);
}

#[tokio::test]
async fn a_login_is_over_after_ten_minutes() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, "/auth/login").await;
    let back = path_of(provider.sign_in(away.location()).as_str());
    browser.wait(600);
    browser
        .get(CONSOLE, &back)
        .await
        .assert_page(StatusCode::BAD_REQUEST, "/auth/login");
    assert!(browser.session(CONSOLE).is_none());
}

#[tokio::test]
async fn an_answer_in_the_name_of_another_issuer() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, "/auth/login?return=/here").await;
    let back = path_of(provider.sign_in(away.location()).as_str());
    let other = back.replace("&iss=", "&iss=x");
    browser
        .get(CONSOLE, &other)
        .await
        .assert_page(StatusCode::BAD_REQUEST, AGAIN);
    assert!(browser.session(CONSOLE).is_none());
    assert!(provider.exchanges.lock().expect("no panic").is_empty());
}

#[tokio::test]
async fn returns_to_elsewhere_lead_home() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    for elsewhere in [
        "https://evil.example",
        "//evil.example",
        "/%5Cevil.example",
        "/%0d%0aX:y",
    ] {
        let path = format!("/auth/login?return={elsewhere}");
        let home = browser.sign_in(&provider, &path).await;
        assert_eq!(
            home.headers["location"],
            HeaderValue::from_static("/"),
            "{elsewhere}"
        );
    }
    assert_eq!(provider.discoveries.load(Ordering::SeqCst), 1);
}
