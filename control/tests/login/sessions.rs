//! How long a session lasts, and who ends it. Time is the test's.

use crate::browser::{Browser, CONSOLE, HOUR, WORKSPACE, ask, config, path_of};
use crate::provider::{Provider, Whims};
use axum::http::StatusCode;
use nogoo9_control::login::Kept;
use nogoo9_control::session::{Limits, MOST, SessionRecord, sweep};
use nogoo9_identity::session::Session;
use nogoo9_model::label;
use nogoo9_model::name;
use nogoo9_model::renew::Answer;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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

#[tokio::test]
async fn what_is_kept_of_a_session() {
    let (_provider, browser) = signed_in().await;
    let kept = record(&browser).await;
    assert_eq!((kept.sub.as_str(), kept.revoked), ("alice", None));
    let secrets = browser.server.secrets();
    let name = name::session(&kept.id());
    let secret = secrets.get(&name).await.expect("the record");
    let labels = secret.metadata.labels.expect("labels");
    assert_eq!(labels["nogoo9/kind"], "session");
    assert_eq!(labels["nogoo9/user-sub"], label::owner("alice"));
    let json = secret.data.expect("data")["session.json"].clone();
    let json = String::from_utf8(json.0).expect("text");
    assert!(!json.contains("refresh-0"), "{json}");
    assert!(kept.refresh.is_some_and(|sealed| json.contains(&sealed)));
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

#[tokio::test]
async fn the_oldest_session_makes_room() {
    let (provider, mut browser) = signed_in().await;
    let oldest = browser.token(CONSOLE);
    let cluster = browser.server.cluster.clone();
    for n in 1..MOST {
        let one = SessionRecord::begin(
            format!("sid-{n}"),
            "alice".to_owned(),
            Vec::new(),
            None,
            &Limits::default(),
            browser.now() + 1,
        );
        cluster.create_session(&one).await.expect("created");
    }
    let others = SessionRecord::begin(
        "sid".to_owned(),
        "bob".to_owned(),
        Vec::new(),
        None,
        &Limits::default(),
        browser.now() - 1,
    );
    cluster.create_session(&others).await.expect("created");
    assert!(renewed(&browser, CONSOLE, &oldest).await.is_ok());
    browser.wait(2);
    browser.sign_in(&provider, "/auth/login").await.location();
    assert_eq!(
        renewed(&browser, CONSOLE, &oldest).await,
        Err(Answer::Refused)
    );
    assert!(
        renewed(&browser, CONSOLE, &browser.token(CONSOLE))
            .await
            .is_ok()
    );
    let mine = cluster.sessions(Some("alice")).await.expect("a list");
    assert_eq!(mine.len(), MOST);
    let all = cluster.sessions(None).await.expect("a list");
    assert_eq!(all.len(), MOST + 1);
}

#[tokio::test]
async fn what_is_over_is_swept_away() {
    let (_provider, browser) = signed_in().await;
    let cluster = browser.server.cluster.clone();
    let lives = record(&browser).await;
    let now = cluster.now();
    let make = |sid: &str, started: i64| {
        SessionRecord::begin(
            sid.to_owned(),
            "alice".to_owned(),
            Vec::new(),
            None,
            &Limits::default(),
            started,
        )
    };
    let over = make("over", now - 2 * HOUR);
    let revoked = make("revoked", now - HOUR / 2).revoke(now - MINUTE);
    for one in [&over, &revoked] {
        cluster.create_session(one).await.expect("created");
    }
    let stopped = CancellationToken::new();
    stopped.cancel();
    // One pass, since it is told to stop already.
    sweep(cluster.clone(), stopped).await;
    let left = cluster.sessions(None).await.expect("a list");
    let mut left: Vec<String> = left.into_iter().map(|one| one.value.sid).collect();
    left.sort();
    let mut wanted = vec![lives.sid, "revoked".to_owned()];
    wanted.sort();
    assert_eq!(left, wanted);
}
