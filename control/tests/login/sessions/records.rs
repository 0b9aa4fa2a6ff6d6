//! Records of sessions: what is in them, how many one person has, and when they go.

use super::{MINUTE, record, renewed, signed_in};
use crate::browser::{CONSOLE, HOUR};
use nogoo9_control::session::{Limits, MOST, SessionRecord, sweep};
use nogoo9_model::label;
use nogoo9_model::name;
use nogoo9_model::renew::Answer;
use tokio_util::sync::CancellationToken;

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
