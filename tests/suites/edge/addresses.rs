//! Hosts and paths.

use http::{Method, StatusCode};
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Site, Template};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn by_host(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("byhost", "1.0"), json!({}))
        .await?;
    let redirect = edge.get(&id, "/redirect").await?;
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (StatusCode::FOUND, Some("/landing"))
    );
    assert_eq!(
        redirect.header("set-cookie"),
        Some("sample=1; Path=/; HttpOnly")
    );
    let seen = edge.get(&id, "/headers").await?.json()?;
    assert_eq!(
        (&seen["host"], &seen["x-forwarded-prefix"]),
        (&json!([edge.host(&id)]), &Value::Null)
    );
    // Its own place under the same name as one of the console's is its own.
    for path in [
        "/api/v1/workspaces",
        "/mcp",
        "/auth/login",
        "/route/byhost/",
    ] {
        assert_eq!(
            edge.get(&id, path).await?.status,
            StatusCode::NOT_FOUND,
            "{path} is the workspace's"
        );
    }
    assert_eq!(
        edge.get(&id, "/.nogoo9/unheard-of").await?.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        alice.workspace(&id).await?["url"],
        format!("http://{}/", edge.host(&id))
    );
    Ok(())
}

pub(super) async fn by_path(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let id = site
        .spawn(&alice, &Template::new("bypath", "1.0"), json!({}))
        .await?;
    let bare = edge.get_console("/route/bypath?q=1").await?;
    assert_eq!(
        (bare.status, bare.header("location")),
        (StatusCode::PERMANENT_REDIRECT, Some("/route/bypath/?q=1"))
    );
    assert_eq!(
        edge.get_console("/route/bypath/info").await?.json()?["workspace"],
        id.as_str()
    );

    let redirect = edge.get_console("/route/bypath/redirect").await?;
    assert_eq!(
        (redirect.status, redirect.header("location")),
        (StatusCode::FOUND, Some("/route/bypath/landing"))
    );
    assert_eq!(
        redirect.header("set-cookie"),
        Some("sample=1; Path=/route/bypath/; HttpOnly")
    );
    let landing = edge
        .request(Method::GET, &edge.console(), "/route/bypath/landing")?
        .header("cookie", "sample=1");
    let landing = Edge::send(landing).await?.json()?;
    assert_eq!(
        (&landing["landed"], &landing["cookie"]),
        (&json!(true), &json!("sample=1"))
    );

    let seen = edge.get_console("/route/bypath/headers").await?.json()?;
    assert_eq!(seen["x-forwarded-prefix"], json!(["/route/bypath"]));
    assert_eq!(
        alice.workspace(&id).await?["pathUrl"],
        format!("http://{}/route/bypath/", edge.console())
    );
    Ok(())
}

pub(super) async fn prefix_kept(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let template = Template::new("keepsit", "1.0").annotation(keys::STRIP_PREFIX, "false");
    site.spawn(&alice, &template, json!({})).await?;
    // The sample knows no such paths: that it says so itself shows what it was asked for.
    assert_eq!(
        edge.get_console("/route/keepsit/info").await?.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        edge.get("keepsit", "/info").await?.status,
        StatusCode::OK,
        "by host there is no prefix"
    );
    Ok(())
}

/// Ways to write a path that other proxies have decoded, joined or cut at the wrong place.
const SPELLINGS: [&str; 12] = [
    "/route/spelling/../../api/v1/capabilities",
    "/route/spelling/..%2f..%2fapi/v1/capabilities",
    "/route/spelling/%2e%2e/%2e%2e/api/v1/capabilities",
    "/route/spelling/..\\..\\api\\v1\\capabilities",
    "/route/spelling//api/v1/capabilities",
    "/route/spelling/;/../../api/v1/capabilities",
    "/route/spelling/../spelltwo/info",
    "/route/spelling/%2e%2e/spelltwo/info",
    "/route/spelling/..%2fspelltwo/info",
    "/route/spelling%2f..%2fspelltwo/info",
    "/route//spelltwo/info",
    "/route/./spelltwo/info",
];

pub(super) async fn spellings(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    site.spawn(&alice, &Template::new("spelling", "1.0"), json!({}))
        .await?;
    site.spawn(&alice, &Template::new("spelltwo", "1.0"), json!({}))
        .await?;
    let edge = site.edge("alice").await?;
    for path in SPELLINGS {
        let answer = edge.raw_request("GET", &edge.console(), path, &[]).await?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.get(9..12).unwrap_or_default();
        assert!(["400", "404"].contains(&status), "{path}: {answer}");
        assert!(
            !answer.contains("isAdmin") && !answer.contains("spelltwo\","),
            "{path}: {answer}"
        );
    }
    let plain = edge
        .raw_request("GET", &edge.console(), "/route/spelltwo/info", &[])
        .await?;
    assert!(String::from_utf8_lossy(&plain).contains(r#""workspace":"spelltwo""#));
    Ok(())
}

pub(super) async fn hosts(site: Arc<Site>) -> anyhow::Result<()> {
    let edge = site.anonymous()?;
    let port = site.ready().url.port().unwrap_or_default();
    for host in [
        "elsewhere.example".to_owned(),
        format!("elsewhere.example:{port}"),
        format!("a.b.localhost:{port}"),
        "dev.localhost:1".to_owned(),
        format!("dev.localhost.elsewhere.example:{port}"),
        format!("-bad-.localhost:{port}"),
    ] {
        let answer = Edge::send(edge.request(Method::GET, &host, "/")?).await?;
        assert_eq!(
            answer.status,
            StatusCode::MISDIRECTED_REQUEST,
            "{host}: {}",
            answer.text()
        );
    }
    // Case and a final dot are no other host.
    for host in [format!("LOCALHOST:{port}"), format!("127.0.0.1:{port}")] {
        let answer = Edge::send(edge.request(Method::GET, &host, "/api/v1/capabilities")?).await?;
        assert_eq!(
            answer.status,
            StatusCode::UNAUTHORIZED,
            "{host}: {}",
            answer.text()
        );
    }
    Ok(())
}
