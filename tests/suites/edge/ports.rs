//! Extra ports of a real workspace: opened by a person who is signed in at the console, called by its own
//! pages and by no others, and moved by an upgrade.

use super::{begin, succeeded, text};
use http::{Method, StatusCode};
use nogoo9_tests::{Answer, Edge, Site, Socket, Template, Visitor};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message;
use url::Url;

/// The sample, whose second port is `port`.
fn template(name: &str, version: &str, port: &str) -> Template {
    Template::new(name, version)
        .env("DOCS_PORT", port)
        .annotation("nogoo9/api.docs.port", port)
        .annotation("nogoo9/api.docs.path", "/docs")
        .annotation("nogoo9/api.docs.visibility", "user:bob")
}

fn docs(edge: &Edge, id: &str) -> String {
    edge.host(&format!("docs--{id}"))
}

/// What a script of a page of `origin` gets that asks with the person's session.
async fn fetched(
    visitor: &mut Visitor,
    method: Method,
    url: &Url,
    origin: &str,
) -> anyhow::Result<Answer> {
    let origin = format!("http://{origin}");
    let headers = [
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-mode", "cors"),
        ("sec-fetch-dest", "empty"),
        ("origin", origin.as_str()),
    ];
    visitor.send(method, url, &headers, &[]).await
}

pub(super) async fn opened_and_called(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.anonymous()?);
    let template = template("ported", "1.0", "3001");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let (own, port) = (edge.host(&id), docs(&edge, &id));
    // The owner is told where it is.
    let shown = alice.workspace(&id).await?;
    let told = json!([{
        "name": "docs", "port": 3001, "url": format!("http://{port}/"),
        "pathUrl": format!("http://{own}/docs/"),
    }]);
    assert_eq!(shown["ports"], told, "{shown}");

    // Signed in at the console, a person opens it like a workspace: by a hand-over of its own.
    let mut visitor = Visitor::new(edge.clone())?;
    visitor.sign_in("alice").await?;
    let page = visitor.url(&port, "/headers?a=b")?;
    let (url, answer) = visitor.open(&page, "nobody").await?;
    assert_eq!((answer.status, &url), (StatusCode::OK, &page));
    let seen = answer.json()?;
    assert_eq!(seen["x-user-sub"], json!(["alice"]), "{seen}");
    assert_eq!(seen["x-forwarded-host"], json!([port]), "{seen}");
    assert!(seen.get("cookie").is_none(), "nothing of ours: {seen}");
    assert!(visitor.cookies(&own).is_empty(), "nothing but that host's");
    // Under the path it is the workspace's own origin.
    let (_, page) = visitor
        .open(&visitor.url(&own, "/docs/")?, "nobody")
        .await?;
    assert!(page.text().contains(&format!("What {id} answers")));
    let (at, _) = visitor.open(&visitor.url(&own, "/docs")?, "nobody").await?;
    assert_eq!(at.path(), "/docs/", "relative links need it");
    let landing = visitor.url(&own, "/docs/redirect")?;
    let (at, landed) = visitor.open(&landing, "nobody").await?;
    assert_eq!(
        (at.path(), landed.status),
        ("/docs/landing", StatusCode::OK)
    );
    assert_eq!(landed.json()?["cookie"], "sample=1", "its path is mapped");

    // Pages of the workspace call the port; nobody else's do, and the port's do not call the workspace.
    let sibling = edge.host("sibling");
    let (info, main) = (visitor.url(&port, "/info")?, visitor.url(&own, "/info")?);
    for (to, from, let_in) in [
        (&info, &own, true),
        (&info, &sibling, false),
        (&info, &edge.console(), false),
        (&main, &port, false),
        (&main, &sibling, false),
    ] {
        for method in [Method::GET, Method::POST] {
            let answer = fetched(&mut visitor, method.clone(), to, from).await?;
            let origin = format!("http://{from}");
            let read = answer.header("access-control-allow-origin") == Some(&origin);
            assert_eq!(read, let_in, "{method} {to} from {from}");
            // The sample knows no POST there, and says so itself.
            let wanted = match (let_in, &method) {
                (false, _) => 401,
                (true, &Method::POST) => 405,
                (true, _) => 200,
            };
            assert_eq!(answer.status, wanted, "{method} {to} from {from}");
        }
        let origin = format!("http://{from}");
        let preflight = [
            ("origin", origin.as_str()),
            ("access-control-request-method", "PUT"),
        ];
        let answer = visitor.send(Method::OPTIONS, to, &preflight, &[]).await?;
        let wanted = if let_in { 200 } else { 401 };
        assert_eq!(answer.status, wanted, "preflight to {to} from {from}");
    }

    // Bob may open the port, and nothing else of it; the console of neither tells him of it.
    let mut bob = Visitor::new(edge.clone())?;
    bob.sign_in("bob").await?;
    for (host, path, status) in [
        (&port, "/info", 200),
        (&own, "/docs/info", 200),
        (&own, "/info", 404),
        (&edge.host(&format!("shell--{id}")), "/", 404),
        (&edge.host("docs--none"), "/", 404),
    ] {
        let (_, answer) = bob.open(&bob.url(host, path)?, "nobody").await?;
        assert_eq!(answer.status, status, "{host}{path}: {}", answer.text());
    }
    let theirs = site.api("bob").await?;
    let list = theirs.ask(Method::GET, "/api/v1/workspaces", None).await?;
    let list: Value = list.expect(200)?;
    assert!(!list.to_string().contains(&id), "{list}");
    Ok(())
}

pub(super) async fn moved_by_an_upgrade(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge) = (site.api("alice").await?, site.edge("alice").await?);
    let first = template("moving", "1.0", "3001");
    let id = site.spawn(&alice, &first, json!({})).await?;
    let port = docs(&edge, &id);
    let mut by_host = Socket::open(&edge, &port, "/echo", &[]).await?;
    let mut by_path = Socket::open(&edge, &edge.host(&id), "/docs/echo", &[]).await?;
    // The new version has it elsewhere.
    let cluster = site.cluster().await?;
    cluster.apply(&template("moving", "2.0", "4001")).await?;
    let before = text(&alice.workspace(&id).await?["podName"]);
    let (pod, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&pod)).await?;
    for (host, path) in [(&port, "/info"), (&edge.host(&id), "/docs/info")] {
        let answer = Edge::send(edge.request(Method::GET, host, path)?).await?;
        let seen = answer.json()?;
        assert_eq!(
            (&seen["version"], &seen["pod"]),
            (&json!("2.0"), &json!(pod)),
            "{host}{path}"
        );
    }
    // What is open stays where it is, and keeps the old pod.
    for (n, socket) in [&mut by_host, &mut by_path].into_iter().enumerate() {
        let message = Message::text(format!("still there, {n}"));
        socket.send(message.clone()).await?;
        assert_eq!(socket.next().await?, message);
    }
    let pods = cluster.pods(&id).await?;
    let names: Vec<_> = pods
        .iter()
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    assert!(names.contains(&before.as_str()), "{names:?}");
    assert_eq!(alice.operation(&operation).await?["done"], false);
    assert_eq!(alice.workspace(&id).await?["ports"][0]["port"], 4001);
    by_host.close().await;
    by_path.close().await;
    succeeded(&alice, &operation).await
}
