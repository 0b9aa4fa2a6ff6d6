use super::*;

fn ids() -> (Arc<str>, Arc<str>, Arc<str>) {
    (Arc::from("dev"), Arc::from("old"), Arc::from("new"))
}

#[test]
fn counts_by_pod_while_entered() {
    let (dev, old, new) = ids();
    let sessions = Sessions::new();
    let a = sessions.enter(&dev, &old, Kind::Request);
    let _b = sessions.enter(&dev, &old, Kind::Socket);
    let _c = sessions.enter(&dev, &new, Kind::Request);
    let _other = sessions.enter(&Arc::from("other"), &new, Kind::Request);
    let seen = sessions.to_wire("dev");
    assert_eq!(
        seen.sessions,
        BTreeMap::from([("old".to_owned(), 2), ("new".to_owned(), 1)])
    );
    drop(a);
    assert_eq!(sessions.to_wire("dev").sessions.get("old"), Some(&1));
    assert_eq!(
        (sessions.count(Kind::Request), sessions.count(Kind::Socket)),
        (2, 1)
    );
}

#[test]
fn requests_are_counted_apart_until_they_are_idle_streams() {
    let (dev, old, new) = ids();
    let sessions = old_registry(Duration::from_secs(60));
    let silent = |entered: &Entered| {
        let now = sessions.clock();
        let then = now.saturating_sub(milliseconds(STREAM_IDLE));
        entered.open.last_data.store(then, Ordering::Relaxed);
    };
    let _socket = sessions.enter(&dev, &old, Kind::Socket);
    let request = sessions.enter(&dev, &old, Kind::Request);
    let _other = sessions.enter(&dev, &new, Kind::Request);
    let counted = || sessions.to_wire("dev").requests.get("old").copied();
    assert_eq!(counted(), Some(1), "not the socket");
    silent(&request);
    assert_eq!(counted(), Some(1), "a slow answer is no stream");
    request.begun();
    assert_eq!(counted(), Some(1), "it is being answered");
    silent(&request);
    assert_eq!(counted(), None, "a stream between two events");
    assert_eq!(sessions.to_wire("dev").sessions.get("old"), Some(&2));
    request.data();
    assert_eq!(counted(), Some(1));
    drop(request);
    let left = sessions.to_wire("dev").requests;
    assert_eq!(left, BTreeMap::from([("new".to_owned(), 1)]));
}

/// As if the registry had begun that long ago.
fn old_registry(age: Duration) -> Sessions {
    let mut sessions = Sessions::new();
    if let Some(inner) = Arc::get_mut(&mut sessions.0)
        && let Some(earlier) = inner.started.checked_sub(age)
    {
        inner.started = earlier;
    }
    sessions
}

#[test]
fn silent_sessions_do_not_count() {
    let (dev, old, _) = ids();
    let sessions = old_registry(Duration::from_secs(660));
    let entered = sessions.enter(&dev, &old, Kind::Socket);
    entered.open.last_data.store(0, Ordering::Relaxed);
    assert!(sessions.to_wire("dev").sessions.is_empty());
    entered.data();
    assert_eq!(sessions.to_wire("dev").sessions.len(), 1);
}

#[tokio::test]
async fn only_sockets_are_ended() {
    let (dev, old, new) = ids();
    let sessions = Sessions::new();
    let socket = sessions.enter(&dev, &old, Kind::Socket);
    let _request = sessions.enter(&dev, &old, Kind::Request);
    let elsewhere = sessions.enter(&dev, &new, Kind::Socket);
    assert_eq!(sessions.end_pod("other", "old", End::Restart), 0);
    assert_eq!(sessions.end_pod("dev", "old", End::Restart), 1);
    assert_eq!(socket.ended().await, End::Restart);
    assert_eq!(sessions.end_pod("dev", "old", End::Restart), 0, "once");
    elsewhere.end(End::Expired);
    elsewhere.end(End::Restart);
    assert_eq!(elsewhere.ended().await, End::Expired, "the first reason");
}

#[tokio::test]
async fn whoever_waits_already_is_woken() {
    let (dev, old, _) = ids();
    let sessions = Sessions::new();
    let socket = Arc::new(sessions.enter(&dev, &old, Kind::Socket));
    let waiting = tokio::spawn({
        let socket = socket.clone();
        async move { socket.ended().await }
    });
    tokio::task::yield_now().await;
    socket.end(End::Idle);
    assert_eq!(waiting.await.unwrap(), End::Idle);
}

#[tokio::test]
async fn a_proxy_that_stops_ends_those_that_are_open_and_those_that_come() {
    let (dev, old, new) = ids();
    let sessions = Sessions::new();
    let first = sessions.enter(&dev, &old, Kind::Socket);
    let _request = sessions.enter(&dev, &old, Kind::Request);
    let second = sessions.enter(&Arc::from("other"), &new, Kind::Socket);
    let open = sessions.stop();
    assert_eq!(open.len(), 2);
    assert!(open[0].end(End::Shutdown), "the oldest first");
    assert_eq!(first.ended().await, End::Shutdown);
    assert!(!open[0].end(End::Shutdown));
    assert_eq!(second.open.end.load(Ordering::Relaxed), 0, "not yet");
    let late = sessions.enter(&dev, &old, Kind::Socket);
    assert_eq!(late.ended().await, End::Shutdown);
}

#[test]
fn nothing_is_kept_of_workspaces_without_sessions() {
    let sessions = Sessions::new();
    let pod: Arc<str> = Arc::from("pod");
    let ids: Vec<Arc<str>> = (0..100).map(|n| Arc::from(format!("w{n}"))).collect();
    for _ in 0..3 {
        let all: Vec<Entered> = ids
            .iter()
            .map(|id| sessions.enter(id, &pod, Kind::Request))
            .collect();
        assert_eq!(known(&sessions), 100);
        drop(all);
        assert_eq!(known(&sessions), 0);
    }
    assert_eq!(sessions.count(Kind::Request), 0);
}

fn known(sessions: &Sessions) -> usize {
    let shards = sessions.0.shards.iter();
    shards.map(|shard| lock(shard).len()).sum()
}

/// Many threads enter and leave the same few workspaces, whose last session leaves all the time:
/// what is entered is there until it leaves, and nothing stays.
#[test]
fn entering_meets_leaving() {
    let sessions = Sessions::new();
    let pod: Arc<str> = Arc::from("pod");
    let ids: [Arc<str>; 2] = [Arc::from("a"), Arc::from("b")];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (sessions, pod, ids) = (sessions.clone(), pod.clone(), &ids);
            scope.spawn(move || {
                for n in 0..2_000 {
                    let id = &ids[(n + thread) % 2];
                    let entered = sessions.enter(id, &pod, Kind::Socket);
                    assert!(sessions.to_wire(id).sessions["pod"] >= 1);
                    assert!(sessions.end_pod(id, &pod, End::Restart) <= 4);
                    assert_ne!(entered.open.end.load(Ordering::Relaxed), 0);
                }
            });
        }
    });
    assert_eq!(sessions.count(Kind::Socket), 0);
    assert_eq!(known(&sessions), 0);
}

#[test]
fn what_another_proxy_is_told_of_is_kept_for_a_while() {
    let (dev, old, new) = ids();
    let sessions = Sessions::new();
    let key = |byte: &str| SessionKey::from_hex(&byte.repeat(32)).unwrap();
    let (mine, theirs) = (key("0a"), key("0b"));
    let socket = sessions.enter(&dev, &old, Kind::Socket);
    socket.holds(mine);
    let _request = sessions.enter(&dev, &new, Kind::Request);
    let of = |sessions: &Sessions| sessions.to_wire("dev").sessions;
    let asked = ["old", "older"].map(ToOwned::to_owned);
    assert!(sessions.lend("dev", theirs, &asked).is_empty());
    assert!(sessions.lend("other", mine, &asked).is_empty());
    // What nobody has asked about is not kept for them.
    assert!(sessions.lend("dev", mine, &asked[1..]).is_empty());
    assert_eq!(of(&sessions).get("old"), Some(&1));
    assert_eq!(sessions.lend("dev", mine, &asked), [old]);
    assert_eq!(of(&sessions).get("old"), Some(&2));
    drop(socket);
    assert!(sessions.lend("dev", mine, &asked).is_empty());
    let told = sessions.to_wire("dev");
    assert_eq!(told.sessions.get("old"), Some(&1), "the lease");
    assert_eq!(told.sessions.get("new"), Some(&1));
    assert_eq!(told.requests.get("old"), None, "no recreate waits for it");
    assert_eq!(sessions.count(Kind::Socket), 0);
}
