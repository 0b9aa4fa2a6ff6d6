//! The page at `/`.

use crate::world::{Answer, World};

async fn open(world: &World, path: &str, user: Option<&str>) -> Answer {
    let mut request = world.http.get(format!("{}{path}", world.url));
    if let Some(user) = user {
        request = request.header("cookie", world.cookie(user));
    }
    world.send(request).await
}

async fn press(
    world: &World,
    path: &str,
    user: &str,
    site: &str,
    fields: &[(&str, &str)],
) -> Answer {
    let request = world
        .http
        .post(format!("{}{path}", world.url))
        .header("cookie", world.cookie(user))
        .header("sec-fetch-site", site)
        .form(fields);
    world.send(request).await
}

#[tokio::test]
async fn signed_out_there_is_a_way_in() {
    let world = World::start().await;
    let page = open(&world, "/", None).await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains(r#"href="/auth/login?return=/""#));
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert_eq!(page.headers["cache-control"], "no-store");
    for (path, kind) in [
        ("/ui/style.css", "text/css"),
        ("/ui/refresh.js", "text/javascript"),
    ] {
        let asset = open(&world, path, None).await;
        assert!(
            asset.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with(kind)
        );
    }
    assert_eq!(open(&world, "/ui/list", None).await.status, 401);
    assert_eq!(
        open(&world, "/ui/new?template=sample", None).await.headers["location"],
        "/auth/login?return=/"
    );
    assert_eq!(open(&world, "/nothing", None).await.status, 404);
}

#[tokio::test]
async fn everything_can_be_done_with_buttons() {
    let world = World::start().await;
    world.sample("sample:1").await;
    let form = open(&world, "/ui/new?template=sample", Some("alice"))
        .await
        .body;
    assert!(form.contains(r#"name="input.message""#), "{form}");
    let fields = [
        ("template", "sample"),
        ("id", "dev"),
        ("name", "<b>desk</b>"),
        ("input.message", ""),
        ("port", ""),
    ];
    let spawned = press(&world, "/ui/new", "alice", "same-origin", &fields).await;
    assert_eq!(
        (
            spawned.status.as_u16(),
            spawned.headers["location"].to_str().unwrap()
        ),
        (303, "/")
    );
    let page = open(&world, "/", Some("alice")).await.body;
    assert!(
        page.contains("&lt;b&gt;desk&lt;/b&gt;") && !page.contains("<b>desk"),
        "names are text"
    );
    assert!(page.contains(r#"data-workspace="dev""#));
    assert!(
        !open(&world, "/", Some("bob"))
            .await
            .body
            .contains("data-workspace")
    );

    let pods = || async { world.pods_of("dev").await };
    world
        .until("the pod", || async { !pods().await.is_empty() })
        .await;
    let pod = world.get("alice", "/workspaces/dev").await["podName"]
        .as_str()
        .unwrap()
        .to_owned();
    world.ready(&pod).await;
    world
        .until("running", || async {
            open(&world, "/ui/list", Some("alice"))
                .await
                .body
                .contains(r#"data-status="running""#)
        })
        .await;
    world.sample("sample:2").await;
    let list = open(&world, "/ui/list", Some("alice")).await.body;
    assert!(
        list.contains("outdated") && list.contains("/ui/workspaces/dev/upgrade"),
        "{list}"
    );
    assert_eq!(
        press(
            &world,
            "/ui/workspaces/dev/upgrade",
            "alice",
            "same-origin",
            &[]
        )
        .await
        .status,
        303
    );
    assert_eq!(
        world.get("alice", "/workspaces/dev").await["status"],
        "upgrading"
    );

    let sure = open(&world, "/ui/workspaces/dev/delete", Some("alice")).await;
    assert_eq!(sure.status, 200);
    assert_eq!(
        world.get("alice", "/workspaces/dev").await["status"],
        "upgrading",
        "asking deletes nothing"
    );
    assert_eq!(
        press(
            &world,
            "/ui/workspaces/dev/delete",
            "alice",
            "same-origin",
            &[]
        )
        .await
        .status,
        303
    );
    world
        .until("gone", || async {
            open(&world, "/", Some("alice"))
                .await
                .body
                .contains("no workspace yet")
        })
        .await;
}

#[tokio::test]
async fn other_sites_press_no_buttons() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    for site in ["cross-site", "same-site"] {
        for path in [
            "/ui/workspaces/dev/stop",
            "/ui/workspaces/dev/delete",
            "/ui/new",
        ] {
            let answer = press(
                &world,
                path,
                "alice",
                site,
                &[("template", "sample"), ("id", "extra")],
            )
            .await;
            assert_eq!(
                answer.headers["location"], "/auth/login?return=/",
                "{site} {path}"
            );
        }
        let request = world
            .http
            .delete(format!("{}/api/v1/workspaces/dev", world.url));
        let request = request
            .header("cookie", world.cookie("alice"))
            .header("sec-fetch-site", site);
        assert_eq!(world.send(request).await.status, 401);
    }
    let list = world.get("alice", "/workspaces").await;
    assert_eq!(list["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!(list["workspaces"][0]["status"], "running");
    let denied = press(&world, "/ui/workspaces/dev/stop", "bob", "same-origin", &[]).await;
    let none = press(&world, "/ui/workspaces/nil/stop", "bob", "same-origin", &[]).await;
    assert_eq!(denied.status, 403);
    assert_eq!(denied.without_date(), none.without_date());
}
