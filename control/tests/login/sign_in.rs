//! Signing in and out, when all goes well.

use crate::browser::{Browser, CONSOLE, HOUR, config, param, path_of};
use crate::provider::Provider;
use axum::http::StatusCode;
use nogoo9_control::login::LoginConfig;
use nogoo9_identity::keyset::KeySet;
use nogoo9_model::access::Role;
use serde_json::json;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn a_person_signs_in_and_comes_back_to_where_they_wanted() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser
        .get(CONSOLE, "/auth/login?return=%2Fworkspaces%3Fx%3D1")
        .await;
    let at = away.location().to_owned();
    for (name, wanted) in [
        ("client_id", "nogoo9"),
        ("response_type", "code"),
        ("redirect_uri", "http://localhost:9009/auth/callback"),
        ("scope", "openid profile"),
        ("code_challenge_method", "S256"),
        ("resource", "http://localhost:9009/mcp"),
    ] {
        assert_eq!(param(&at, name), wanted);
    }
    let (state, nonce) = (param(&at, "state"), param(&at, "nonce"));
    assert!(state.len() >= 43 && nonce.len() >= 43 && state != nonce);
    // The one thing that an eavesdropper on the way must not learn.
    let verifier_in_url = at.contains("verifier");
    assert!(!verifier_in_url);

    let back = provider.sign_in(&at);
    let home = browser.get(CONSOLE, &path_of(back.as_str())).await;
    assert_eq!(home.location(), "/workspaces?x=1");
    let found = browser.session(CONSOLE).expect("a session");
    assert_eq!(found.caller.sub, "alice");
    assert_eq!(found.caller.roles, ["user", "dev"]);
    assert_eq!(found.caller.role, Role::User);
    let life = found.expires - browser.now();
    assert!((HOUR - 60..=HOUR).contains(&life), "{life}");
    assert!(found.sid.as_deref().is_some_and(|sid| sid.len() == 43));
    // What was remembered for the way is gone.
    assert_eq!(
        browser.cookies[CONSOLE].keys().collect::<Vec<_>>(),
        ["nogoo9"]
    );
    browser.wait(HOUR);
    assert!(browser.session(CONSOLE).is_none());

    let exchanges = provider.exchanges.lock().expect("no panic");
    let [(form, credentials)] = exchanges.as_slice() else {
        panic!("one exchange")
    };
    assert_eq!(form["grant_type"], "authorization_code");
    assert_eq!(form["client_id"], "nogoo9");
    assert_eq!(form["resource"], "http://localhost:9009/mcp");
    assert_eq!((credentials, form.get("client_secret")), (&None, None));
}

#[tokio::test]
async fn a_secret_goes_where_the_provider_takes_it() {
    for (in_body, wanted) in [(false, (true, false)), (true, (false, true))] {
        let provider = Provider::start().await;
        provider.whims(|whims| whims.secret_in_body = in_body);
        let secret = Some("the client secret".to_owned());
        let config = LoginConfig {
            client_secret: secret,
            ..config(&provider.issuer)
        };
        assert!(!format!("{config:?}").contains("the client secret"));
        let mut browser = Browser::new(config).await;
        assert_eq!(
            browser.sign_in(&provider, "/auth/login").await.location(),
            "/"
        );
        let exchanges = provider.exchanges.lock().expect("no panic");
        let (form, credentials) = &exchanges[0];
        let basic = credentials
            .as_deref()
            .is_some_and(|text| text.starts_with("Basic "));
        assert_eq!((basic, form.contains_key("client_secret")), wanted);
    }
}

#[tokio::test]
async fn logins_in_parallel_tabs_do_not_disturb_each_other() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let one = browser
        .get(CONSOLE, "/auth/login?return=/one")
        .await
        .location()
        .to_owned();
    let two = browser
        .get(CONSOLE, "/auth/login?return=/two")
        .await
        .location()
        .to_owned();
    let back = [provider.sign_in(&two), provider.sign_in(&one)];
    assert_eq!(
        browser
            .get(CONSOLE, &path_of(back[0].as_str()))
            .await
            .location(),
        "/two"
    );
    assert_eq!(
        browser
            .get(CONSOLE, &path_of(back[1].as_str()))
            .await
            .location(),
        "/one"
    );
    assert!(browser.session(CONSOLE).is_some());
    assert_eq!(provider.discoveries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn logins_that_nobody_ends_do_not_pile_up() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    for (length, most) in [(2000, 2), (100, 8)] {
        for _ in 0..12 {
            let path = format!("/auth/login?return=/{}", "a".repeat(length));
            let away = browser.get(CONSOLE, &path).await;
            let jar = &browser.cookies[CONSOLE];
            let size: usize = jar
                .iter()
                .map(|(name, value)| name.len() + value.len() + 3)
                .sum();
            assert!(size <= 6 * 1024, "{size} bytes of cookies");
            // The login that was just begun is never the one that is given up.
            let back = path_of(provider.sign_in(away.location()).as_str());
            let kept = browser.cookies.clone();
            assert!(
                browser
                    .get(CONSOLE, &back)
                    .await
                    .location()
                    .starts_with("/aaa")
            );
            browser.cookies = kept;
        }
        let left = browser.cookies[CONSOLE].len();
        assert!(left <= most && left >= most / 2, "{left} of {most}");
        browser.cookies.clear();
    }
}

#[tokio::test]
async fn a_key_that_the_provider_began_to_use_meanwhile_is_found() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, "/auth/login").await;
    let back = provider.sign_in(away.location());
    provider.whims(|whims| whims.rotated = true);
    // So soon after the last look it is not looked again: anybody could cause that.
    let answer = browser.get(CONSOLE, &path_of(back.as_str())).await;
    answer.assert_page(StatusCode::BAD_GATEWAY, "/auth/login?return=%2F");
    assert_eq!(provider.discoveries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_new_key_of_the_provider_is_looked_for_after_a_while() {
    let provider = Provider::start().await;
    let mut browser = Browser::impatient(config(&provider.issuer)).await;
    let away = browser.get(CONSOLE, "/auth/login?return=/here").await;
    let back = provider.sign_in(away.location());
    provider.whims(|whims| whims.rotated = true);
    let home = browser.get(CONSOLE, &path_of(back.as_str())).await;
    assert_eq!(home.location(), "/here");
    assert_eq!(provider.discoveries.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn on_https_no_sibling_can_plant_a_cookie() {
    let provider = Provider::start().await;
    let config = LoginConfig {
        public_url: "https://console.example.org/".parse().expect("a URL"),
        ..config(&provider.issuer)
    };
    let mut browser = Browser::new(config).await;
    let home = browser.sign_in(&provider, "/auth/login").await;
    assert_eq!(home.location(), "/");
    let set: Vec<&str> = home
        .headers
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().expect("ASCII"))
        .collect();
    let [spent, session] = set[..] else {
        panic!("{set:?}")
    };
    assert!(
        spent.starts_with("__Host-nogoo9-login-") && spent.ends_with("; Secure"),
        "{spent}"
    );
    assert!(
        session.starts_with("__Host-nogoo9=ey") && session.ends_with("; Secure"),
        "{session}"
    );
}

#[tokio::test]
async fn a_parameter_that_is_given_twice_counts_as_none() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    let home = browser
        .sign_in(&provider, "/auth/login?return=/a&return=/b")
        .await;
    assert_eq!(home.location(), "/");
    let away = browser.get(CONSOLE, "/auth/login").await;
    let back = path_of(provider.sign_in(away.location()).as_str());
    let twice = format!("{back}&code=other");
    let answer = browser.get(CONSOLE, &twice).await;
    answer.assert_page(StatusCode::BAD_GATEWAY, "/auth/login?return=%2F");
    assert_eq!(provider.exchanges.lock().expect("no panic").len(), 1);
}

#[tokio::test]
async fn signing_out_ends_it_here_and_at_the_provider() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    for foreign in [
        [("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "cross-site")],
        [("origin", "http://evil.localhost:9009")],
        [("x-nothing", "at all")],
    ] {
        let answer = browser
            .send("POST", CONSOLE, "/auth/logout", &foreign)
            .await;
        answer.assert_page(StatusCode::FORBIDDEN, "/");
        assert!(browser.session(CONSOLE).is_some(), "{foreign:?}");
    }
    assert_eq!(
        browser.get(CONSOLE, "/auth/logout").await.status,
        StatusCode::METHOD_NOT_ALLOWED
    );

    let own = [("origin", "http://localhost:9009")];
    let answer = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    let there = answer.location().to_owned();
    assert!(
        there.starts_with(&format!("{}/logout?", provider.issuer)),
        "{there}"
    );
    assert_eq!(param(&there, "client_id"), "nogoo9");
    assert_eq!(
        param(&there, "post_logout_redirect_uri"),
        "http://localhost:9009/"
    );
    assert!(browser.cookies[CONSOLE].is_empty());
}

#[tokio::test]
async fn signing_out_leads_to_a_provider_whose_pages_are_elsewhere() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.logout_at = Some("https://out.example.org/end?a=b".to_owned()));
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let own = [("sec-fetch-site", "same-origin")];
    let answer = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    // A browser would not follow a redirect there: the console's forms may end at the issuer only.
    assert_eq!(answer.status, StatusCode::OK);
    let back = "post_logout_redirect_uri=http%3A%2F%2Flocalhost%3A9009%2F";
    let there = format!("https://out.example.org/end?a=b&amp;client_id=nogoo9&amp;{back}");
    for way in [
        format!("<meta http-equiv=\"refresh\" content=\"0; url={there}\">"),
        format!("<a class=\"go\" href=\"{there}\">Go on</a>"),
    ] {
        assert!(answer.body.contains(&way), "{way}: {}", answer.body);
    }
    assert!(browser.cookies[CONSOLE].is_empty());
}

#[tokio::test]
async fn signing_out_works_without_the_provider() {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.no_logout = true);
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let own = [("sec-fetch-site", "same-origin")];
    assert_eq!(
        browser
            .send("POST", CONSOLE, "/auth/logout", &own)
            .await
            .location(),
        "/"
    );
    assert!(browser.cookies[CONSOLE].is_empty());

    provider.go_away().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    assert_eq!(
        browser
            .send("POST", CONSOLE, "/auth/logout", &own)
            .await
            .location(),
        "/"
    );
}

#[tokio::test]
async fn what_is_published_is_what_proxies_need() {
    let mut browser = Browser::new(config("https://login.example.org")).await;
    let answer = browser
        .get(CONSOLE, "/.well-known/nogoo9-session-keys.json")
        .await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert!(
        !KeySet::parse(answer.body.as_bytes())
            .expect("a key set")
            .is_empty()
    );
    assert!(!answer.body.contains("\"d\""));
}

/// Some providers name their projects and APIs beside the client.
#[tokio::test]
async fn further_audiences_of_a_token_that_was_made_for_us() {
    let provider = Provider::start().await;
    let audiences = json!({"aud": ["project-1", "nogoo9", "project-2"], "azp": "nogoo9"});
    provider.whims(|whims| whims.claims = Some(audiences));
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.sign_in(&provider, "/auth/login").await.location();
    let found = browser.session(CONSOLE).expect("a session");
    assert_eq!(found.caller.sub, "alice");
}
