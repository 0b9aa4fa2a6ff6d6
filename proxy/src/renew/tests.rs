use super::*;
use crate::clock::Hand;
use axum::routing::post;
use axum::{Json, Router};
use nogoo9_model::access::{Caller, Role};
use nogoo9_model::renew::{Answer, Answers, PATH, Question, VERSION};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use url::Url;

const START: UnixSeconds = 1_000_000;
const HALF_A_DAY: UnixSeconds = 12 * 3600;
const MINUTE: UnixSeconds = 60;

/// One test's control and time.
struct Stage {
    clock: Clock,
    hand: Hand,
    questions: AtomicUsize,
    asked: AtomicUsize,
    refuses: Mutex<Vec<String>>,
    silent: AtomicBool,
}

impl Stage {
    fn new() -> Arc<Self> {
        let (clock, hand) = Clock::by_hand(START);
        Arc::new(Self {
            clock,
            hand,
            questions: AtomicUsize::new(0),
            asked: AtomicUsize::new(0),
            refuses: Mutex::new(Vec::new()),
            silent: AtomicBool::new(false),
        })
    }

    fn now(&self) -> UnixSeconds {
        self.clock.now()
    }

    fn wait(&self, seconds: UnixSeconds) {
        self.hand.pass(seconds);
    }

    /// As control answers: sessions last for half a day, tokens for a quarter of an hour.
    fn answer(&self, question: &Question) -> Answers {
        self.questions.fetch_add(1, Ordering::SeqCst);
        self.asked
            .fetch_add(question.sessions.len(), Ordering::SeqCst);
        let refuses = self.refuses.lock().unwrap();
        let ends = START + HALF_A_DAY;
        let answer = |host: &String| {
            if refuses.contains(host) || self.now() >= ends {
                return Answer::Refused;
            }
            let fresh_until = (self.now() + 15 * MINUTE).min(ends);
            Answer::Renewed {
                token: format!("{host} until {fresh_until}"),
                fresh_until,
                ends,
            }
        };
        let answers = question.sessions.iter().map(|held| answer(&held.host));
        Answers {
            version: VERSION,
            answers: answers.collect(),
        }
    }

    async fn serve(self: &Arc<Self>) -> Renewals {
        let _already = rustls::crypto::ring::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stage = Arc::clone(self);
        let answer = move |Json(question): Json<Question>| {
            let stage = Arc::clone(&stage);
            async move {
                let silent = stage.silent.load(Ordering::SeqCst);
                let answer = stage.answer(&question);
                if silent {
                    std::future::pending::<()>().await;
                }
                Json(answer)
            }
        };
        let router = Router::new().route(PATH, post(answer));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let control = Control::new(&Url::parse(&url).unwrap());
        let metrics = Metrics::new(&mut prometheus_client::registry::Registry::default());
        Renewals::start(
            control,
            Duration::from_secs(3600),
            metrics,
            self.clock.clone(),
        )
        .unwrap()
    }
}

fn held(sid: &str) -> Verified {
    Verified {
        caller: Caller {
            sub: "alice".to_owned(),
            roles: Vec::new(),
            role: Role::User,
            scopes: None,
        },
        expires: START + HALF_A_DAY,
        sid: Some(sid.to_owned()),
        fresh_until: Some(START + 15 * MINUTE),
    }
}

/// Waits until nobody is being asked.
async fn answered(entry: &Entry, now: UnixSeconds) {
    let mut answers = entry.known.subscribe();
    let done = answers.wait_for(|known| !known.is_asking(now));
    let done = tokio::time::timeout(Duration::from_secs(60), done).await;
    done.expect("an answer").expect("the entry lives");
}

#[tokio::test]
async fn a_page_that_only_polls_lives_for_half_a_day() {
    let stage = Stage::new();
    let renewals = stage.serve().await;
    let verified = held("s1");
    // The browser keeps what it is handed; nobody ever waits for control.
    let mut fresh = START + 15 * MINUTE;
    let mut renewed = 0;
    let entry = renewals.entry(&verified, "first", "dev").unwrap();
    while stage.now() < START + HALF_A_DAY {
        let verdict = renewals.look(&entry, fresh, stage.now());
        assert!(matches!(verdict, Verdict::Accept { .. }), "{verdict:?}");
        answered(&entry, stage.now()).await;
        if let Some((_, ends)) = entry.newer(fresh) {
            assert_eq!(ends, START + HALF_A_DAY);
            fresh = entry.known.borrow().fresh_until;
            renewed += 1;
        }
        stage.wait(MINUTE);
    }
    assert_eq!(renewals.look(&entry, fresh, stage.now()), Verdict::Refuse);
    // Every ten minutes; the last of them counts up to the end.
    assert_eq!(renewed, 71);
    // Towards the end, when no token can count for longer than the session, once a minute.
    let asked = stage.asked.load(Ordering::SeqCst);
    assert!((71..=76).contains(&asked), "{asked}");
}

#[tokio::test]
async fn a_page_that_was_asleep_comes_back_and_one_that_was_ended_does_not() {
    let stage = Stage::new();
    let renewals = stage.serve().await;
    let verified = held("s1");
    let fresh = START + 15 * MINUTE;
    stage.wait(5 * 3600);
    let awake = renewals.entry(&verified, "first", "dev").unwrap();
    let now = stage.now();
    assert_eq!(
        renewals.ask_first(&awake, fresh, now).await,
        Asked::Accepted
    );
    let (token, _) = awake.newer(fresh).expect("a newer token");
    assert_eq!(&*token, format!("dev until {}", now + 15 * MINUTE));
    stage.refuses.lock().unwrap().push("dev".to_owned());
    // It counts for the rest of its quarter of an hour, or until control is asked.
    stage.wait(9 * MINUTE);
    let verdict = renewals.look(&awake, fresh, stage.now());
    assert_eq!(verdict, Verdict::Accept { ask: false });
    stage.wait(6 * MINUTE);
    let ended = renewals.ask_first(&awake, fresh, stage.now()).await;
    assert_eq!(ended, Asked::Refused);
    assert!(awake.newer(fresh).is_none());
}

/// Waits until control was asked so often.
async fn questions(stage: &Stage, count: usize) {
    let asked = async {
        while stage.questions.load(Ordering::SeqCst) < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
    asked.expect("a question");
}

#[tokio::test]
async fn a_control_that_takes_questions_and_is_silent_is_waited_for_once() {
    let stage = Stage::new();
    let renewals = stage.serve().await;
    stage.silent.store(true, Ordering::SeqCst);
    let fresh = START + 15 * MINUTE;
    stage.wait(15 * MINUTE);
    let entry = renewals.entry(&held("s1"), "first", "dev").unwrap();
    let mut first = Box::pin(renewals.ask_first(&entry, fresh, stage.now()));
    assert!(futures::poll!(&mut first).is_pending());
    questions(&stage, 1).await;
    // As when its flight ends, which takes too long.
    entry.settle(None, stage.now());
    assert_eq!(first.await, Asked::Accepted);
    for _ in 0..2 {
        stage.wait(10);
        let next = Box::pin(renewals.ask_first(&entry, fresh, stage.now()));
        assert_eq!(futures::poll!(next), Poll::Ready(Asked::Accepted));
    }
    // It was asked in passing, and what it says counts as soon as it says something.
    questions(&stage, 2).await;
    stage.silent.store(false, Ordering::SeqCst);
    stage.refuses.lock().unwrap().push("dev".to_owned());
    stage.wait(20);
    let last = Box::pin(renewals.ask_first(&entry, fresh, stage.now()));
    assert_eq!(futures::poll!(last), Poll::Ready(Asked::Accepted));
    answered(&entry, stage.now()).await;
    let refused = renewals.ask_first(&entry, fresh, stage.now()).await;
    assert_eq!(refused, Asked::Refused);
}

#[tokio::test]
async fn many_that_come_at_once_travel_together() {
    let stage = Stage::new();
    let renewals = stage.serve().await;
    stage.wait(HALF_A_DAY / 2);
    let entries: Vec<_> = (0..1000)
        .map(|n| {
            let verified = held(&format!("s{n}"));
            renewals.entry(&verified, "first", "dev").unwrap()
        })
        .collect();
    // None of them is sent before all wait: nothing here lets another task run.
    for entry in &entries {
        let verdict = renewals.look(entry, START, stage.now());
        assert_eq!(verdict, Verdict::AskFirst { ask: true });
    }
    for entry in &entries {
        answered(entry, stage.now()).await;
        assert!(entry.newer(START).is_some());
    }
    assert_eq!(stage.asked.load(Ordering::SeqCst), 1000);
    assert_eq!(stage.questions.load(Ordering::SeqCst), 10);
}
