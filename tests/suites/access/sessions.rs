//! Sessions of browsers: how they are handed over, and how they end.

use super::origins::signed_in;
use http::Method;
use nogoo9_tests::{NAVIGATION, Site, Template, Visitor};
use serde_json::json;
use std::sync::Arc;

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
