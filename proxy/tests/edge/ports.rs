//! Extra ports: under a path of the workspace's own host, and on hosts of their own.

mod life;
mod workspace;

use crate::client::{NAVIGATE, own};
use crate::cluster::Spec;
use crate::eventually;
use crate::proxy::{CONSOLE, Stage};
use crate::sockets::{close, frame, text};
use crate::upstream::Upstream;
use workspace::{DEV, WEB, Workspace, ask, events, get, run, seen, socket, visit};

#[tokio::test(flavor = "multi_thread")]
async fn under_a_path_it_is_a_part_of_the_workspace() {
    let stage = Stage::start().await;
    let (app, api) = (Upstream::start("app").await, Upstream::start("api").await);
    let newer = Upstream::start("newer").await;
    let paths = [("api.one.path", "/api"), ("api.two.path", "/api/v2")];
    let pod = Spec::new("app", "dev", 1, app.address).with(&paths);
    run(&stage, pod, &[("one", &api), ("two", &newer)]).await;
    for (path, name, sent) in [
        ("/", "app", "/"),
        ("/apiary", "app", "/apiary"),
        ("/%61pi/x", "app", "/%61pi/x"),
        ("/api/", "api", "/"),
        ("/api", "api", "/"),
        ("/api?x=/y", "api", "/?x=/y"),
        ("/api/x?y", "api", "/x?y"),
        ("/api/%2F;a=b//c%40", "api", "/%2F;a=b//c%40"),
        ("/api/v22", "api", "/v22"),
        ("/api/v2/x", "newer", "/x"),
    ] {
        for (host, root) in [(DEV, ""), (CONSOLE, "/route/dev")] {
            let answer = get(&stage, host, &format!("{root}{path}")).await;
            let wanted = (name.to_owned(), format!("GET {sent}"));
            assert_eq!(seen(&answer), wanted, "{host}{root}{path}");
            let below = match name {
                "api" => "/api",
                "newer" => "/api/v2",
                _ => "",
            };
            let prefix = format!("x-forwarded-prefix: {root}{below}\n");
            let told = answer.text().contains(&prefix);
            assert_eq!(told, !format!("{root}{below}").is_empty(), "{path}");
        }
    }
    // Addresses are mapped back.
    for (host, root) in [(DEV, ""), (CONSOLE, "/route/dev")] {
        let path = format!("{root}/api/answer?location=/x&set-cookie=a=1;%20Path=/");
        let answer = get(&stage, host, &path).await;
        assert_eq!(
            (answer.header("location"), answer.header("set-cookie")),
            (
                Some(format!("{root}/api/x").as_str()),
                Some(format!("a=1; Path={root}/api/").as_str())
            )
        );
        // A page's relative links need the slash.
        let page = visit(&stage, host, &format!("{root}/api?q=1"), &NAVIGATE).await;
        let to = format!("{root}/api/?q=1");
        assert_eq!(
            (page.status, page.header("location")),
            (307, Some(to.as_str()))
        );
        let mut socket = socket(
            &stage,
            "alice",
            host,
            &format!("{root}/api/v2/socket"),
            "newer",
        )
        .await;
        socket.send(frame(1, b"hello")).await;
        assert_eq!(text(&mut socket).await, "hello");
    }
    // A body in, a stream out.
    let mut post = stage.begin("POST", "dev", "/api/x", "some body").await;
    assert!(post.answer().await.text().ends_with("\n\nsome body"));
    let mut events = stage.begin("GET", "dev", "/api/events", "").await;
    assert_eq!(events.head().await.status, 200);
    assert_eq!(events.chunk().await, b"data: one\n\n");
    api.release();
    assert_eq!(events.chunk().await, b"data: two\n\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_wants_whole_paths_gets_them() {
    let stage = Stage::start().await;
    let (app, api) = (Upstream::start("app").await, Upstream::start("api").await);
    let annotations = [("api.one.path", "/api"), ("strip-prefix", "false")];
    let pod = Spec::new("app", "dev", 1, app.address).with(&annotations);
    run(&stage, pod, &[("one", &api)]).await;
    for (host, path) in [(DEV, "/api/x?y"), (CONSOLE, "/route/dev/api/x?y")] {
        let answer = get(&stage, host, path).await;
        assert_eq!(seen(&answer), ("api".to_owned(), format!("GET {path}")));
    }
    // What the pod may take for a path of another port, which other people may open, is neither's.
    for climbs in [
        "/api/../x",
        "/api/%2e%2e/x",
        "/api/..%2fx",
        "/api//..\\..\\x",
    ] {
        for (host, root) in [(DEV, ""), (CONSOLE, "/route/dev")] {
            let path = format!("{root}{climbs}");
            assert_eq!(get(&stage, host, &path).await.status, 400, "{path}");
        }
    }
    let answer = get(&stage, DEV, "/api/../api/x").await;
    assert_eq!(seen(&answer).1, "GET /api/../api/x");
    // To whoever may not open it, it is no more there than anything else is.
    let other = ask(&stage, "bob", "GET", DEV, "/api/../x").await;
    assert_eq!(other.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_own_host_is_an_origin_of_its_own() {
    let workspace = Workspace::start("alice", &[]).await;
    let Workspace { stage, app, web } = &workspace;
    let answer = get(stage, WEB, "/a//b?c").await;
    assert_eq!(seen(&answer), ("web".to_owned(), "GET /a//b?c".to_owned()));
    assert!(
        answer
            .text()
            .contains(&format!("x-forwarded-host: {WEB}\n"))
    );
    assert!(!answer.text().contains("x-forwarded-prefix"));
    // Nothing of the main port's session counts there, nor the other way round.
    let before = (app.requests(), web.requests());
    for (host, other) in [(DEV, WEB), (WEB, DEV)] {
        let cookie = stage.cookie_on("alice", other);
        let headers = own(&cookie);
        assert_eq!(stage.ask("GET", host, "/", &headers).await.status, 401);
    }
    // A hand-over of its own, whether or not there is such a port.
    for host in [WEB, "none--dev.localhost:9009", "web--none.localhost:9009"] {
        let page = stage.ask("GET", host, "/a?b", &NAVIGATE).await;
        assert_eq!(page.status, 302);
        let (label, _) = host.split_once('.').unwrap();
        let wanted =
            format!("http://{CONSOLE}/auth/open?host={label}.localhost%3A9009&return=/a%3Fb&n=");
        let location = page.header("location").unwrap();
        assert!(location.starts_with(&wanted), "{location}");
        let redeemed = stage.ask("GET", host, "/.nogoo9/login?code=x", &[]).await;
        let (who, what) = seen(&redeemed);
        assert_eq!(who, "control");
        assert_eq!(what, "GET /.nogoo9/login?code=x");
        let forwarded = format!("\nx-forwarded-host: {host}\n");
        assert!(redeemed.text().contains(&forwarded), "{}", redeemed.text());
    }
    // What there is not looks the same, whatever it is that is missing.
    let mut answers = Vec::new();
    for host in [
        "none--dev.localhost:9009",
        "web--none.localhost:9009",
        "none--none.localhost:9009",
        "none.localhost:9009",
    ] {
        for headers in [&NAVIGATE[..], &[("Sec-Fetch-Site", "same-origin")]] {
            let answer = visit(stage, host, "/x", headers).await;
            assert_eq!(answer.status, 404, "{host}");
            answers.push(answer.timeless());
        }
    }
    let (pages, programs): (Vec<_>, Vec<_>) =
        answers.chunks(2).map(|pair| (&pair[0], &pair[1])).unzip();
    assert!(pages.iter().all(|page| *page == pages[0]));
    assert!(programs.iter().all(|program| *program == programs[0]));
    assert_eq!((app.requests(), web.requests()), before);
    // And no host is one that is more than a port and a workspace.
    for host in ["web--dev--x.localhost:9009", "a.web--dev.localhost:9009"] {
        assert_eq!(get(stage, host, "/").await.status, 421, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_port_has_its_own_people() {
    let annotations = [
        ("api.web.path", "/w"),
        ("api.web.visibility", "authenticated"),
    ];
    let workspace = Workspace::start("bob", &annotations).await;
    let stage = &workspace.stage;
    let statuses = async |user: &str| {
        let mut all = Vec::new();
        for (host, path) in [
            (DEV, "/"),
            (DEV, "/w/"),
            (WEB, "/"),
            (CONSOLE, "/route/dev/w/"),
        ] {
            all.push(ask(stage, user, "GET", host, path).await.status);
        }
        all
    };
    assert_eq!(statuses("alice").await, [404, 200, 200, 404]);
    assert_eq!(statuses("bob").await, [200; 4]);
    // Being an admin opens no other's.
    assert_eq!(statuses("admin").await, [404, 200, 200, 404]);

    // The other way round: what is open of the port ends, and what is the workspace's is let in.
    let by_host = socket(stage, "alice", WEB, "/socket", "web").await;
    let by_path = socket(stage, "alice", DEV, "/w/socket", "web").await;
    let mut owners = socket(stage, "bob", WEB, "/socket", "web").await;
    let mut events = events(stage, "alice").await;
    stage
        .cluster
        .annotate("app", "visibility", "authenticated")
        .await;
    eventually("the workspace to be open", || async {
        statuses("alice").await[0] == 200
    })
    .await;
    let mut mains = socket(stage, "alice", DEV, "/socket", "app").await;
    stage
        .cluster
        .annotate("app", "api.web.visibility", "user:carol")
        .await;
    for mut lost in [by_host, by_path] {
        let heard = lost.rest().await;
        assert!(heard.ends_with(&close(1008)), "{heard:?}");
    }
    assert_eq!(events.rest().await, b"");
    assert_eq!(statuses("alice").await, [200, 404, 404, 404]);
    assert_eq!(statuses("bob").await, [200; 4]);
    for kept in [&mut owners, &mut mains] {
        kept.send(frame(1, b"still here")).await;
        assert_eq!(text(kept).await, "still here");
    }
    // A port that goes takes with it whoever was on it.
    stage.cluster.annotate("app", "api.web.port", "none").await;
    assert!(owners.rest().await.ends_with(&close(1008)));
    assert_eq!(
        statuses("bob").await,
        [200, 200, 404, 200],
        "it is the main port's path now"
    );
    let path = ask(stage, "bob", "GET", DEV, "/w/x").await;
    assert_eq!(seen(&path), ("app".to_owned(), "GET /w/x".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_the_same_workspace_may_call_it() {
    let origins = [("allow-origins", "http://named--dev.localhost:9009")];
    let workspace = Workspace::start("alice", &origins).await;
    let Workspace { stage, app, web } = &workspace;
    for (to, from, counts) in [
        (WEB, DEV, true),
        (WEB, "other--dev.localhost:9009", false),
        (WEB, "evil.localhost:9009", false),
        (WEB, "web--evil.localhost:9009", false),
        (WEB, CONSOLE, false),
        (DEV, WEB, false),
    ] {
        let origin = format!("http://{from}");
        let cookie = stage.cookie_on("alice", to);
        let headers = [
            ("Cookie", cookie.as_str()),
            ("Origin", &origin),
            ("Sec-Fetch-Site", "same-site"),
            ("Sec-Fetch-Mode", "cors"),
        ];
        let before = (app.requests(), web.requests());
        for method in ["GET", "PUT"] {
            let answer = stage.ask(method, to, "/x", &headers).await;
            let allowed = answer.header("access-control-allow-origin");
            let wanted = if counts {
                (200, Some(origin.as_str()))
            } else {
                (401, None)
            };
            assert_eq!((answer.status, allowed), wanted, "{method} {from} to {to}");
        }
        let seen = (app.requests(), web.requests());
        let more = if counts { 2 } else { 0 };
        assert_eq!(seen, (before.0, before.1 + more));
        // Preflights carry no cookie, and none reaches the pod.
        let preflight = [
            ("Origin", origin.as_str()),
            ("Access-Control-Request-Method", "PUT"),
        ];
        let answer = stage.ask("OPTIONS", to, "/x", &preflight).await;
        let header = |name: &str| answer.header(name).map(ToOwned::to_owned);
        let told = (
            header("access-control-allow-origin"),
            header("access-control-allow-credentials"),
        );
        if counts {
            assert_eq!(answer.status, 200);
            assert_eq!(told, (Some(origin.clone()), Some("true".to_owned())));
        } else {
            assert_eq!((answer.status, told), (401, (None, None)));
        }
        // The same where there is no such workspace.
        let none = |host: &str| host.replace("dev", "none");
        let origin = format!("http://{}", none(from));
        let preflight = [
            ("Origin", origin.as_str()),
            ("Access-Control-Request-Method", "PUT"),
        ];
        let elsewhere = stage.ask("OPTIONS", &none(to), "/x", &preflight).await;
        assert_eq!(elsewhere.status, answer.status);
        assert_eq!((app.requests(), web.requests()), seen);
    }
    // Pages of another port may where that is said.
    let cookie = stage.cookie_on("alice", WEB);
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Origin", "http://named--dev.localhost:9009"),
        ("Sec-Fetch-Site", "same-site"),
        ("Sec-Fetch-Mode", "cors"),
    ];
    let answer = stage.ask("PUT", WEB, "/x", &headers).await;
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some("http://named--dev.localhost:9009"))
    );
}
