//! Who gets in, and that "not yours" looks like "not there".

use crate::client::NAVIGATE;
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;

#[tokio::test(flavor = "multi_thread")]
async fn not_yours_is_not_there() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    stage
        .run(&Spec::new("bobs", "bobs", 1, app.address).of("bob"))
        .await;
    for extra in [&[("Sec-Fetch-Site", "same-origin")][..], &NAVIGATE[..]] {
        for path in ["/", "/.nogoo9/status", "/.nogoo9/other"] {
            let mut answers = Vec::new();
            for id in ["bobs", "none"] {
                let (host, cookie) = stage.alice(id);
                let mut headers = extra.to_vec();
                headers.push(("Cookie", &cookie));
                answers.push(stage.ask("GET", &host, path, &headers).await.timeless());
            }
            assert_eq!(answers[0].status, 404);
            assert_eq!(answers[0], answers[1], "{path}");
        }
    }
    // The same in path mode, and for an admin, who may not open another's pages.
    for user in ["alice", "admin"] {
        let token = format!("Bearer {}", stage.bearer(user));
        let ask = async |id: &str| {
            stage
                .ask(
                    "GET",
                    CONSOLE,
                    &format!("/route/{id}/"),
                    &[("Authorization", &token)],
                )
                .await
                .timeless()
        };
        let (bobs, none) = (ask("bobs").await, ask("none").await);
        assert_eq!(bobs.status, 404);
        assert_eq!(bobs, none);
    }
    assert_eq!(app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_sign_in_first_whatever_the_id() {
    let stage = Stage::start().await;
    let (app, _) = stage.serving("app", "dev", 1).await;
    for id in ["dev", "none"] {
        let host = format!("{id}.{CONSOLE}");
        let page = stage.ask("GET", &host, "/a?b=c&d", &NAVIGATE).await;
        assert_eq!(page.status, 302);
        let location = page.header("location").unwrap();
        let expected = format!(
            "http://{CONSOLE}/auth/open?host={id}.localhost%3A9009&return=/a%3Fb%3Dc%26d&n="
        );
        assert!(location.starts_with(&expected), "{location}");
        let cookie = page.header("set-cookie").unwrap();
        let nonce = cookie
            .strip_prefix("nogoo9-nonce=")
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        assert!(
            location.ends_with(&nogoo9_identity::code::nonce_hash(nonce)),
            "{location}"
        );
        assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
        // A second tab keeps the nonce of the first.
        let mut headers = NAVIGATE.to_vec();
        let sent = format!("nogoo9-nonce={nonce}");
        headers.push(("Cookie", &sent));
        let again = stage.ask("GET", &host, "/a?b=c&d", &headers).await;
        assert_eq!(again.header("location"), Some(location));

        let script = stage
            .ask("GET", &host, "/", &[("Accept", "application/json")])
            .await;
        assert_eq!(
            (script.status, script.header("cache-control")),
            (401, Some("no-store"))
        );
        assert!(
            script
                .header("www-authenticate")
                .unwrap()
                .starts_with("Bearer resource_metadata=")
        );
        let path_page = stage
            .ask("GET", CONSOLE, &format!("/route/{id}/x?y"), &NAVIGATE)
            .await;
        let expected = format!("http://{CONSOLE}/auth/login?return=/route/{id}/x%3Fy");
        assert_eq!(path_page.header("location"), Some(expected.as_str()));
    }
    assert_eq!(app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_and_cookies_count_where_they_should() {
    let stage = Stage::start().await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let ask = async |headers: &[(&str, &str)]| stage.ask("GET", &host, "/", headers).await.status;
    let bearer = format!("Bearer {}", stage.bearer("alice"));
    assert_eq!(ask(&[("Authorization", &bearer)]).await, 200);
    let broken = format!("{bearer}x");
    assert_eq!(ask(&[("Authorization", &broken)]).await, 401);
    // Another application's token is no reason to let anybody in.
    assert_eq!(
        ask(&[("Authorization", "Bearer something-else")]).await,
        401
    );
    let own = stage.cookie_on("alice", &host);
    assert_eq!(
        ask(&[("Cookie", &own), ("Sec-Fetch-Site", "same-origin")]).await,
        200
    );
    // A sibling workspace's page rides on the cookie: it does not count.
    assert_eq!(
        ask(&[
            ("Cookie", &own),
            ("Sec-Fetch-Site", "same-site"),
            ("Sec-Fetch-Mode", "cors")
        ])
        .await,
        401
    );
    let elsewhere = stage.cookie_on("alice", &format!("other.{CONSOLE}"));
    assert_eq!(
        ask(&[("Cookie", &elsewhere), ("Sec-Fetch-Site", "same-origin")]).await,
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn visibility_opens_host_mode_only() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let pod = Spec::new("app", "dev", 1, app.address)
        .of("bob")
        .with(&[("visibility", "authenticated")]);
    stage.run(&pod).await;
    assert_eq!(stage.get("dev", "/").await.status, 200);
    let token = format!("Bearer {}", stage.bearer("alice"));
    assert_eq!(
        stage
            .ask("GET", CONSOLE, "/route/dev/", &[("Authorization", &token)])
            .await
            .status,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_claim_keeps_an_id() {
    let stage = Stage::start().await;
    let (alices, bobs) = (
        Upstream::start("alices").await,
        Upstream::start("bobs").await,
    );
    let since = [("workspace-since", "2026-01-01T00:00:00Z")];
    let uid = stage
        .run(&Spec::new("alices", "dev", 1, alices.address).with(&since))
        .await;
    let later = [("workspace-since", "2026-01-02T00:00:00Z")];
    stage
        .cluster
        .run(
            &Spec::new("bobs", "dev", 9, bobs.address)
                .of("bob")
                .with(&later),
        )
        .await;
    // A pod of a third workspace comes after it in the same watch.
    let (_marker, _) = stage.serving("marker", "marker", 1).await;
    stage.routed("dev", Some(&uid)).await;
    assert!(stage.get("dev", "/").await.text().starts_with("alices\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_listener_wants_its_token() {
    let stage = Stage::start().await;
    for path in ["/routes", "/sessions?workspace=dev"] {
        let mut connection = crate::client::Connection::open(stage.admin).await;
        connection
            .send(crate::client::request(
                "GET",
                "x",
                path,
                &[("Authorization", "Bearer wrong")],
            ))
            .await;
        assert_eq!(connection.answer().await.status, 401, "{path}");
    }
    let mut connection = crate::client::Connection::open(stage.admin).await;
    connection
        .send(crate::client::request("GET", "x", "/metrics", &[]))
        .await;
    let metrics = connection.answer().await;
    assert_eq!(metrics.status, 200);
    for name in [
        "nogoo9_proxy_routes 0",
        "nogoo9_proxy_watch_lists_total 1",
        "nogoo9_proxy_open_sockets 0",
    ] {
        assert!(
            metrics.text().contains(name),
            "{name} not in:\n{}",
            metrics.text()
        );
    }
}
