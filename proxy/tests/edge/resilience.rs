//! Pods, control and the API server going away.

use crate::client::{Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn until_an_upgrade_is_committed_the_old_pod_stands_in_for_the_new_one() {
    let stage = Stage::start().await;
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    let old_pod = Spec::new("old", "dev", 1, old.address);
    let old_uid = stage.cluster.run(&old_pod).await;
    let candidate = Spec::new("new", "dev", 2, new.address);
    let new_uid = stage.cluster.create(&candidate).await;
    stage.cluster.mark("new", Some("candidate")).await;
    stage.cluster.set_ready(&candidate, true).await;
    stage.routed("dev", Some(&new_uid)).await;
    new.kill();
    // Kubernetes still says that it is ready; nothing fails, also what may not be repeated.
    for _ in 0..5 {
        assert!(stage.get("dev", "/").await.text().starts_with("old\n"));
        let mut written = stage.begin("POST", "dev", "/", "body").await;
        let answer = written.answer().await;
        assert!(
            answer.text().starts_with("old\nPOST") && answer.text().ends_with("\nbody"),
            "{answer:?}"
        );
    }
    let spare = || async { stage.admin("/sessions?workspace=dev").await["spare"].clone() };
    assert_eq!(spare().await, json!([old_uid]));
    // From then on nothing new comes to the old one, which may go at any moment.
    stage.cluster.mark("new", None).await;
    crate::eventually("the commit is known", || async { spare().await.is_null() }).await;
    let (host, cookie) = stage.alice("dev");
    let headers = [("Cookie", cookie.as_str()), ("Sec-Fetch-Site", "none")];
    let mut waits = Connection::open(stage.address).await;
    waits.send(&request("GET", &host, "/", &headers)).await;
    stage.held(1).await;
    let before = old.requests();
    let again = Upstream::start_at("again", new.address).await;
    assert!(waits.answer().await.text().starts_with("again\n"));
    assert_eq!(old.requests(), before);
    assert!(again.requests() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_comes_back_is_found_without_an_event() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    app.kill();
    let mut connection = stage.begin("GET", "dev", "/", "").await;
    crate::eventually("a retry", || async {
        stage.metric("retries_total").await > 0
    })
    .await;
    let again = Upstream::start_at("again", app.address).await;
    assert!(connection.answer().await.text().starts_with("again\n"));
    assert!(again.requests() >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_cut_off_by_its_pods_death_is_asked_of_the_successor() {
    let stage = Stage::start().await;
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    stage.run(&Spec::new("old", "dev", 1, old.address)).await;
    let mut connection = stage.begin("GET", "dev", "/slow", "").await;
    crate::eventually("the request", || async { old.requests() == 1 }).await;
    stage.run(&Spec::new("new", "dev", 2, new.address)).await;
    new.release();
    old.kill();
    let answer = connection.answer().await;
    assert_eq!((answer.status, answer.text().as_str()), (200, "new\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reused_address_never_inherits_a_connection() {
    let stage = Stage::start().await;
    let (first, _) = stage.serving("first", "dev", 1).await;
    assert_eq!(stage.get("dev", "/").await.status, 200);
    // Another workspace's pod gets the same address; the pooled connection to the first is alive.
    stage.cluster.terminate("first").await;
    stage.cluster.finish("first").await;
    stage
        .run(&Spec::new("second", "two", 1, first.address))
        .await;
    assert_eq!(stage.get("two", "/").await.status, 200);
    assert_eq!(first.connections(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_on_without_the_api_server() {
    let mut stage = Stage::start().await;
    let (old, new) = (Upstream::start("old").await, Upstream::start("new").await);
    stage.run(&Spec::new("old", "dev", 1, old.address)).await;
    stage.cluster.stop().await;
    for _ in 0..10 {
        assert!(stage.get("dev", "/").await.text().starts_with("old\n"));
    }
    assert!(stage.is_ready().await);
    stage.cluster.resume().await;
    stage.run(&Spec::new("new", "dev", 2, new.address)).await;
    assert!(stage.get("dev", "/").await.text().starts_with("new\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_on_without_control() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    stage.control.kill();
    assert_eq!(stage.get("dev", "/").await.status, 200);
    assert!(stage.is_ready().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_provider_can_be_away() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let status = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        stage.ask("GET", &host, "/", &headers).await.status
    };
    let before = stage.bearer("alice");
    assert_eq!(status(&before).await, 200);
    stage.lose_provider().await;
    // Its keys are known: what it signed before counts, seen or not; sessions are control's matter.
    assert_eq!(status(&before).await, 200);
    assert_eq!(status(&stage.bearer("alice")).await, 200);
    assert_eq!(stage.get("dev", "/").await.status, 200);
}

/// The API server comes back with the state of an earlier time: `old`, which was deleted since, is said
/// to be ready again, and `new`, which was made since, is not there.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_put_back_to_an_older_state_brings_no_pod_back() {
    let mut stage = Stage::start().await;
    let (old, old_uid) = stage.serving("old", "dev", 1).await;
    let (other, _) = stage.serving("other", "other", 1).await;
    let copy = tempfile::tempdir().unwrap();
    stage.cluster.stop().await;
    stage.cluster.back_up(copy.path());
    stage.cluster.resume().await;
    let (_new, _) = stage.serving("new", "dev", 2).await;
    stage.cluster.terminate("old").await;
    stage.cluster.finish("old").await;
    assert!(stage.get("dev", "/").await.text().starts_with("new\n"));
    let asked = old.requests();

    stage.cluster.stop().await;
    stage.cluster.restore(copy.path());
    stage.cluster.resume().await;
    stage.routed("dev", None).await;
    assert_eq!(stage.metric("watch_restores_total").await, 1);
    assert!(stage.metric("watch_went_back_total").await > 0);
    // What was there then and now is served all along.
    assert!(stage.get("other", "/").await.text().starts_with("other\n"));
    assert_eq!(other.requests(), 1);
    // Control here knows nothing of it either.
    assert_eq!(stage.get("dev", "/").await.status, 404);
    assert_eq!(old.requests(), asked, "its address may be another's");
    // Its kubelet says something of it: it is of the present.
    stage.cluster.annotate("old", "note", "here").await;
    stage.routed("dev", Some(&old_uid)).await;
    assert!(stage.get("dev", "/").await.text().starts_with("old\n"));
}
