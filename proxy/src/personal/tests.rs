use super::*;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use nogoo9_model::access::{Caller, Role};
use nogoo9_model::personal_token::{ENTROPY, VERSION, token};
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tokio::net::TcpListener;
use url::Url;

const NOW: UnixSeconds = 1_800_000_000;

/// A control that answers by a given status, and counts.
#[derive(Clone, Default)]
struct Answers {
    status: Arc<AtomicU16>,
    asked: Arc<AtomicUsize>,
}

impl Answers {
    fn set(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(State(answers): State<Answers>, headers: HeaderMap) -> Response {
    answers.asked.fetch_add(1, Ordering::SeqCst);
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
    let answers = Answers::default();
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
