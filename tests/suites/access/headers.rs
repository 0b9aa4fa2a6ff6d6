//! What a pod gets to see of a request.

use http::Method;
use nogoo9_tests::{Edge, NAVIGATION, Site, Template, Visitor};
use serde_json::{Value, json};
use std::sync::Arc;

fn values<'a>(headers: &'a Value, name: &str) -> Vec<&'a str> {
    headers[name]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

pub(super) async fn identity(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("mirror", "1.0"), json!({}))
        .await?;
    let edge = site.edge("alice").await?;
    let spoofed = [
        "x-user-sub",
        "X-User-Roles",
        "x-user-email",
        "x-user-anything",
        "x_user_sub",
        "x-forwarded-user",
        "x-forwarded-email",
        "x-forwarded-groups",
        "x-forwarded-prefix",
        "x-forwarded-host",
        "x-workspace-jwt",
        "x-auth-request-user",
        "x-auth-request-email",
        "x-nogoo9-caller",
        "forwarded",
        "x-real-ip",
        "remote-user",
    ];
    for (host, path) in [
        (edge.host(&id), "/headers".to_owned()),
        (edge.console(), format!("/route/{id}/headers")),
    ] {
        let mut request = edge
            .request(Method::GET, &host, &path)?
            .header("x-application", "kept");
        for name in spoofed {
            request = request.header(name, "for=mallory");
        }
        // A hop-by-hop trick: asking the proxy to drop what it adds.
        request = request.header("connection", "x-user-sub, x-user-roles");
        let seen = Edge::send(request).await?.json()?;
        assert!(!seen.to_string().contains("mallory"), "{seen}");
        assert_eq!(values(&seen, "x-user-sub"), ["alice"]);
        assert_eq!(values(&seen, "x-user-roles"), ["user"]);
        assert_eq!(values(&seen, "x-application"), ["kept"]);
        assert_eq!(values(&seen, "x-forwarded-host"), [host.as_str()]);
        assert_eq!(values(&seen, "x-forwarded-proto"), ["http"]);
    }
    Ok(())
}

pub(super) async fn credentials(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("leaky", "1.0"), json!({}))
        .await?;
    let edge = site.edge("alice").await?;
    let token = edge.token().unwrap_or_default().to_owned();
    // By bearer: the token is ours, and stripped.
    let request = edge
        .request(Method::GET, &edge.host(&id), "/headers")?
        .header("cookie", "theirs=1; other=2");
    let seen = Edge::send(request).await?.json()?;
    assert!(
        !seen.to_string().contains(&token) && values(&seen, "authorization").is_empty(),
        "{seen}"
    );
    assert_eq!(values(&seen, "cookie"), ["theirs=1; other=2"]);

    // By cookie: ours is stripped, the application's stay, and so does its own Authorization.
    let mut visitor = Visitor::new(site.anonymous()?)?;
    visitor.sign_in("alice").await?;
    let url = visitor.url(&edge.host(&id), "/headers")?;
    let (_, first) = visitor.open(&url, "alice").await?;
    assert_eq!(first.status, 200, "{}", first.text());
    let session = visitor.cookies(&edge.host(&id));
    assert!(session.starts_with("nogoo9="), "{session}");
    visitor.set_cookie(&edge.host(&id), "zz", "application");
    let basic = [NAVIGATION.as_slice(), &[("authorization", "Basic YTpi")]].concat();
    let seen = visitor.send(Method::GET, &url, &basic, &[]).await?.json()?;
    assert_eq!(values(&seen, "cookie"), ["zz=application"]);
    assert_eq!(values(&seen, "authorization"), ["Basic YTpi"]);
    assert_eq!(values(&seen, "x-user-sub"), ["alice"]);

    // Over a WebSocket's handshake the same rules hold: the sample answers with what it got.
    let head = [
        "GET /headers HTTP/1.1".to_owned(),
        format!("Host: {}", edge.host(&id)),
        format!("Authorization: Bearer {token}"),
        "X-User-Sub: mallory".to_owned(),
        "Upgrade: websocket".to_owned(),
        "Sec-WebSocket-Version: 13".to_owned(),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==".to_owned(),
    ];
    let answer = String::from_utf8_lossy(&edge.raw(&head, b"").await?).into_owned();
    assert!(
        !answer.contains(&token) && !answer.contains("mallory"),
        "{answer}"
    );
    Ok(())
}
