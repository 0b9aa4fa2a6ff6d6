//! What attackers prepare for somebody else's browser: links, codes, and places to return to.

use super::origins::signed_in;
use http::Method;
use nogoo9_tests::{NAVIGATION, Site, Template, Visitor};
use serde_json::json;
use std::sync::Arc;
use url::Url;

/// Places that a browser might take for another site's, as they stand in a query.
const ELSEWHERE: [&str; 17] = [
    "//elsewhere.example",
    "///elsewhere.example",
    "%2F%2Felsewhere.example",
    "/%5Celsewhere.example",
    "%5C%5Celsewhere.example",
    "/%09/elsewhere.example",
    "/%0A/elsewhere.example",
    "%09//elsewhere.example",
    "%20//elsewhere.example",
    "https://elsewhere.example/",
    "https:elsewhere.example",
    "https:%2F%2Felsewhere.example%2F",
    "//user:password@elsewhere.example/",
    "/.//elsewhere.example",
    "/a/..//elsewhere.example",
    "javascript:alert(1)",
    "/%0D%0ALocation:%20https://elsewhere.example/",
];

/// Whose session a browser has on the console, by what its API says.
async fn whose(visitor: &mut Visitor, console: &Url) -> anyhow::Result<Option<String>> {
    let url = console.join("/api/v1/capabilities")?;
    let own = [("sec-fetch-site", "same-origin")];
    let answer = visitor.send(Method::GET, &url, &own, &[]).await?;
    if answer.status == 401 {
        return Ok(None);
    }
    Ok(answer.json()?["sub"].as_str().map(ToOwned::to_owned))
}

pub(super) async fn a_login_link_of_an_attacker(site: Arc<Site>) -> anyhow::Result<()> {
    let edge = site.anonymous()?;
    let mut attacker = Visitor::new(edge.clone())?;
    let console = attacker.url(&edge.console(), "/")?;
    // Bob signs in as far as the provider takes him, and has somebody else open the last address.
    let login = console.join("/auth/login?return=/")?;
    let link = attacker.walk_to(&login, "bob", "/auth/callback").await?;
    let mut stranger = Visitor::new(edge.clone())?;
    let mut alice = signed_in(&site, "alice").await?;
    for (victim, is) in [(&mut stranger, None), (&mut alice, Some("alice"))] {
        // A login of one's own under way is no help to it.
        let own = victim.walk_to(&login, "alice", "/auth/callback").await?;
        let answer = victim.send(Method::GET, &link, &NAVIGATION, &[]).await?;
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(answer.header("location"), None);
        assert_eq!(whose(victim, &console).await?.as_deref(), is);
        // With the attacker's code under one's own state, what the provider signs tells.
        let mut mixed = own.clone();
        let code = |url: &Url| {
            let mut pairs = url.query_pairs();
            pairs
                .find(|(name, _)| name == "code")
                .map(|(_, v)| v.into_owned())
        };
        let pairs: Vec<(String, String)> = own.query_pairs().into_owned().collect();
        mixed.query_pairs_mut().clear();
        for (name, value) in pairs {
            let value = if name == "code" {
                code(&link).unwrap_or_default()
            } else {
                value
            };
            mixed.query_pairs_mut().append_pair(&name, &value);
        }
        let answer = victim.send(Method::GET, &mixed, &NAVIGATION, &[]).await?;
        assert!(!answer.status.is_redirection(), "{answer:?}");
        assert_eq!(whose(victim, &console).await?.as_deref(), is);
    }
    Ok(())
}

pub(super) async fn returns_lead_nowhere_else(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("returns", "1.0"), json!({}))
        .await?;
    let edge = site.anonymous()?;
    let mut visitor = signed_in(&site, "alice").await?;
    let host = edge.host(&id);
    let page = visitor.url(&host, "/info")?;
    visitor.open(&page, "alice").await?;
    let console = visitor.url(&edge.console(), "/")?;
    let hash = "A".repeat(43);
    for place in ELSEWHERE {
        // On the way over the provider.
        let login = console.join(&format!("/auth/login?return={place}"))?;
        let callback = visitor.walk_to(&login, "alice", "/auth/callback").await?;
        let home = visitor
            .send(Method::GET, &callback, &NAVIGATION, &[])
            .await?;
        assert_eq!(home.header("location"), Some("/"), "{place}");
        // On the way to a workspace, and on its host, where the session is already.
        let open = format!("/auth/open?host={host}&n={hash}&return={place}");
        let handed = visitor
            .send(Method::GET, &console.join(&open)?, &NAVIGATION, &[])
            .await?;
        let to = console.join(handed.header("location").unwrap_or_default())?;
        assert_eq!(to.host_str(), page.host_str(), "{place}");
        let back = to.query_pairs().find(|(name, _)| name == "return");
        assert_eq!(
            back.map(|(_, to)| to.into_owned()).as_deref(),
            Some("/"),
            "{place}"
        );
        let redeem = page.join(&format!("/.nogoo9/login?code=x&return={place}"))?;
        let there = visitor.send(Method::GET, &redeem, &NAVIGATION, &[]).await?;
        assert_eq!(there.status, 303, "{place}");
        assert_eq!(there.header("location"), Some("/"), "{place}");
        assert_eq!(there.headers.get_all("location").iter().count(), 1);
    }
    // Nor does an address of the edge's own become one of another host.
    for path in [
        "//elsewhere.example",
        "/route//elsewhere.example",
        "/\\elsewhere.example",
    ] {
        let head = [
            format!("GET {path} HTTP/1.1"),
            format!("Host: {}", edge.console()),
            "Accept: text/html".to_owned(),
        ];
        let answer = String::from_utf8_lossy(&edge.raw(&head, b"").await?).to_ascii_lowercase();
        for line in answer
            .lines()
            .filter_map(|line| line.strip_prefix("location: "))
        {
            let to = console.join(line)?;
            assert_eq!(to.host_str(), console.host_str(), "{path}: {line}");
        }
    }
    Ok(())
}

pub(super) async fn a_hand_over_code_is_used_once(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("codeonce", "1.0"), json!({}))
        .await?;
    let edge = site.anonymous()?;
    let host = edge.host(&id);
    let mut visitor = signed_in(&site, "alice").await?;
    let page = visitor.url(&host, "/info")?;
    let code = visitor.walk_to(&page, "alice", "/.nogoo9/login").await?;
    // Bob sends his own code to alice's browser, which has a nonce of her own: she does not become him.
    let mut bob = signed_in(&site, "bob").await?;
    let his = bob.walk_to(&page, "bob", "/.nogoo9/login").await?;
    // Her browser begins anew, as herself.
    let answer = visitor.send(Method::GET, &his, &NAVIGATION, &[]).await?;
    assert_eq!(answer.header("location"), Some("/info"));
    assert_eq!(answer.header("set-cookie"), None);
    assert!(!visitor.cookies(&host).contains("nogoo9="));
    // Hers is good for one use.
    let redeemed = visitor.send(Method::GET, &code, &NAVIGATION, &[]).await?;
    assert_eq!(redeemed.header("location"), Some("/info"));
    let opened = visitor.send(Method::GET, &page, &NAVIGATION, &[]).await?;
    assert_eq!(opened.status, 200);
    visitor.forget(&host);
    let again = visitor.send(Method::GET, &code, &NAVIGATION, &[]).await?;
    assert_eq!(again.status, 400, "{}", again.text());
    assert_eq!(visitor.cookies(&host), "");
    // On another host's, with that one's nonce, it never was.
    let other = visitor.url(&edge.host("codeelse"), "/info")?;
    visitor.walk_to(&other, "alice", "/.nogoo9/login").await?;
    let mut moved = other.join("/.nogoo9/login")?;
    moved.set_query(code.query());
    let answer = visitor.send(Method::GET, &moved, &NAVIGATION, &[]).await?;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(!visitor.cookies(&edge.host("codeelse")).contains("nogoo9="));
    // A page that fetches the way of a hand-over, rather than a person who walks it, gets no code.
    let mut fetched = visitor.url(&edge.console(), "/auth/open")?;
    fetched.query_pairs_mut().extend_pairs([
        ("host", host.as_str()),
        ("return", "/"),
        ("n", &"A".repeat(43)),
    ]);
    for (site, mode, dest) in [
        ("same-site", "cors", "empty"),
        ("same-site", "navigate", "iframe"),
    ] {
        let headers = [
            ("sec-fetch-site", site),
            ("sec-fetch-mode", mode),
            ("sec-fetch-dest", dest),
        ];
        let answer = visitor.send(Method::GET, &fetched, &headers, &[]).await?;
        let to = answer.header("location").unwrap_or_default();
        assert!(to.starts_with("/auth/login"), "{mode} {dest}: {to}");
    }
    Ok(())
}
