//! Extra ports through their pods' lives: versions that move them, and pods that are away.

use super::workspace::{
    DEV, WEB, Workspace, ask, begin, create, events, get, run, seen, socket, visit,
};
use crate::client::NAVIGATE;
use crate::cluster::Spec;
use crate::proxy::Stage;
use crate::sockets::{close, frame, text};
use crate::upstream::Upstream;

#[tokio::test(flavor = "multi_thread")]
async fn it_moves_with_its_pod() {
    let stage = Stage::start().await;
    let (app, old) = (Upstream::start("app").await, Upstream::start("old").await);
    let pod = Spec::new("app", "dev", 1, app.address);
    let uid = create(&stage, &pod, &[("web", &old)]).await;
    // Held like all else while there is no pod that serves.
    stage.routed("dev", None).await;
    let mut held = begin(&stage, "alice", WEB, "/x").await;
    stage.held(1).await;
    stage.cluster.set_ready(&pod, true).await;
    assert_eq!(seen(&held.answer().await).0, "old");
    let mut socket = socket(&stage, "alice", WEB, "/socket", "old").await;

    // The new version has it at another port.
    let (next, new) = (Upstream::start("next").await, Upstream::start("new").await);
    let successor = Spec::new("next", "dev", 2, next.address);
    run(&stage, successor, &[("web", &new)]).await;
    assert_eq!(seen(&get(&stage, WEB, "/x").await).0, "new");
    // What is open on the old one keeps it, and is counted for that.
    socket.send(frame(1, b"still")).await;
    assert_eq!(text(&mut socket).await, "still");
    let facts = stage.admin("/sessions?workspace=dev").await;
    assert_eq!(facts["sessions"][&uid], 1, "{facts}");
    stage.cluster.terminate("app").await;
    stage.cluster.finish("app").await;
    assert_eq!(socket.rest().await, close(1012));
    assert_eq!(old.requests(), 1, "nothing new came to it");
}

/// A new version without it ends nothing that is open on the old one, before that goes.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_open_outlives_a_new_version_that_has_no_such_port() {
    let annotations = [("api.web.path", "/w"), ("visibility", "authenticated")];
    let workspace = Workspace::start("bob", &annotations).await;
    let (stage, web) = (&workspace.stage, &workspace.web);
    let mut by_host = socket(stage, "bob", WEB, "/socket", "web").await;
    let mut by_path = socket(stage, "alice", DEV, "/w/socket", "web").await;
    let mut events = events(stage, "bob").await;

    let next = Upstream::start("next").await;
    let successor = Spec::new("next", "dev", 2, next.address).of("bob");
    let open = [("visibility", "authenticated")];
    run(stage, successor.with(&open), &[]).await;
    assert_eq!(ask(stage, "bob", "GET", WEB, "/x").await.status, 404);
    let path = ask(stage, "bob", "GET", DEV, "/w/x").await;
    assert_eq!(seen(&path).0, "next");
    for socket in [&mut by_host, &mut by_path] {
        socket.send(frame(1, b"still")).await;
        assert_eq!(text(socket).await, "still");
    }
    web.release();
    assert_eq!(events.chunk().await, b"data: two\n\n");

    // Who may open the workspace is still asked, of what serves now.
    stage
        .cluster
        .annotate("next", "visibility", "private")
        .await;
    assert!(by_path.rest().await.ends_with(&close(1008)));
    by_host.send(frame(1, b"still")).await;
    assert_eq!(text(&mut by_host).await, "still");
    // And so is the old pod, as long as it can be.
    stage.cluster.annotate("app", "api.web.port", "none").await;
    assert!(by_host.rest().await.ends_with(&close(1008)));
}

#[tokio::test(flavor = "multi_thread")]
async fn control_is_asked_for_the_host_and_the_path() {
    let stage = Stage::start().await;
    let told = serde_json::json!({
        "version": 1, "status": "stopped", "message": "It is stopped.", "canStart": true,
    });
    stage.control.tells("dev", 200, &told);
    let long = format!("/{}", "a".repeat(500));
    for (host, path, at) in [
        (WEB, "/x?y", "%2Fx".to_owned()),
        (DEV, "/api/x", "%2Fapi%2Fx".to_owned()),
        (DEV, long.as_str(), format!("%2F{}", "a".repeat(129))),
    ] {
        let answer = get(&stage, host, path).await;
        assert_eq!(answer.status, 503, "{}", answer.text());
        let question = stage.control.questions().pop().unwrap();
        assert!(
            question.starts_with("GET /.nogoo9/absent/dev\n")
                && question.contains(&format!("\nx-forwarded-host: {host}\n"))
                && question.contains(&format!("\nx-nogoo9-at: {at}\n")),
            "{question}"
        );
    }
    let page = visit(&stage, WEB, "/x", &NAVIGATE).await.text();
    assert!(
        page.contains("action=\"/.nogoo9/start?return=/x\""),
        "{page}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_listens_a_person_is_told_so() {
    let workspace = Workspace::start("alice", &[]).await;
    let (stage, web) = (&workspace.stage, &workspace.web);
    web.kill();
    let page = visit(stage, WEB, "/x", &NAVIGATE).await;
    assert_eq!(page.status, 503);
    let text = page.text();
    assert!(
        text.contains("Nothing answers on its port") && text.contains("web"),
        "{text}"
    );
    // A program waits until something does.
    let mut waits = begin(stage, "alice", WEB, "/x").await;
    stage.held(1).await;
    let _late = Upstream::start_at("late", web.address).await;
    assert_eq!(seen(&waits.answer().await).0, "late");
}
