//! Cookies that somebody planted, carried off, or has many of.

use crate::client::{Connection, NAVIGATE, request};
use crate::proxy::{CONSOLE, Stage};

/// What the pod got as cookies.
fn cookies(echo: &str) -> Vec<&str> {
    let lines = echo.lines();
    lines
        .filter_map(|line| line.strip_prefix("cookie: "))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_cookies_of_our_name_neither_count_nor_push_ours_out() {
    let stage = Stage::start().await;
    let (_app, _uid) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let own = stage.cookie_on("alice", &host);
    // Browsers send those of longer paths first, so what a parent domain planted there comes before
    // ours; of the same path there may be one a domain behind it.
    let tossed: Vec<String> = (0..50).map(|n| format!("nogoo9=tossed{n}")).collect();
    let tossed = tossed.join("; ");
    let elsewhere = stage.cookie_on("alice", &format!("other.{CONSOLE}"));
    let around = [
        format!("nogoo9=x; {own}"),
        format!("{own}; nogoo9=x"),
        format!("{elsewhere}; {own}; {elsewhere}"),
        format!("{tossed}; a=1; {own}; nogoo9=; nogoo9=late"),
    ];
    for cookie in &around {
        let mut navigates = NAVIGATE.to_vec();
        navigates.push(("Cookie", cookie));
        let scripts = [("Sec-Fetch-Site", "same-origin"), ("Cookie", cookie)];
        for headers in [&navigates[..], &scripts[..]] {
            let answer = stage.ask("GET", &host, "/x", headers).await;
            assert_eq!(answer.status, 200, "{cookie}");
            let seen = answer.text();
            assert!(!seen.contains("nogoo9=") && seen.contains("x-user-sub: alice"));
        }
    }
    // Without ours they are nobody: the way to sign in for a person, a 401 for a script. What sign-in
    // sets is the last of them again, and counts: no loop.
    for planted in [tossed.as_str(), elsewhere.as_str(), "nogoo9=x; nogoo9=y"] {
        let mut headers = NAVIGATE.to_vec();
        headers.push(("Cookie", planted));
        let page = stage.ask("GET", &host, "/x", &headers).await;
        let location = page.header("location").unwrap_or_default();
        let to_sign_in = format!("http://{CONSOLE}/auth/open?");
        assert!(
            page.status == 302 && location.starts_with(&to_sign_in),
            "{page:?}"
        );
        let headers = [("Sec-Fetch-Site", "same-origin"), ("Cookie", planted)];
        assert_eq!(stage.ask("GET", &host, "/x", &headers).await.status, 401);
        let signed_in = format!("{planted}; {own}");
        let mut headers = NAVIGATE.to_vec();
        headers.push(("Cookie", &signed_in));
        assert_eq!(stage.ask("GET", &host, "/x", &headers).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_cookies_of_the_applications_reach_it_as_they_are() {
    let stage = Stage::start().await;
    let (_app, _uid) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let own = stage.cookie_on("alice", &host);
    let mut theirs: Vec<String> = (0..36).map(|n| format!("app{n}=v=\"{n}\" {n}")).collect();
    // Names that begin like ours and are not, and what has no name, or no value.
    theirs.extend(["nogoo9x=1", "Nogoo9=2", "xnogoo9=3", "bare"].map(ToOwned::to_owned));
    let mut sent = theirs.clone();
    sent.insert(20, own);
    sent.insert(0, "__Host-nogoo9-nonce=n".to_owned());
    sent.push("nogoo9-login-ab=l".to_owned());
    let sent = sent.join("; ");
    for (method, target) in [("GET", "/x"), ("POST", "/x")] {
        let headers = [("Sec-Fetch-Site", "same-origin"), ("Cookie", sent.as_str())];
        let seen = stage.ask(method, &host, target, &headers).await.text();
        assert_eq!(cookies(&seen), [theirs.join("; ")], "{method}");
    }
    // Bytes of any kind, with which some application signs its own people in.
    let own = stage.cookie_on("alice", &host);
    let head = request("GET", &host, "/x", &[("Sec-Fetch-Site", "same-origin")]);
    let mut bytes = head.trim_end().as_bytes().to_vec();
    bytes.extend_from_slice(b"\r\nCookie: city=Z\xc3\xbcrich; ");
    bytes.extend_from_slice(own.as_bytes());
    bytes.extend_from_slice(b"; raw=\xe6\x97\xa5;x=1  ;\ty=2\r\n\r\n");
    let mut connection = Connection::open(stage.address).await;
    connection.send(bytes).await;
    let seen = connection.answer().await.text();
    assert_eq!(cookies(&seen), ["city=Zürich; raw=日; x=1; y=2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_counts_on_its_own_host_alone() {
    let stage = Stage::start().await;
    let (_dev, _uid) = stage.serving("dev", "dev", 1).await;
    let (other, _uid) = stage.serving("other", "other", 1).await;
    let host = |id: &str| format!("{id}.{CONSOLE}");
    let by_path = |id: &str| format!("/route/{id}/x");
    let of_dev = stage.cookie_on("alice", &host("dev"));
    let of_console = stage.cookie_on("alice", CONSOLE);
    // The workspace of dev has its cookie, and its owner's other workspaces are as far as ever.
    let before = other.requests();
    for (cookie, at, path) in [
        (&of_dev, host("other"), "/x".to_owned()),
        (&of_console, host("other"), "/x".to_owned()),
        (&of_dev, CONSOLE.to_owned(), by_path("other")),
    ] {
        for session in [cookie.clone(), format!("__Host-{cookie}")] {
            let headers = [("Sec-Fetch-Site", "same-origin"), ("Cookie", &session)];
            let answer = stage.ask("GET", &at, &path, &headers).await;
            assert_eq!(answer.status, 401, "{at}{path}");
        }
        // Nor is it anything as a bearer token.
        let bearer = format!("Bearer {}", cookie.trim_start_matches("nogoo9="));
        let headers = [("Authorization", bearer.as_str())];
        assert_eq!(stage.ask("GET", &at, &path, &headers).await.status, 401);
    }
    assert_eq!(other.requests(), before);
    let headers = [("Sec-Fetch-Site", "same-origin"), ("Cookie", &of_console)];
    let own = stage.ask("GET", CONSOLE, &by_path("other"), &headers).await;
    assert_eq!(own.status, 200, "what it is for");
}
