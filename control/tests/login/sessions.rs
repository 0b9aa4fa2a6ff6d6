//! How long a session lasts, and who ends it. Time is the test's.

mod provider;
mod records;

use crate::browser::{Browser, CONSOLE, HOUR, WORKSPACE, config, path_of};
use crate::provider::Provider;
use axum::http::StatusCode;
use nogoo9_control::login::Kept;
use nogoo9_control::session::SessionRecord;
use nogoo9_identity::session::Session;
use nogoo9_model::renew::Answer;
use std::sync::Arc;

const MINUTE: i64 = 60;

/// Alice, signed in at a provider that can be asked again.
async fn signed_in() -> (Arc<Provider>, Browser) {
    let provider = Provider::start().await;
    provider.whims(|whims| whims.refreshes = true);
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.stop_the_clock();
    browser.sign_in(&provider, "/auth/login").await.location();
    (provider, browser)
}

/// What control says of one token; the new one, and until when it counts by itself.
async fn renewed(browser: &Browser, host: &str, token: &str) -> Result<(String, i64), Answer> {
    let mut answers = browser.renew(&[(host, token)]).await;
    match answers.pop() {
        Some(Answer::Renewed {
            token, fresh_until, ..
        }) => Ok((token, fresh_until)),
        other => Err(other.expect("an answer")),
    }
}

fn asked(provider: &Provider) -> usize {
    provider.refreshed.lock().expect("no panic").len()
}

async fn record(browser: &Browser) -> SessionRecord {
    let mut all = browser.server.cluster.sessions(None).await.expect("a list");
    assert_eq!(all.len(), 1);
    all.pop().expect("one").value
}

#[tokio::test]
async fn a_session_goes_on_for_twelve_hours_and_no_longer() {
    let (provider, browser) = signed_in().await;
    let begun = browser.now();
    let first = browser.session(CONSOLE).expect("a session");
    assert_eq!(first.expires, begun + 12 * HOUR);
    assert_eq!(first.fresh_until, Some(begun + 15 * MINUTE));
    let mut token = browser.token(CONSOLE);
    for tens in 1..12 * 6 {
        browser.wait(10 * MINUTE);
        let (next, until) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
        assert_eq!(until, (begun + 12 * HOUR).min(browser.now() + 15 * MINUTE));
        assert_eq!(asked(&provider), tens);
        token = next;
    }
    // The provider rotates its tokens, and each was used once.
    let used = provider.refreshed.lock().expect("no panic").clone();
    let wanted: Vec<String> = (0..used.len()).map(|n| format!("refresh-{n}")).collect();
    assert_eq!(used, wanted);
    browser.wait(10 * MINUTE - 1);
    assert!(renewed(&browser, CONSOLE, &token).await.is_ok());
    browser.wait(1);
    assert_eq!(
        renewed(&browser, CONSOLE, &token).await,
        Err(Answer::Refused)
    );
}

#[tokio::test]
async fn without_refresh_tokens_it_is_an_hour() {
    let provider = Provider::start().await;
    let mut browser = Browser::new(config(&provider.issuer)).await;
    browser.stop_the_clock();
    browser.sign_in(&provider, "/auth/login").await.location();
    let begun = browser.now();
    let found = browser.session(CONSOLE).expect("a session");
    assert_eq!(found.expires, begun + HOUR);
    let token = browser.token(CONSOLE);
    browser.wait(50 * MINUTE);
    let (_, until) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
    assert_eq!(until, begun + HOUR);
    assert_eq!(asked(&provider), 0);
    browser.wait(10 * MINUTE);
    assert_eq!(
        renewed(&browser, CONSOLE, &token).await,
        Err(Answer::Refused)
    );
}

#[tokio::test]
async fn signing_out_ends_it_on_all_hosts() {
    let (provider, mut browser) = signed_in().await;
    let open = browser.meet(WORKSPACE, "/");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    let workspace = browser.token(WORKSPACE);
    let own = [("sec-fetch-site", "same-origin")];
    browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    assert!(browser.session(CONSOLE).is_none());
    assert_eq!(
        renewed(&browser, WORKSPACE, &workspace).await,
        Err(Answer::Refused)
    );
    assert_eq!(asked(&provider), 0);
}

#[tokio::test]
async fn without_the_api_server_one_is_told_that_workspaces_stay_open() {
    let (_provider, mut browser) = signed_in().await;
    browser.server.go_away().await;
    let own = [("sec-fetch-site", "same-origin")];
    let answer = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
    answer.assert_page(StatusCode::SERVICE_UNAVAILABLE, "/auth/login");
    assert!(browser.session(CONSOLE).is_none());
}

#[tokio::test]
async fn nobody_can_tell_while_the_api_server_is_away() {
    let (provider, mut browser) = signed_in().await;
    browser.server.go_away().await;
    browser.wait(20 * MINUTE);
    let token = browser.token(CONSOLE);
    assert_eq!(
        renewed(&browser, CONSOLE, &token).await,
        Err(Answer::Unknown)
    );
    assert_eq!(asked(&provider), 0);
    // What it opens meanwhile is looked at again within the minute.
    let found = browser.session(CONSOLE).expect("a session");
    let as_it_is = Kept::Counts {
        renewed: None,
        until: browser.now() + MINUTE,
        cookie: None,
    };
    assert_eq!(browser.login.keep(&found).await, as_it_is);
    // For an hour beyond its freshness it opens workspaces all the same, by tokens that are no
    // fresher than it is.
    let stale = browser.session(CONSOLE).expect("a session").fresh_until;
    let open = browser.meet(WORKSPACE, "/");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    let there = browser.session(WORKSPACE).expect("a session");
    assert_eq!(there.fresh_until, stale);
    browser.wait(55 * MINUTE);
    let open = browser.meet(WORKSPACE, "/");
    let answer = browser.get(CONSOLE, &open).await;
    assert!(answer.location().starts_with("/auth/login?"));
}

#[tokio::test]
async fn only_good_tokens_on_their_own_host_are_renewed() {
    let (_provider, browser) = signed_in().await;
    let good = browser.token(CONSOLE);
    let altered = format!("{good}x");
    let session = |change: fn(&mut Session)| {
        let mut session = Session {
            sub: "alice".to_owned(),
            roles: Vec::new(),
            sid: "unheard of".to_owned(),
            expires: browser.now() + HOUR,
            fresh_until: Some(browser.now() + MINUTE),
        };
        change(&mut session);
        let signer = browser.signer();
        signer
            .sign_session(&session, CONSOLE, browser.now())
            .expect("a token")
    };
    let unknown = session(|_| {});
    let earlier = session(|session| session.fresh_until = None);
    let held = [
        (CONSOLE, good.as_str()),
        (WORKSPACE, &good),
        ("", &good),
        (CONSOLE, &altered),
        (CONSOLE, ""),
        (CONSOLE, &unknown),
        // An earlier version's counts until it ends: there is nothing to renew.
        (CONSOLE, &earlier),
    ];
    let answers = browser.renew(&held).await;
    assert!(matches!(answers[0], Answer::Renewed { .. }));
    assert_eq!(answers[1..6], [const { Answer::Refused }; 5]);
    assert_eq!(answers[6], Answer::Unknown);
    assert!(browser.renew(&[]).await.is_empty());
    // Somebody else's record, by a token of one's own.
    let kept = record(&browser).await;
    let token = Session {
        sub: "bob".to_owned(),
        roles: Vec::new(),
        sid: kept.sid,
        expires: kept.ends,
        fresh_until: Some(browser.now()),
    };
    let token = browser
        .signer()
        .sign_session(&token, CONSOLE, browser.now());
    let token = token.expect("a token");
    assert_eq!(
        renewed(&browser, CONSOLE, &token).await,
        Err(Answer::Refused)
    );
}
