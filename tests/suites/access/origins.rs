//! Sessions of browsers: which requests they speak for.

use http::{Method, StatusCode};
use nogoo9_tests::{Edge, NAVIGATION, Observation, Site, Socket, Template, Visitor, until};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

async fn signed_in(site: &Site, user: &str) -> anyhow::Result<Visitor> {
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

    // On the console: forms and API, from other origins.
    let stop = visitor.url(&edge.console(), &format!("/api/v1/workspaces/{id}/stop"))?;
    let form = visitor.url(&edge.console(), &format!("/ui/workspaces/{id}/stop"))?;
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
        let refused = visitor.send(Method::POST, &form, &headers, &[]).await?;
        assert!(
            refused.status != 200 && refused.header("location") != Some("/"),
            "{headers:?}: {refused:?}"
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
        visitor.send(Method::POST, &form, &own, &[]).await?.status,
        303
    );
    until("it to be stopped", Duration::from_secs(60), || async {
        let seen = alice.workspace(&id).await?;
        Ok(Observation::when(seen["status"] == "stopped", (), seen))
    })
    .await
}

pub(super) async fn a_hand_over_is_for_one_browser_and_one_host(
    site: Arc<Site>,
) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("handover", "1.0"), json!({}))
        .await?;
    let edge = site.anonymous()?;
    let mut visitor = signed_in(&site, "alice").await?;
    let page = visitor.url(&edge.host(&id), "/info")?;
    let to_console = visitor.send(Method::GET, &page, &NAVIGATION, &[]).await?;
    let open = page.join(to_console.header("location").unwrap_or_default())?;
    assert_eq!(
        (open.host_str(), open.path()),
        (Some("localhost"), "/auth/open")
    );
    let to_host = visitor.send(Method::GET, &open, &NAVIGATION, &[]).await?;
    let redeem = open.join(to_host.header("location").unwrap_or_default())?;
    assert_eq!(redeem.path(), "/.nogoo9/login");

    // Another browser that got hold of the code has not the nonce; another host is not meant.
    let mut thief = Visitor::new(edge.clone())?;
    let stolen = thief.send(Method::GET, &redeem, &NAVIGATION, &[]).await?;
    assert!(
        !thief.cookies(&edge.host(&id)).contains("nogoo9="),
        "{stolen:?}"
    );
    let mut elsewhere = redeem.clone();
    elsewhere.set_host(Some("other.localhost"))?;
    let mut there = visitor.clone();
    there
        .send(Method::GET, &elsewhere, &NAVIGATION, &[])
        .await?;
    assert!(!there.cookies(&edge.host("other")).contains("nogoo9="));
    // To hosts that are no workspace's nothing is handed.
    for host in [
        "elsewhere.example",
        "localhost",
        "a.b.localhost",
        "dev.localhost.elsewhere.example",
    ] {
        let mut open = open.clone();
        open.query_pairs_mut().clear().extend_pairs([
            ("host", host),
            ("return", "/"),
            ("n", &"A".repeat(43)),
        ]);
        let refused = visitor.send(Method::GET, &open, &NAVIGATION, &[]).await?;
        assert_eq!(
            (refused.status.as_u16(), refused.header("location")),
            (400, None),
            "{host}"
        );
    }

    let redeemed = visitor.send(Method::GET, &redeem, &NAVIGATION, &[]).await?;
    assert_eq!(
        (redeemed.status.as_u16(), redeemed.header("location")),
        (303, Some("/info"))
    );
    let set = redeemed
        .headers
        .get_all("set-cookie")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let session = set
        .filter(|cookie| cookie.starts_with("nogoo9="))
        .collect::<Vec<_>>();
    assert_eq!(session.len(), 1);
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(
            session[0].contains(attribute) && !session[0].contains("Domain"),
            "{}",
            session[0]
        );
    }
    assert_eq!(
        visitor
            .send(Method::GET, &page, &NAVIGATION, &[])
            .await?
            .status,
        200
    );
    Ok(())
}

pub(super) async fn signing_out(site: Arc<Site>) -> anyhow::Result<()> {
    let edge = site.anonymous()?;
    let mut visitor = signed_in(&site, "bob").await?;
    let logout = visitor.url(&edge.console(), "/auth/logout")?;
    let foreign = [
        ("sec-fetch-site", "cross-site"),
        ("origin", "http://elsewhere.example"),
    ];
    visitor.send(Method::POST, &logout, &foreign, &[]).await?;
    assert!(
        visitor.cookies(&edge.console()).contains("nogoo9="),
        "another site signed bob out"
    );
    let own = format!("http://{}", edge.console());
    let answer = visitor
        .send(
            Method::POST,
            &logout,
            &[("sec-fetch-site", "same-origin"), ("origin", &own)],
            &[],
        )
        .await?;
    assert!(answer.status.is_redirection(), "{answer:?}");
    assert!(!visitor.cookies(&edge.console()).contains("nogoo9="));
    // Where to go after login: never to another site.
    for place in [
        "//elsewhere.example",
        "/\\elsewhere.example",
        "http://elsewhere.example/",
        "/%0d%0aSet-Cookie:a=b",
    ] {
        let mut login = visitor.url(&edge.console(), "/auth/login")?;
        login.query_pairs_mut().append_pair("return", place);
        let mut someone = Visitor::new(edge.clone())?;
        let (url, _) = someone.open(&login, "bob").await?;
        assert_eq!(url.host_str(), Some("localhost"), "{place}: {url}");
        let cookies = someone.cookies(&edge.console());
        assert!(
            cookies.starts_with("nogoo9=") && !cookies.contains(';'),
            "{place}: {cookies}"
        );
    }
    Ok(())
}
