use super::*;
use nogoo9_runtime::args::WorkspaceDomain;
use proptest::prelude::*;

fn router(url: &str, domain: (&str, Option<u16>), path_mode: bool) -> Router {
    Router::new(&Public {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: url.parse().unwrap(),
        workspace_domain: WorkspaceDomain {
            host: domain.0.to_owned(),
            port: domain.1,
        },
        path_mode,
        path_host: None,
    })
}

fn local() -> Router {
    router("http://localhost:9009", ("localhost", Some(9009)), true)
}

/// A target in short.
fn short(target: &Target<'_>) -> String {
    match target {
        Target::Workspace(Place {
            id,
            port,
            mode,
            path,
            ours,
        }) => {
            let ours = ours.map_or(String::new(), |ours| format!(" ours:{ours}"));
            let port = port
                .as_ref()
                .map_or(String::new(), |port| format!("{port} of "));
            format!("{mode:?} {port}{id} {path}{ours}")
        }
        Target::Control => "control".to_owned(),
        Target::Login => "login".to_owned(),
        Target::Slash(id) => format!("slash {id}"),
        Target::Internal => "internal".to_owned(),
        Target::Nothing => "nothing".to_owned(),
        Target::Misdirected => "421".to_owned(),
    }
}

#[test]
fn path_mode_has_a_host_of_its_own() {
    let router = Router::new(&Public {
        listen: "127.0.0.1:0".parse().unwrap(),
        url: "https://console.example.org/".parse().unwrap(),
        workspace_domain: WorkspaceDomain {
            host: "ws.example.net".to_owned(),
            port: None,
        },
        path_mode: true,
        path_host: Some(WorkspaceDomain {
            host: "paths.example.net".to_owned(),
            port: None,
        }),
    });
    for (host, path, expected) in [
        ("paths.example.net", "/route/dev/a", "Path dev /a"),
        ("PATHS.example.net:443", "/route/dev/", "Path dev /"),
        ("paths.example.net", "/route/dev", "slash dev"),
        (
            "paths.example.net",
            "/route/dev/.nogoo9/status",
            "Path dev /.nogoo9/status ours:status",
        ),
        ("paths.example.net", "/.nogoo9/login", "login"),
        ("paths.example.net.:443", "/.nogoo9/login", "login"),
        // Nothing of the console's, nor of what is between proxy and control.
        ("paths.example.net", "/", "nothing"),
        ("paths.example.net", "/api/v1/workspaces", "nothing"),
        ("paths.example.net", "/auth/login", "nothing"),
        ("paths.example.net", "/mcp", "nothing"),
        ("paths.example.net", "/.nogoo9/renew", "nothing"),
        ("paths.example.net", "/.nogoo9/login/", "nothing"),
        ("paths.example.net:80", "/route/dev/", "421"),
        // And no workspace on the console's.
        ("console.example.org", "/route/dev/a", "control"),
        ("console.example.org", "/.nogoo9/login", "internal"),
        ("dev.ws.example.net", "/a", "Host dev /a"),
    ] {
        assert_eq!(short(&router.target(host, path)), expected, "{host}{path}");
    }
    assert_eq!(router.path_host(), "paths.example.net");
    assert!(router.hands_over(Mode::Path));
    assert_eq!(local().path_host(), "localhost:9009");
    assert!(!local().hands_over(Mode::Path) && local().hands_over(Mode::Host));
}

#[test]
fn hosts() {
    for (host, expected) in [
        ("localhost:9009", "control"),
        ("LocalHost:9009", "control"),
        ("localhost", "control"),
        ("localhost.:9009", "control"),
        ("127.0.0.1:9009", "control"),
        ("[::1]:1234", "control"),
        ("dev.localhost:9009", "Host dev /a"),
        ("DEV.LOCALHOST:9009", "Host dev /a"),
        ("dev.localhost", "Host dev /a"),
        ("dev.localhost.:9009", "Host dev /a"),
        ("dev.localhost:80", "421"),
        ("a.b.localhost:9009", "421"),
        ("web--dev.localhost:9009", "Host web of dev /a"),
        ("Web--DEV.localhost", "Host web of dev /a"),
        ("web--dev.localhost:80", "421"),
        ("web--dev--x.localhost:9009", "421"),
        ("web---dev.localhost:9009", "421"),
        ("--dev.localhost:9009", "421"),
        ("web--.localhost:9009", "421"),
        ("xn--dev.localhost:9009", "421"),
        ("web--dev.x.localhost:9009", "421"),
        ("-dev.localhost:9009", "421"),
        (".localhost:9009", "421"),
        ("evillocalhost:9009", "421"),
        ("example.org", "421"),
        ("10.0.0.1:9009", "421"),
        ("", "421"),
        (":9009", "421"),
        ("localhost:", "control"),
        ("localhost:+9009", "421"),
        ("localhost:99999", "421"),
        ("ä.localhost:9009", "421"),
    ] {
        assert_eq!(short(&local().target(host, "/a")), expected, "{host}");
    }
}

#[test]
fn a_domain_apart_from_the_console() {
    let router = router(
        "https://workspaces.example.org",
        ("ws.example.net", None),
        false,
    );
    for (host, expected) in [
        ("workspaces.example.org", "control"),
        ("workspaces.example.org:443", "control"),
        ("workspaces.example.org:8443", "421"),
        ("dev.ws.example.net", "Host dev /route/x/y"),
        ("dev.ws.example.net:443", "Host dev /route/x/y"),
        ("ws.example.net", "421"),
        ("dev.workspaces.example.org", "421"),
        // Not this machine's: nobody is at it.
        ("localhost", "421"),
        ("127.0.0.1", "421"),
        ("[::1]:8443", "421"),
    ] {
        assert_eq!(
            short(&router.target(host, "/route/x/y")),
            expected,
            "{host}"
        );
    }
    assert_eq!(router.workspace_host("dev"), "dev.ws.example.net");
    assert_eq!(local().workspace_host("dev"), "dev.localhost:9009");
    assert_eq!(local().console_host(), "localhost:9009");
}

#[test]
fn paths() {
    for (path, expected) in [
        ("/route/dev/", "Path dev /"),
        ("/route/dev/a/b", "Path dev /a/b"),
        ("/route/dev", "slash dev"),
        ("/route/", "control"),
        ("/route//a", "Path  /a"),
        ("/route/../a", "Path .. /a"),
        ("/route/dev/../other/a", "Path dev /../other/a"),
        ("/route/dev/..%2fother/a", "Path dev /..%2fother/a"),
        ("/route/dev%2fother/a", "Path dev%2fother /a"),
        (
            "/route/dev/.nogoo9/status",
            "Path dev /.nogoo9/status ours:status",
        ),
        ("/route/dev/.nogoo9/", "Path dev /.nogoo9/ ours:"),
        ("/route/dev/.nogoo9", "Path dev /.nogoo9"),
        ("/route/dev//.nogoo9/status", "Path dev //.nogoo9/status"),
        ("/Route/dev/", "control"),
        ("//route/dev/", "control"),
        ("/x/../route/dev/", "control"),
        ("/routes/dev/", "control"),
        ("/.nogoo9/absent/dev", "internal"),
        ("/.nogoo9/login", "internal"),
        ("/.nogoo9", "control"),
        ("/", "control"),
        ("*", "control"),
    ] {
        assert_eq!(
            short(&local().target("localhost:9009", path)),
            expected,
            "{path}"
        );
    }
    let host_only = router("http://localhost:9009", ("localhost", Some(9009)), false);
    assert_eq!(
        short(&host_only.target("localhost:9009", "/route/dev/")),
        "control"
    );
}

#[test]
fn a_ports_host_is_its_own() {
    for (path, expected) in [
        ("/", "Host web of dev /"),
        ("/route/other/", "Host web of dev /route/other/"),
        (
            "/.nogoo9/login",
            "Host web of dev /.nogoo9/login ours:login",
        ),
    ] {
        let router = local();
        let target = router.target("web--dev.localhost:9009", path);
        assert_eq!(short(&target), expected, "{path}");
    }
    assert_eq!(local().port_host("web", "dev"), "web--dev.localhost:9009");
}

#[test]
fn origins_of_one_workspace() {
    let far = router(
        "https://workspaces.example.org",
        ("ws.example.net", None),
        false,
    );
    for (router, origin, own) in [
        (&local(), "http://dev.localhost:9009", true),
        (&local(), "http://web--dev.localhost:9009", false),
        (&local(), "https://dev.localhost:9009", false),
        (&local(), "http://dev.localhost", false),
        (&local(), "http://other.localhost:9009", false),
        (&local(), "http://web--other.localhost:9009", false),
        (&local(), "http://mydev.localhost:9009", false),
        (&local(), "http://-dev.localhost:9009", false),
        (&local(), "http://--dev.localhost:9009", false),
        (&local(), "http://a--b--dev.localhost:9009", false),
        (&local(), "http://evil.org/--dev.localhost:9009", false),
        (&local(), "http://localhost:9009", false),
        (&local(), "null", false),
        (&local(), "", false),
        (&far, "https://dev.ws.example.net", true),
        (&far, "https://web--dev.ws.example.net", false),
        (&far, "https://dev.ws.example.net:443", false),
        (&far, "http://dev.ws.example.net", false),
        (&far, "https://dev.ws.example.net.evil.org", false),
    ] {
        assert_eq!(router.is_origin_of(origin, "dev"), own, "{origin}");
    }
}

fn tricky() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "..", ".", "/", "//", "%2f", "%2F", "%2e%2e", "%2e", "\\", "dev", "other", "route",
        ".nogoo9", ";", "%00", "?", "@", ":",
    ]);
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    /// Whatever follows the prefix, the id is what stands before the next slash, and the pod sees
    /// exactly the rest.
    #[test]
    fn nothing_escapes_its_prefix(rest in tricky()) {
        let path = format!("/route/dev/{rest}");
        match local().target("localhost:9009", &path) {
            Target::Workspace(place) => {
                prop_assert_eq!(&*place.id, "dev");
                prop_assert_eq!(place.path, format!("/{rest}"));
            }
            other => prop_assert!(false, "{}", short(&other)),
        }
    }

    /// On a workspace's host, no path leads anywhere else.
    #[test]
    fn a_workspace_host_is_one_workspace(rest in tricky()) {
        let path = format!("/{rest}");
        match local().target("dev.localhost:9009", &path) {
            Target::Workspace(place) => {
                prop_assert_eq!(&*place.id, "dev");
                prop_assert_eq!(place.path, &path);
            }
            other => prop_assert!(false, "{}", short(&other)),
        }
    }

    /// Any host at all: no panic, and a workspace only under the domain.
    #[test]
    fn any_host(host in "[ -~]{0,40}") {
        if let Target::Workspace(place) = local().target(&host, "/") {
            let lower = host.to_ascii_lowercase();
            let port = place.port.map_or(String::new(), |port| format!("{port}--"));
            let prefix = format!("{port}{}.localhost", place.id);
            prop_assert!(lower.starts_with(&prefix), "{}", host);
        }
    }
}

#[test]
fn what_leads_elsewhere_once_resolved_is_ambiguous() {
    for (host, path, ambiguous) in [
        // Applications' own.
        ("dev.localhost:9009", "/a//b/%2F/..;/%40\\c", false),
        ("dev.localhost:9009", "/../a", false),
        ("dev.localhost:9009", "/a/.nogoo9/b", false),
        ("dev.localhost:9009", "/.nogoo9/status", false),
        ("localhost:9009", "/route/dev/a%2F..%2Fb//c", false),
        ("localhost:9009", "/route/dev/./a", false),
        ("localhost:9009", "/api/v1//workspaces", false),
        // The segment that is ours.
        ("dev.localhost:9009", "/%2enogoo9/status", true),
        ("dev.localhost:9009", "//.nogoo9/status", true),
        ("dev.localhost:9009", "/.nogoo9%2Fstatus", true),
        ("dev.localhost:9009", "/.nogoo9\\status", true),
        ("dev.localhost:9009", "/a/../.nogoo9/status", true),
        ("dev.localhost:9009", "/.nogoo9/../a", true),
        ("dev.localhost:9009", "/.nogoo9/%73tatus", true),
        // Which workspace.
        ("localhost:9009", "/route/dev/../other/a", true),
        ("localhost:9009", "/route/dev/a/%2e%2e/%2E./other/", true),
        ("localhost:9009", "/route/dev/..\\other/", true),
        ("localhost:9009", "/route/dev%2Fother", true),
        ("localhost:9009", "/route/d%65v/", true),
        ("localhost:9009", "/route//dev/", true),
        ("localhost:9009", "/r%6Fute/dev/", true),
        ("localhost:9009", "//route/dev/", true),
        ("localhost:9009", "/a/../route/dev/", true),
        ("localhost:9009", "/route/dev/..", true),
        ("localhost:9009", "/x/../.nogoo9/renew", true),
        // There is nothing in any case.
        ("elsewhere.example", "/a/../.nogoo9/status", false),
    ] {
        let router = local();
        let target = router.target(host, path);
        assert_eq!(
            router.is_ambiguous(host, path, &target),
            ambiguous,
            "{host}{path}"
        );
    }
}

proptest! {
    /// What is not refused is the same place to whoever resolves it.
    #[test]
    fn what_is_let_through_is_one_place(
        host in prop::sample::select(vec!["dev.localhost:9009", "localhost:9009"]),
        parts in prop::collection::vec(prop::sample::select(vec![
            "/", "\\", "%2f", "%5C", ".", "..", "%2e", "%2E%2E", "route", "r%6fute", "dev", "other",
            ".nogoo9", "%2enogoo9", "status", "a",
        ]), 0..10),
    ) {
        let router = local();
        let path = format!("/{}", parts.concat());
        let target = router.target(host, &path);
        if !router.is_ambiguous(host, &path, &target) {
            let resolved = plain::plain(&path).unwrap_or_else(|| path.clone());
            match (&target, router.target(host, &resolved)) {
                (Target::Workspace(one), Target::Workspace(other)) => {
                    prop_assert_eq!(&one.id, &other.id);
                    prop_assert_eq!(one.ours, other.ours);
                }
                (one, other) => prop_assert_eq!(one, &other),
            }
        }
    }
}
