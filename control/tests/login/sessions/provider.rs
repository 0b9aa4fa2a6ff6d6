//! What becomes of a session by what its provider says, or does not say, when it is asked again.

use super::{MINUTE, asked, record, renewed, signed_in};
use crate::browser::{CONSOLE, HOUR, WORKSPACE, ask, path_of};
use crate::provider::Whims;
use nogoo9_model::renew::Answer;
use serde_json::json;

#[tokio::test]
async fn the_provider_is_asked_every_ten_minutes_at_most() {
    let (provider, browser) = signed_in().await;
    let begun = browser.now();
    let token = browser.token(CONSOLE);
    for (wait, times, until) in [
        (0, 0, 15),
        (9, 0, 15),
        // All hosts of a browser rest on one answer.
        (1, 1, 25),
        (0, 1, 25),
        (9, 1, 25),
        (1, 2, 35),
    ] {
        browser.wait(wait * MINUTE);
        let (_, fresh) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
        assert_eq!((asked(&provider), fresh - begun), (times, until * MINUTE));
    }
}

#[tokio::test]
async fn somebody_whom_the_provider_has_disabled_is_out_on_all_hosts() {
    let (provider, mut browser) = signed_in().await;
    let open = browser.meet(WORKSPACE, "/");
    let to_workspace = browser.get(CONSOLE, &open).await.location().to_owned();
    browser.get(WORKSPACE, &path_of(&to_workspace)).await;
    let (console, workspace) = (browser.token(CONSOLE), browser.token(WORKSPACE));
    let fresh = browser.session(WORKSPACE).expect("a session").fresh_until;
    assert_eq!(
        fresh,
        browser.session(CONSOLE).expect("a session").fresh_until
    );
    provider.whims(|whims| {
        let no = json!({"error": "invalid_grant"}).to_string();
        whims.no_refresh = Some((400, no));
    });
    browser.wait(10 * MINUTE);
    let held = [(WORKSPACE, workspace.as_str()), (CONSOLE, console.as_str())];
    assert_eq!(
        browser.renew(&held).await,
        [Answer::Refused, Answer::Refused]
    );
    // The provider has said so once, and what it gave is forgotten.
    assert_eq!(asked(&provider), 1);
    let kept = record(&browser).await;
    assert_eq!((kept.revoked, kept.refresh), (Some(browser.now()), None));
    provider.whims(|whims| whims.no_refresh = None);
    browser.wait(30 * MINUTE);
    assert_eq!(
        browser.renew(&held).await,
        [Answer::Refused, Answer::Refused]
    );
    // Opening a workspace leads to the provider.
    let open = browser.meet(WORKSPACE, "/");
    let answer = browser.get(CONSOLE, &open).await;
    assert!(answer.location().starts_with("/auth/login?"));
}

#[tokio::test]
async fn a_provider_that_is_away_signs_nobody_out() {
    type Whim = fn(&mut Whims);
    let table: [(&str, Whim); 5] = [
        ("trouble", |w| w.no_refresh = Some((500, "oh".to_owned()))),
        ("trouble that it gives a name", |w| {
            let unknown = json!({"error": "unknown_error"}).to_string();
            w.no_refresh = Some((500, unknown));
        }),
        ("too much asked", |w| {
            let many = json!({"error": "too_many_requests"}).to_string();
            w.no_refresh = Some((429, many));
        }),
        ("busy", |w| {
            let busy = json!({"error": "temporarily_unavailable"}).to_string();
            w.no_refresh = Some((503, busy));
        }),
        ("busy, by another status", |w| {
            let busy = json!({"error": "temporarily_unavailable"}).to_string();
            w.no_refresh = Some((400, busy));
        }),
    ];
    for (name, whim) in table {
        let (provider, browser) = signed_in().await;
        provider.whims(whim);
        let token = browser.token(CONSOLE);
        browser.wait(20 * MINUTE);
        let (_, until) = renewed(&browser, CONSOLE, &token).await.expect(name);
        assert_eq!(until, browser.now() + 5 * MINUTE, "{name}");
        // It is asked again after a pause, and not before.
        let (_, until) = renewed(&browser, CONSOLE, &token).await.expect(name);
        let five = browser.now() + 5 * MINUTE;
        assert_eq!((until, asked(&provider)), (five, 1), "{name}");
        browser.wait(MINUTE);
        provider.whims(|whims| whims.no_refresh = None);
        let (_, until) = renewed(&browser, CONSOLE, &token).await.expect(name);
        assert_eq!(until, browser.now() + 15 * MINUTE, "{name}");
        // Never beyond its end.
        provider.go_away().await;
        browser.wait(12 * HOUR - 21 * MINUTE - 1);
        let (_, until) = renewed(&browser, CONSOLE, &token).await.expect(name);
        assert_eq!(until, browser.now() + 1, "{name}");
        browser.wait(1);
        assert_eq!(
            renewed(&browser, CONSOLE, &token).await,
            Err(Answer::Refused)
        );
    }
}

/// One that answers and does not take us vouches for nobody: that has an end.
#[tokio::test]
async fn a_provider_that_does_not_take_us_keeps_nobody_in_for_ever() {
    let invalid_client = json!({"error": "invalid_client"}).to_string();
    for (status, body) in [
        (401, invalid_client),
        (404, String::new()),
        (200, "<html>".to_owned()),
    ] {
        let (provider, browser) = signed_in().await;
        let untaken = (status, body.clone());
        provider.whims(|whims| whims.no_refresh = Some(untaken.clone()));
        let token = browser.token(CONSOLE);
        let minutes = |until: Result<(String, i64), Answer>| {
            let (_, until) = until.expect("renewed");
            (until - browser.now()) / MINUTE
        };
        browser.wait(20 * MINUTE);
        assert_eq!(minutes(renewed(&browser, CONSOLE, &token).await), 5);
        // Mended within an hour, nobody has noticed.
        provider.whims(|whims| whims.no_refresh = None);
        browser.wait(50 * MINUTE);
        assert_eq!(minutes(renewed(&browser, CONSOLE, &token).await), 15);
        provider.whims(|whims| whims.no_refresh = Some(untaken));
        browser.wait(73 * MINUTE);
        assert_eq!(minutes(renewed(&browser, CONSOLE, &token).await), 2);
        browser.wait(2 * MINUTE - 1);
        assert!(renewed(&browser, CONSOLE, &token).await.is_ok());
        browser.wait(MINUTE + 1);
        let over = renewed(&browser, CONSOLE, &token).await;
        assert_eq!(over, Err(Answer::Refused), "{status} {body}");
        assert_eq!(record(&browser).await.revoked, Some(browser.now()));
    }
}

#[tokio::test]
async fn no_is_no_whatever_the_status() {
    let (provider, browser) = signed_in().await;
    let no = json!({"error": "invalid_grant"}).to_string();
    provider.whims(|whims| whims.no_refresh = Some((500, no)));
    browser.wait(10 * MINUTE);
    let token = browser.token(CONSOLE);
    let over = renewed(&browser, CONSOLE, &token).await;
    assert_eq!(over, Err(Answer::Refused));
}

/// While another control asks, nothing counts for longer than what the provider last said yes to.
#[tokio::test]
async fn fifteen_minutes_are_no_sixteen() {
    let (provider, browser) = signed_in().await;
    let begun = browser.now();
    let token = browser.token(CONSOLE);
    let cluster = &browser.server.cluster;
    let id = record(&browser).await.id();
    let claim = async || {
        let stored = cluster.session(&id).await.expect("read").expect("there");
        let claim = stored.value.clone().claim(browser.now());
        cluster.put_session(&stored, &claim).await.expect("written")
    };
    browser.wait(14 * MINUTE);
    claim().await;
    let (_, until) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
    assert_eq!(until, begun + 15 * MINUTE);
    browser.wait(2 * MINUTE);
    let claimed = claim().await;
    let nobody_knows = renewed(&browser, CONSOLE, &token).await;
    assert_eq!(nobody_knows, Err(Answer::Unknown));
    // Once the other has its answer, both have.
    let vouched = claimed.value.clone().vouched(None, None, browser.now());
    let written = cluster.put_session(&claimed, &vouched).await;
    written.expect("written");
    let (_, until) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
    assert_eq!((until - begun, asked(&provider)), (31 * MINUTE, 0));
}

#[tokio::test]
async fn a_refresh_token_is_used_once_whoever_asks() {
    let (provider, browser) = signed_in().await;
    let token = browser.token(CONSOLE);
    for round in 1..=5 {
        browser.wait(10 * MINUTE);
        let held = [(CONSOLE, token.as_str()); 3];
        let (one, other, more) = tokio::join!(
            browser.renew(&held),
            ask(&browser.standby, &held),
            ask(&browser.standby, &held)
        );
        for answer in one.iter().chain(&other).chain(&more) {
            // Those who came second may have a token for the meantime.
            assert!(matches!(answer, Answer::Renewed { .. }), "{answer:?}");
        }
        assert_eq!(asked(&provider), round);
    }
    assert!(renewed(&browser, CONSOLE, &token).await.is_ok());
}

#[tokio::test]
async fn roles_follow_the_provider_and_the_subject_never_changes() {
    let (provider, browser) = signed_in().await;
    let token = browser.token(CONSOLE);
    let roles = async || {
        let (token, _) = renewed(&browser, CONSOLE, &token).await.expect("renewed");
        let at = browser.now();
        let found = browser.verify(&token, CONSOLE, at).expect("a session");
        found.caller.roles.clone()
    };
    provider.whims(|whims| {
        whims.claims = Some(json!({"realm_access": {"roles": ["viewer"]}}));
    });
    browser.wait(10 * MINUTE);
    assert_eq!(roles().await, ["viewer"]);
    // An ID token that is missing, or does not verify, changes none.
    provider.whims(|whims| whims.no_id_token = true);
    browser.wait(10 * MINUTE);
    assert_eq!(roles().await, ["viewer"]);
    provider.whims(|whims| {
        whims.no_id_token = false;
        whims.claims = Some(json!({"aud": "somebody-else", "sub": "mallory"}));
    });
    browser.wait(10 * MINUTE);
    assert_eq!(roles().await, ["viewer"]);
    // One that says nothing of roles, after others that did, takes them.
    provider.whims(|whims| whims.claims = Some(json!({"realm_access": null})));
    browser.wait(10 * MINUTE);
    assert!(roles().await.is_empty());
    provider.whims(|whims| whims.claims = Some(json!({"sub": "mallory"})));
    browser.wait(10 * MINUTE);
    assert_eq!(
        renewed(&browser, CONSOLE, &token).await,
        Err(Answer::Refused)
    );
}
