//! Where nobody may be sent by a link to our login.

use nogoo9_control::login::{safe_return, safe_workspace_return};
use proptest::prelude::*;

#[test]
fn only_paths_of_the_same_origin() {
    let long = format!("/{}", "a".repeat(2048));
    let table = [
        ("/", "/"),
        ("/workspaces?x=1&y=%2F%2Fa#z", "/workspaces?x=1&y=%2F%2Fa#z"),
        ("/route/dev/", "/route/dev/"),
        ("/a//b", "/a//b"),
        (
            "/auth/open?host=dev.localhost:9009&return=%2F&n=x",
            "/auth/open?host=dev.localhost:9009&return=%2F&n=x",
        ),
        ("/?next=https://elsewhere", "/?next=https://elsewhere"),
        ("", "/"),
        ("workspaces", "/"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\/evil.example", "/"),
        ("/a\\b", "/"),
        ("/\t/evil.example", "/"),
        ("/\n/evil.example", "/"),
        ("/\r\nSet-Cookie: a=b", "/"),
        ("/ü", "/"),
        ("/a b", "/"),
        ("/.//evil.example", "/"),
        ("/a/..//evil.example", "/"),
        ("/..", "/"),
        ("/\0", "/"),
        ("javascript:alert(1)", "/"),
        ("?x", "/"),
        ("#x", "/"),
        ("/auth/login?return=/auth/login", "/"),
        ("/auth/callback?code=x&state=y", "/"),
        ("/auth/logout", "/"),
        ("/.nogoo9/login?code=x", "/"),
        (&long, "/"),
    ];
    for (given, wanted) in table {
        assert_eq!(safe_return(Some(given)), wanted, "{given:?}");
    }
    assert_eq!(safe_return(None), "/");
}

#[test]
fn a_workspace_may_have_a_login_of_its_own() {
    let table = [
        ("/auth/login?x=1", "/auth/login?x=1"),
        ("/auth/callback", "/auth/callback"),
        ("/.nogoo9/login?code=x", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
    ];
    for (given, wanted) in table {
        assert_eq!(safe_workspace_return(Some(given)), wanted, "{given:?}");
    }
    assert_eq!(safe_workspace_return(None), "/");
}

proptest! {
    #[test]
    fn whatever_is_given_browsers_stay_on_the_host(given in "[/\\\\.:@?#a\t\n ü]{0,12}") {
        let base = url::Url::parse("https://console.example.org/auth/callback").expect("a URL");
        let there = base.join(safe_return(Some(&given))).expect("a URL");
        prop_assert_eq!(there.origin(), base.origin());
    }
}
