//! Sessions of browsers: which requests they speak for.

use http::{Method, StatusCode};
use nogoo9_model::keys;
use nogoo9_tests::{Edge, Observation, Site, Socket, Template, Visitor, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn signed_in(site: &Site, user: &str) -> anyhow::Result<Visitor> {
    let mut visitor = Visitor::new(site.anonymous()?)?;
    visitor.sign_in(user).await?;
    Ok(visitor)
}

pub(super) async fn a_session_opens_ones_workspaces_only(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("session", "1.0"), json!({}))
        .await?;
    let edge = site.anonymous()?;
    // Not signed in yet: the way leads over the provider, back to the very page.
    let mut visitor = Visitor::new(edge.clone())?;
    let page = visitor.url(&edge.host(&id), "/info?from=a+link")?;
    let (url, answer) = visitor.open(&page, "alice").await?;
    assert_eq!(
        (answer.status, url.as_str()),
        (StatusCode::OK, page.as_str())
    );
    assert_eq!(answer.json()?["workspace"], id.as_str());
    // The cookie is for that host alone: on a sibling's it is no session.
    let cookie = visitor.cookies(&edge.host(&id));
    let request = edge
        .request(Method::GET, &edge.host("session2"), "/info")?
        .header("cookie", &cookie);
    assert_eq!(
        Edge::send(request.header("sec-fetch-site", "same-origin"))
            .await?
            .status,
        401
    );
    let request = edge
        .request(Method::GET, &edge.console(), "/api/v1/workspaces")?
        .header("cookie", &cookie);
    assert_eq!(
        Edge::send(request.header("sec-fetch-site", "same-origin"))
            .await?
            .status,
        401
    );

    let mut bob = signed_in(&site, "bob").await?;
    let (_, refused) = bob.open(&page, "bob").await?;
    assert_eq!(refused.status, 404);
    Ok(())
}

pub(super) async fn other_sites_cannot_use_a_session(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("origins", "1.0"), json!({}))
        .await?;
    let edge = site.anonymous()?;
    let mut visitor = signed_in(&site, "alice").await?;
    let (_, opened) = visitor
        .open(&visitor.url(&edge.host(&id), "/info")?, "alice")
        .await?;
    assert_eq!(opened.status, 200);
    let (own, sibling) = (
        format!("http://{}", edge.host(&id)),
        format!("http://{}", edge.host("sibling")),
    );

    // On the workspace's host: same-site is not same-origin.
    let info = visitor.url(&edge.host(&id), "/info")?;
    let upload = visitor.url(&edge.host(&id), "/upload")?;
    for (case, method, headers, status) in [
        (
            "own page's fetch",
            Method::GET,
            vec![("sec-fetch-site", "same-origin")],
            200,
        ),
        (
            "own page's post",
            Method::POST,
            vec![("sec-fetch-site", "same-origin"), ("origin", own.as_str())],
            200,
        ),
        (
            "sibling's fetch",
            Method::GET,
            vec![
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "cors"),
                ("origin", sibling.as_str()),
            ],
            401,
        ),
        (
            "sibling's image",
            Method::GET,
            vec![
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "no-cors"),
                ("sec-fetch-dest", "image"),
            ],
            401,
        ),
        (
            "sibling's form",
            Method::POST,
            vec![
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
                ("origin", sibling.as_str()),
            ],
            401,
        ),
        (
            "foreign link",
            Method::GET,
            vec![
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            200,
        ),
        (
            "foreign frame",
            Method::GET,
            vec![
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
            302,
        ),
        (
            "old browser's post",
            Method::POST,
            vec![("origin", own.as_str())],
            200,
        ),
        (
            "old browser's foreign post",
            Method::POST,
            vec![("origin", "http://elsewhere.example")],
            401,
        ),
        ("post of unknown origin", Method::POST, vec![], 401),
    ] {
        let url = if method == Method::POST {
            &upload
        } else {
            &info
        };
        let answer = visitor.send(method, url, &headers, &[]).await?;
        assert_eq!(answer.status.as_u16(), status, "{case}: {}", answer.text());
    }
    // A WebSocket by cookie wants its own page's Origin.
    let cookie = visitor.cookies(&edge.host(&id));
    for (origin, opens) in [
        (own.as_str(), true),
        (sibling.as_str(), false),
        ("http://elsewhere.example", false),
    ] {
        let opened = Socket::open(
            &edge,
            &edge.host(&id),
            "/echo",
            &[("cookie", &cookie), ("origin", origin)],
        )
        .await;
        match opened {
            Ok(socket) => {
                assert!(opens, "{origin} opened a socket");
                socket.close().await;
            }
            Err(error) => assert!(
                !opens && Socket::refused(&error) == Some(401),
                "{origin}: {error}"
            ),
        }
    }

    // On the console: the API that its page calls, from other origins.
    let stop = visitor.url(&edge.console(), &format!("/api/v1/workspaces/{id}/stop"))?;
    for headers in [
        vec![("sec-fetch-site", "same-site"), ("origin", own.as_str())],
        vec![
            ("sec-fetch-site", "cross-site"),
            ("origin", "http://elsewhere.example"),
        ],
        vec![("origin", own.as_str())],
        vec![],
    ] {
        assert_eq!(
            visitor
                .send(Method::POST, &stop, &headers, &[])
                .await?
                .status,
            401,
            "{headers:?}"
        );
    }
    assert_eq!(
        alice.workspace(&id).await?["status"],
        "running",
        "none of them had an effect"
    );
    let console = format!("http://{}", edge.console());
    let own = [
        ("sec-fetch-site", "same-origin"),
        ("origin", console.as_str()),
    ];
    assert_eq!(
        visitor.send(Method::POST, &stop, &own, &[]).await?.status,
        200
    );
    until("it to be stopped", Duration::from_secs(120), || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["status"] == "stopped", (), seen))
    })
    .await
}

pub(super) async fn a_template_names_pages_that_may_call(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let edge = site.anonymous()?;
    let docs = format!("http://{}", edge.host("docs"));
    let template = Template::new("callable", "1.0").annotation(keys::ALLOW_ORIGINS, &docs);
    let id = site.spawn(&alice, &template, json!({})).await?;
    let mut visitor = signed_in(&site, "alice").await?;
    let host = edge.host(&id);
    let upload = visitor.url(&host, "/upload")?;
    visitor.open(&visitor.url(&host, "/info")?, "alice").await?;
    let evil = format!("http://{}", edge.host("evil"));
    let readable = "access-control-allow-origin";
    for (origin, status) in [(&docs, 200), (&evil, 401)] {
        let headers = [("sec-fetch-site", "same-site"), ("origin", origin.as_str())];
        let answer = visitor.send(Method::POST, &upload, &headers, &[]).await?;
        assert_eq!(answer.status, status, "{origin}: {}", answer.text());
        let allowed = (status == 200).then_some(origin.as_str());
        assert_eq!(answer.header(readable), allowed, "{origin}");
        // What a browser asks before, without any cookie.
        let request = edge
            .request(Method::OPTIONS, &host, "/upload")?
            .header("origin", origin)
            .header("access-control-request-method", "PUT");
        let answer = Edge::send(request).await?;
        assert_eq!(answer.status, status, "{origin}");
        assert_eq!(answer.header(readable), allowed, "{origin}");
        let cookie = visitor.cookies(&host);
        let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
        let opened = Socket::open(&edge, &host, "/echo", &headers).await;
        assert_eq!(opened.is_ok(), status == 200, "{origin}");
        if let Ok(socket) = opened {
            socket.close().await;
        }
    }
    Ok(())
}
