//! The console's files, and the headers around them.

use crate::world::{Answer, World};
use http::Method;

async fn get(world: &World, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = world.http.get(format!("{}{path}", world.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request).await
}

const NAVIGATION: [(&str, &str); 2] = [
    ("sec-fetch-mode", "navigate"),
    ("accept", "text/html,application/xhtml+xml"),
];

/// Address of the script that the page loads.
fn script(page: &str) -> String {
    let (_, rest) = page.split_once(r#"src="/assets/"#).unwrap();
    format!("/assets/{}", rest.split('"').next().unwrap())
}

#[tokio::test]
async fn the_page_says_whether_somebody_is_signed_in_and_lets_nothing_in() {
    let world = World::start().await;
    let page = get(&world, "/", &[]).await;
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains(r#"data-signed-in="no""#),
        "{}",
        page.body
    );
    let cookie = world.cookie("alice");
    let own = get(&world, "/", &[("cookie", &cookie)]).await;
    assert!(own.body.contains(r#"data-signed-in="yes""#), "{}", own.body);
    let header = |name: &str| page.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/html; charset=utf-8");
    assert_eq!(header("cache-control"), "no-store");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    let policy = header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none';") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    // What the policy forbids is not in the page.
    for (index, _) in page.body.match_indices("<script") {
        assert!(page.body[index..].starts_with("<script ") && page.body[index..].contains("src="));
    }
    assert!(!page.body.contains("<style") && !page.body.contains(" style="));
}

#[tokio::test]
async fn its_addresses_are_the_consoles_and_nobody_elses() {
    let world = World::start().await;
    let page = get(&world, "/", &[]).await;
    for path in [
        "/operations/op-1",
        "/workspaces/dev",
        "/new?template=sample",
    ] {
        let deep = get(&world, path, &NAVIGATION).await;
        assert_eq!(
            (deep.status, deep.body.as_str()),
            (page.status, page.body.as_str()),
            "{path}"
        );
        // A program that asks for the same gets no page.
        let answer = get(&world, path, &[("accept", "*/*")]).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_str()),
            (404, Some("not_found")),
            "{path}"
        );
    }
    for path in ["/auth/nothing", "/.well-known/nothing", "/mcp/nothing"] {
        let answer = get(&world, path, &NAVIGATION).await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()["code"].as_str()),
            (404, Some("not_found")),
            "{path}"
        );
    }
    let unknown = world.api("alice", Method::GET, "/nothing", None).await;
    assert_eq!(
        (unknown.status.as_u16(), unknown.json()["code"].as_str()),
        (404, Some("not_found"))
    );
    let posted = world.http.post(format!("{}/operations/op-1", world.url));
    let posted = world.send(posted.header("accept", "text/html")).await;
    assert_eq!(posted.status, 404);
}

#[tokio::test]
async fn files_are_kept_for_ever_and_sent_small() {
    let world = World::start().await;
    let script = script(&get(&world, "/", &[]).await.body);
    let whole = get(&world, &script, &[]).await;
    assert_eq!(whole.status, 200);
    let header = |answer: &Answer, name: &str| {
        let value = answer.headers.get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(
        header(&whole, "content-type").unwrap(),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(
        header(&whole, "cache-control").unwrap(),
        "public, max-age=31536000, immutable"
    );
    assert_eq!(header(&whole, "content-encoding"), None);
    let request = world.http.get(format!("{}{script}", world.url));
    let small = request
        .header("accept-encoding", "gzip, br")
        .send()
        .await
        .unwrap();
    assert_eq!(small.headers()["content-encoding"], "br");
    assert_eq!(small.headers()["vary"], "accept-encoding");
    assert!(small.bytes().await.unwrap().len() < whole.body.len() / 2);
    let refused = get(&world, &script, &[("accept-encoding", "br;q=0")]).await;
    assert_eq!(header(&refused, "content-encoding"), None);
    for path in ["/favicon.svg", "/theme.js"] {
        let named = get(&world, path, &[]).await;
        assert_eq!(
            (
                named.status.as_u16(),
                header(&named, "cache-control").unwrap()
            ),
            (200, "public, max-age=300".to_owned())
        );
    }
    for path in [
        "/assets/none.js",
        "/assets/..%2Findex.html",
        "/assets/%2e%2e/%2e%2e/package.json",
        "/assets/.hidden",
        "/assets//etc/passwd",
    ] {
        assert_eq!(get(&world, path, &[]).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn other_sites_press_no_buttons() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    for site in ["cross-site", "same-site"] {
        for (method, path) in [
            (Method::POST, "/workspaces/dev/stop"),
            (Method::DELETE, "/workspaces/dev"),
            (Method::POST, "/workspaces"),
            (Method::GET, "/events"),
        ] {
            let request = world
                .http
                .request(method.clone(), format!("{}/api/v1{path}", world.url))
                .header("cookie", world.cookie("alice"))
                .header("sec-fetch-site", site)
                .json(&serde_json::json!({"template": "sample", "id": "extra"}));
            assert_eq!(
                world.send(request).await.status,
                401,
                "{site} {method} {path}"
            );
        }
    }
    let list = world.get("alice", "/workspaces").await;
    assert_eq!(list["workspaces"].as_array().unwrap().len(), 1);
    assert_eq!(list["workspaces"][0]["status"], "running");
    // The console's own page may.
    let request = world
        .http
        .post(format!("{}/api/v1/workspaces/dev/stop", world.url))
        .header("cookie", world.cookie("alice"))
        .header("sec-fetch-site", "same-origin");
    assert_eq!(world.send(request).await.status, 200);
}
