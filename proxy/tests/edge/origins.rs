//! Pages of one workspace that reach for another, in both modes, and those that may.

use crate::client::{Answer, Connection, request};
use crate::cluster::Spec;
use crate::proxy::{CONSOLE, Stage};
use crate::upstream::Upstream;

const SOCKET: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// Sends the request on a connection of its own, and reads the head of the answer.
async fn head(stage: &Stage, method: &str, at: (&str, &str), headers: &[(&str, &str)]) -> Answer {
    let mut connection = Connection::open(stage.address).await;
    let (host, path) = at;
    connection.send(request(method, host, path, headers)).await;
    connection.head().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_one_workspace_gets_nothing_of_another() {
    let stage = Stage::start().await;
    let (app, _uid) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let sibling = format!("http://evil.{CONSOLE}");
    for (host, path) in [(host.as_str(), "/"), (CONSOLE, "/route/dev/")] {
        let cookie = stage.cookie_on("alice", host);
        let own = format!("http://{host}");
        let from = |site: &'static str, mode: &'static str, dest: &'static str| {
            vec![
                ("Cookie", cookie.as_str()),
                ("Sec-Fetch-Site", site),
                ("Sec-Fetch-Mode", mode),
                ("Sec-Fetch-Dest", dest),
            ]
        };
        let before = app.requests();
        for (method, mode, dest) in [
            ("GET", "cors", "empty"),
            ("GET", "no-cors", "image"),
            ("GET", "no-cors", "script"),
            ("GET", "navigate", "iframe"),
            ("POST", "navigate", "document"),
            ("POST", "cors", "empty"),
            ("PUT", "cors", "empty"),
            ("DELETE", "cors", "empty"),
            ("OPTIONS", "cors", "empty"),
        ] {
            for site in ["same-site", "cross-site"] {
                let mut headers = from(site, mode, dest);
                headers.push(("Origin", &sibling));
                headers.push(("Access-Control-Request-Method", method));
                headers.push(("Connection", "close"));
                let answer = head(&stage, method, (host, path), &headers).await;
                let framed = dest == "iframe";
                let wanted = if framed { 302 } else { 401 };
                assert_eq!(answer.status, wanted, "{method} {site} {mode} {host}{path}");
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
            // Those of before Sec-Fetch-Site say where they come from by Origin alone.
            let mut headers = vec![("Cookie", cookie.as_str()), ("Origin", &sibling)];
            headers.push(("Connection", "close"));
            let answer = head(&stage, method, (host, path), &headers).await;
            assert_eq!(answer.status, 401, "{method} by Origin {host}{path}");
        }
        let path = format!("{path}socket");
        for (site, origin, status) in [
            (Some("same-site"), sibling.as_str(), 401),
            (Some("cross-site"), "http://elsewhere.example", 401),
            (None, sibling.as_str(), 401),
            (None, "null", 401),
            (Some("same-origin"), own.as_str(), 101),
            (None, own.as_str(), 101),
        ] {
            let mut headers = SOCKET.to_vec();
            headers.extend([("Cookie", cookie.as_str()), ("Origin", origin)]);
            headers.extend(site.map(|site| ("Sec-Fetch-Site", site)));
            let answer = head(&stage, "GET", (host, &path), &headers).await;
            assert_eq!(answer.status, status, "{site:?} {origin} {host}{path}");
        }
        assert_eq!(app.requests(), before, "nothing of it came to the pod");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_may_let_pages_of_named_origins_in() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let docs = format!("http://docs.{CONSOLE}");
    let named = format!("https://app.example.org, {docs}");
    let annotations = [("allow-origins", named.as_str())];
    let pod = Spec::new("app", "dev", 1, app.address).with(&annotations);
    stage.run(&pod).await;
    let (host, cookie) = stage.alice("dev");
    let evil = format!("http://evil.{CONSOLE}");
    let from = |origin| {
        [
            ("Cookie", cookie.as_str()),
            ("Sec-Fetch-Site", "same-site"),
            ("Sec-Fetch-Mode", "cors"),
            ("Origin", origin),
        ]
    };
    for method in ["GET", "POST", "DELETE"] {
        let let_in = stage.ask(method, &host, "/x", &from(&docs)).await;
        assert_eq!(let_in.status, 200, "{method}");
        assert_eq!(let_in.header("access-control-allow-origin"), Some(&*docs));
        assert_eq!(let_in.all("vary"), ["Origin"]);
        let refused = stage.ask(method, &host, "/x", &from(&evil)).await;
        assert_eq!(refused.status, 401, "{method}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    // What the application says of itself stands.
    let path = "/answer?access-control-allow-origin=https://only.example";
    let own = stage.ask("GET", &host, path, &from(&docs)).await;
    assert_eq!(
        own.all("access-control-allow-origin"),
        ["https://only.example"]
    );
    assert_eq!(own.header("access-control-allow-credentials"), None);

    // Preflights carry no cookie. Those of named origins are answered, and none reaches the pod.
    let before = app.requests();
    let preflight = |origin| {
        [
            ("Origin", origin),
            ("Access-Control-Request-Method", "PUT"),
            ("Access-Control-Request-Headers", "content-type"),
        ]
    };
    let none = format!("none.{CONSOLE}");
    let answered = stage.ask("OPTIONS", &host, "/x", &preflight(&docs)).await;
    assert_eq!(answered.status, 200);
    for (name, value) in [
        ("access-control-allow-origin", docs.as_str()),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "PUT"),
        ("access-control-allow-headers", "content-type"),
    ] {
        assert_eq!(answered.header(name), Some(value));
    }
    let refused = stage.ask("OPTIONS", &host, "/x", &preflight(&evil)).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    // Nobody learns by them which workspaces there are, and which name whom.
    let elsewhere = stage.ask("OPTIONS", &none, "/x", &preflight(&docs)).await;
    assert_eq!(elsewhere.timeless(), answered.timeless());
    // Without a cookie a named origin is nobody either.
    let stranger = [("Origin", docs.as_str()), ("Sec-Fetch-Site", "same-site")];
    assert_eq!(stage.ask("POST", &host, "/x", &stranger).await.status, 401);
    assert_eq!(app.requests(), before);

    // Sockets by the same rule.
    for (origin, status) in [(&docs, 101), (&evil, 401)] {
        let mut headers = SOCKET.to_vec();
        headers.extend([("Cookie", cookie.as_str()), ("Origin", origin)]);
        headers.push(("Sec-Fetch-Site", "same-site"));
        let answer = head(&stage, "GET", (&host, "/socket"), &headers).await;
        assert_eq!(answer.status, status, "{origin}");
    }
    // In path mode, where siblings share a host, it means nothing.
    let console = stage.cookie_on("alice", CONSOLE);
    let headers = [
        ("Cookie", console.as_str()),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", &docs),
    ];
    let by_path = stage.ask("POST", CONSOLE, "/route/dev/x", &headers).await;
    assert_eq!(by_path.status, 401);
}

/// That it is to sign in, or to come again: else a script sees nothing but a network error.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_named_reads_what_the_edge_itself_answers() {
    let stage = Stage::with(&["--hold-timeout", "1"]).await;
    let (app, web) = (Upstream::start("app").await, Upstream::start("web").await);
    let docs = format!("http://docs.{CONSOLE}");
    let number = web.address.port().to_string();
    let annotations = [("allow-origins", docs.as_str()), ("api.web.port", &number)];
    let pod = Spec::new("app", "dev", 1, app.address).with(&annotations);
    stage.run(&pod).await;
    app.kill();
    web.kill();
    let reads = |answer: &Answer, origin: Option<&str>, what: &str| {
        assert_eq!(
            answer.header("access-control-allow-origin"),
            origin,
            "{what}"
        );
        let with_it = origin.map(|_| "true");
        let credentials = answer.header("access-control-allow-credentials");
        assert_eq!(credentials, with_it, "{what}");
        let exposed = answer.header("access-control-expose-headers");
        let exposed = exposed.is_some_and(|names| names.contains("Retry-After"));
        assert_eq!(exposed, origin.is_some(), "{what}");
    };
    let own = format!("http://dev.{CONSOLE}");
    let evil = format!("http://evil.{CONSOLE}");
    let dev = format!("dev.{CONSOLE}");
    let port = format!("web--dev.{CONSOLE}");
    for (host, origin) in [(&dev, &docs), (&port, &docs), (&port, &own)] {
        let cookie = stage.cookie_on("alice", host);
        let by = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-site")];
        let [named, site] = by;
        let signed_in = [named, site, ("Cookie", cookie.as_str())];
        let held = stage.ask("POST", host, "/x", &signed_in).await;
        assert_eq!((held.status, held.header("retry-after")), (503, Some("5")));
        reads(&held, Some(origin), host);
        let stranger = stage.ask("POST", host, "/x", &by).await;
        assert_eq!(stranger.status, 401);
        reads(&stranger, Some(origin), host);
        assert!(stranger.header("vary").unwrap().contains("Origin"));
    }
    // The same where there is no workspace, so that nobody learns whether there is, and which names whom.
    let none = format!("none.{CONSOLE}");
    let by = [("Origin", docs.as_str()), ("Sec-Fetch-Site", "same-site")];
    let (here, elsewhere) = (
        stage.ask("POST", &dev, "/x", &by).await.timeless(),
        stage.ask("POST", &none, "/x", &by).await.timeless(),
    );
    assert_eq!(here.headers.len(), elsewhere.headers.len());
    reads(&elsewhere, Some(&docs), "elsewhere");
    // Nobody else, and not in path mode.
    for (host, path, origin) in [
        (dev.as_str(), "/x", evil.as_str()),
        (&dev, "/x", "null"),
        (&dev, "/x", &format!("http://web--dev.{CONSOLE}")),
        (&none, "/x", &evil),
        (CONSOLE, "/route/dev/x", &docs),
    ] {
        let by = [("Origin", origin), ("Sec-Fetch-Site", "same-site")];
        let answer = stage.ask("POST", host, path, &by).await;
        assert_eq!(answer.status, 401);
        reads(&answer, None, origin);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_workspace_names_is_its_users_alone() {
    let stage = Stage::start().await;
    let app = Upstream::start("app").await;
    let docs = format!("http://docs.{CONSOLE}");
    let annotations = [("allow-origins", docs.as_str())];
    let pod = Spec::new("bobs", "bobs", 1, app.address).of("bob");
    stage.run(&pod.with(&annotations)).await;
    // Control says so of sessions, and knows of no workspace.
    let put = ("Access-Control-Request-Method", "PUT");
    let navigates = ("Sec-Fetch-Mode", "navigate");
    for (method, more, status) in [
        ("GET", &[][..], 401),
        ("POST", &[], 401),
        ("OPTIONS", &[put], 200),
        ("GET", &[navigates], 302),
        ("GET", &SOCKET, 401),
    ] {
        for fresh in [800, -5] {
            let mut answers = Vec::new();
            for id in ["bobs", "none"] {
                let host = format!("{id}.{CONSOLE}");
                let token = stage.token_fresh_for("s1", "user", &host, fresh);
                stage
                    .control
                    .says(&host, stage.goes_on("s1", "user", &host));
                let cookie = format!("nogoo9={token}; nogoo9-nonce={}", "A".repeat(43));
                let mut headers = more.to_vec();
                headers.extend([("Cookie", cookie.as_str()), ("Origin", &docs)]);
                headers.push(("Sec-Fetch-Site", "same-site"));
                let mut connection = Connection::open(stage.address).await;
                connection.send(request(method, &host, "/", &headers)).await;
                let answer = connection.answer().await;
                assert_eq!(answer.status, status, "{method} {more:?} {id} {fresh}");
                let (headers, text) = (answer.timeless().headers, answer.text());
                answers.push(format!("{headers:?}\n{text}").replace(id, "ID"));
            }
            assert_eq!(answers[0], answers[1], "{method} {more:?} {fresh}");
        }
    }
    assert_eq!((app.requests(), stage.control.asked().len()), (0, 0));
    assert!(stage.control.questions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_navigate_is_told_where_to_sign_in() {
    let stage = Stage::start().await;
    let (app, _uid) = stage.serving("app", "dev", 1).await;
    let html = ("Accept", "text/html");
    let site = ("Sec-Fetch-Site", "same-origin");
    let mut socket = SOCKET.to_vec();
    socket.push(html);
    for id in ["dev", "none"] {
        let own = format!("{id}.{CONSOLE}");
        let by_path = format!("/route/{id}/");
        for (host, path) in [(own.as_str(), "/"), (CONSOLE, by_path.as_str())] {
            for headers in [
                vec![("Accept", "application/json")],
                vec![("Accept", "*/*")],
                vec![],
                vec![html, ("X-Requested-With", "XMLHttpRequest")],
                vec![html, site, ("Sec-Fetch-Mode", "cors")],
                vec![html, site, ("Sec-Fetch-Mode", "same-origin")],
                vec![html, site, ("Sec-Fetch-Mode", "websocket")],
                socket.clone(),
            ] {
                let mut connection = Connection::open(stage.address).await;
                connection.send(request("GET", host, path, &headers)).await;
                let answer = connection.answer().await;
                assert_eq!(answer.status, 401, "{headers:?}");
                assert_eq!(answer.header("location"), None);
                assert_eq!(answer.header("set-cookie"), None);
                assert_eq!(answer.header("cache-control"), Some("no-store"));
                assert!(answer.header("vary").unwrap().contains("Sec-Fetch-Mode"));
                let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(body["code"], "unauthenticated");
                assert_eq!(body["signIn"], format!("http://{host}{path}"));
            }
            // There a person is led on.
            for headers in [
                vec![html],
                vec![html, ("X-Requested-With", "org.example.app")],
                vec![site, ("Sec-Fetch-Mode", "navigate")],
            ] {
                let answer = stage.ask("GET", host, path, &headers).await;
                assert_eq!(answer.status, 302, "{headers:?}");
                assert!(answer.header("vary").unwrap().contains("Sec-Fetch-Mode"));
            }
        }
    }
    assert_eq!(app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn path_mode_is_apart_from_the_console() {
    const PATHS: &str = "paths.example.net:9009";
    let flag = format!("--path-host={PATHS}");
    let stage = Stage::with(&[&flag]).await;
    let (app, _uid) = stage.serving("app", "dev", 1).await;
    let cookie = stage.cookie_on("alice", PATHS);
    let own = |cookie| [("Cookie", cookie), ("Sec-Fetch-Site", "same-origin")];
    let opened = stage.ask("GET", PATHS, "/route/dev/x", &own(&cookie)).await;
    assert_eq!(opened.status, 200);
    assert!(
        opened.text().starts_with("app\nGET /x\n"),
        "{}",
        opened.text()
    );
    // Sessions are the host's own, and handed over like a workspace's.
    let console = stage.cookie_on("alice", CONSOLE);
    let replayed = stage
        .ask("GET", PATHS, "/route/dev/x", &own(&console))
        .await;
    assert_eq!(replayed.status, 401);
    let navigates = [("Sec-Fetch-Mode", "navigate"), ("Sec-Fetch-Site", "none")];
    let page = stage.ask("GET", PATHS, "/route/dev/x", &navigates).await;
    assert_eq!(page.status, 302);
    let wanted =
        format!("http://{CONSOLE}/auth/open?host=paths.example.net%3A9009&return=/route/dev/x&n=");
    let location = page.header("location").unwrap();
    assert!(location.starts_with(&wanted), "{location}");
    assert!(
        page.header("set-cookie")
            .unwrap()
            .starts_with("nogoo9-nonce=")
    );
    // However the client spells the host, control is told the name that codes are made for.
    for host in [PATHS, "Paths.Example.NET.:9009", "paths.example.net"] {
        let redeem = stage.ask("GET", host, "/.nogoo9/login?code=x", &[]).await;
        let text = redeem.text();
        let forwarded = format!("\nx-forwarded-host: {PATHS}\n");
        assert!(
            text.starts_with("control\nGET /.nogoo9/login?code=x\n") && text.contains(&forwarded),
            "{host}: {text}"
        );
    }
    // Nothing of the console is there, and no workspace on the console's.
    let before = (app.requests(), stage.control.requests());
    for path in [
        "/",
        "/api/v1/workspaces",
        "/auth/login",
        "/mcp",
        "/.nogoo9/renew",
    ] {
        let answer = stage.ask("GET", PATHS, path, &own(&cookie)).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    assert_eq!((app.requests(), stage.control.requests()), before);
    let answer = stage
        .ask("GET", CONSOLE, "/route/dev/x", &own(&console))
        .await;
    assert!(answer.text().starts_with("control\nGET /route/dev/x\n"));
    assert_eq!(app.requests(), before.0);
}
