use super::*;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nogoo9_model::access::{Caller, Role};
use nogoo9_model::personal_token::{ENTROPY, VERSION, token};
use nogoo9_runtime::limit::{Counted, Failures};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;

const NOW: UnixSeconds = 1_800_000_000;

/// A control that answers by a given status, once it may, and counts.
#[derive(Clone)]
struct Answers {
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
    /// Questions under way.
    open: Arc<AtomicUsize>,
    /// The most of them at once.
    most: Arc<AtomicUsize>,
    may: watch::Sender<bool>,
}

impl Answers {
    fn set(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn until_asked(&self, times: usize) {
        let asked = async {
            while self.asked() < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let patience = Duration::from_secs(60);
        tokio::time::timeout(patience, asked).await.expect("asked");
    }
}

async fn answer(State(answers): State<Answers>, headers: HeaderMap) -> Response {
    let open = answers.open.fetch_add(1, Ordering::SeqCst) + 1;
    answers.most.fetch_max(open, Ordering::SeqCst);
    answers.asked.fetch_add(1, Ordering::SeqCst);
    let mut may = answers.may.subscribe();
    may.wait_for(|may| *may).await.unwrap();
    answers.open.fetch_sub(1, Ordering::SeqCst);
    let bearer = headers["authorization"].to_str().unwrap();
    assert!(bearer.starts_with("Bearer ng9_"), "{bearer}");
    match answers.status.load(Ordering::SeqCst) {
        200 => Json(Proven {
            version: VERSION,
            caller: Caller {
                sub: "alice".into(),
                roles: vec!["user".into()],
                role: Role::User,
                scopes: Some(["nogoo9:read".to_owned()].into()),
            },
            expires: NOW + 24 * 3600,
        })
        .into_response(),
        status => StatusCode::from_u16(status).unwrap().into_response(),
    }
}

async fn control(status: u16) -> (Answers, Personal) {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let answers = Answers {
        status: Arc::default(),
        asked: Arc::default(),
        open: Arc::default(),
        most: Arc::default(),
        may: watch::Sender::new(true),
    };
    answers.set(status);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let routes = Router::new()
        .route(PATH, get(answer))
        .with_state(answers.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let url = Url::parse(&url).unwrap();
    (answers, Personal::new(Control::new(&url)).unwrap())
}

/// As if what was answered had been answered long ago.
fn later(personal: &mut Personal) {
    personal.fresh = Duration::ZERO;
    personal.recent.invalidate_all();
}

#[tokio::test]
async fn many_at_once_are_one_question() {
    let (answers, personal) = control(200).await;
    let token = token(&[1; ENTROPY]);
    assert_eq!(personal.remembered(&token, NOW), None);
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (personal, token) = (personal.clone(), token.clone());
            tokio::spawn(async move { personal.ask(&token, NOW).await })
        })
        .collect();
    for asked in asking {
        let verified = asked.await.unwrap().unwrap().unwrap();
        assert_eq!(
            (verified.caller.sub.as_str(), &verified.sid),
            ("alice", &None)
        );
    }
    assert_eq!(answers.asked(), 1);
    let remembered = personal.remembered(&token, NOW).unwrap().unwrap();
    assert_eq!(remembered.expires, NOW + MAX_AGE, "no socket outlives this");
    let scopes = remembered.caller.scopes.as_ref().unwrap();
    assert!(scopes.contains("nogoo9:read") && scopes.len() == 1);
    assert!(personal.ask(&token, NOW).await.unwrap().is_ok());
    assert_eq!(answers.asked(), 1);
    // Another token is another question.
    let other = personal_token::token(&[2; ENTROPY]);
    assert!(personal.ask(&other, NOW).await.unwrap().is_ok());
    assert_eq!(answers.asked(), 2);
}

#[tokio::test]
async fn refusals_are_remembered_and_nonsense_is_not_asked() {
    let (answers, personal) = control(401).await;
    let token = token(&[1; ENTROPY]);
    for _ in 0..3 {
        let refused = personal.ask(&token, NOW).await.unwrap();
        assert_eq!(refused.unwrap_err(), TokenError::UnknownToken);
    }
    assert_eq!(answers.asked(), 1);
    for nonsense in ["ng9_", "ng9_x", &token.to_uppercase(), &format!("{token}a")] {
        let refused = personal.ask(nonsense, NOW).await.unwrap();
        assert_eq!(refused.unwrap_err(), TokenError::UnknownToken);
    }
    assert_eq!(answers.asked(), 1);
}

#[tokio::test]
async fn what_is_known_counts_while_control_is_away() {
    let (answers, mut personal) = control(503).await;
    let token = token(&[1; ENTROPY]);
    assert_eq!(personal.ask(&token, NOW).await, Err(Unreachable));
    answers.set(200);
    assert!(personal.ask(&token, NOW).await.unwrap().is_ok());
    let asked = answers.asked();
    answers.set(503);
    later(&mut personal);
    assert!(personal.ask(&token, NOW).await.unwrap().is_ok());
    assert_eq!(answers.asked(), asked + 1, "it was asked all the same");
    assert!(personal.ask(&token, NOW).await.unwrap().is_ok());
    assert_eq!(answers.asked(), asked + 1, "and not by every request");
    // Once revoked it stays so, also if control goes away again.
    answers.set(401);
    later(&mut personal);
    assert!(personal.ask(&token, NOW).await.unwrap().is_err());
    answers.set(503);
    later(&mut personal);
    assert_eq!(personal.ask(&token, NOW).await, Err(Unreachable));
}

#[tokio::test]
async fn an_answer_counts_no_longer_than_the_token() {
    let (_answers, personal) = control(200).await;
    let token = token(&[1; ENTROPY]);
    let end = NOW + MAX_AGE;
    assert!(personal.ask(&token, NOW).await.unwrap().is_ok());
    assert!(personal.remembered(&token, end - 1).unwrap().is_ok());
    assert!(personal.remembered(&token, end).unwrap().is_err());
}

#[tokio::test]
async fn what_is_open_learns_of_a_revocation() {
    let (answers, mut personal) = control(200).await;
    let token = token(&[1; ENTROPY]);
    personal.recheck = Duration::from_millis(1);
    personal.fresh = Duration::ZERO;
    let watched = personal.clone();
    let open = tokio::spawn(async move { watched.revoked(&token, || NOW).await });
    let watching = async {
        // It goes on while it counts, and while nobody can tell.
        for status in [200, 503] {
            answers.set(status);
            let until = answers.asked() + 3;
            while answers.asked() < until {
                personal.recent.invalidate_all();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(!open.is_finished(), "{status}");
        }
        answers.set(401);
        while !open.is_finished() {
            personal.recent.invalidate_all();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), watching)
        .await
        .expect("it never learns");
}

/// Many different tokens, asked about for somebody at that address.
fn flood(
    personal: &Personal,
    failures: &Arc<Failures>,
    from: IpAddr,
    first: u8,
    count: u8,
) -> Vec<tokio::task::JoinHandle<Result<Verdict, Unreachable>>> {
    let ask = |n| {
        let (personal, failures) = (personal.clone(), Arc::clone(failures));
        tokio::spawn(async move {
            let place = failures.place(Some(from));
            let token = token(&[n; ENTROPY]);
            personal.ask_from(place, &token, NOW).await
        })
    };
    (first..first + count).map(ask).collect()
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_does_not_go_through_to_control() {
    let (answers, personal) = control(401).await;
    let failures = Failures::per_minute(1.try_into().unwrap(), Counted::default());
    let failures = Arc::new(failures);
    let (bad, good): (IpAddr, IpAddr) = ([203, 0, 113, 9].into(), [203, 0, 113, 10].into());
    failures
        .failed(bad, "personal_token", Instant::now())
        .unwrap();
    answers.may.send_replace(false);
    let mut asking = flood(&personal, &failures, bad, 0, 8);
    answers.until_asked(2).await;
    // Others do not wait for them.
    let others = flood(&personal, &failures, good, 100, 8);
    answers.until_asked(10).await;
    assert_eq!(answers.most.load(Ordering::SeqCst), 10);
    answers.may.send_replace(true);
    asking.extend(others);
    for asked in asking {
        let refused = asked.await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err(), TokenError::UnknownToken);
    }
    assert_eq!(
        (answers.asked(), answers.most.load(Ordering::SeqCst)),
        (16, 10)
    );
    // What is remembered needs no place.
    let waits = std::future::pending::<()>();
    let known = personal.ask_from(waits, &token(&[0; ENTROPY]), NOW).await;
    assert!(known.unwrap().is_err());
}
