use super::*;
use crate::access::Grant;
use proptest::prelude::*;

fn parse(pairs: &[(&str, &str)]) -> ExtraPorts {
    let annotations = pairs
        .iter()
        .map(|(key, value)| (format!("nogoo9/{key}"), (*value).to_owned()));
    ExtraPorts::parse(&annotations.collect())
}

/// Each as `name port path`, and how many problems there are.
fn short(ports: &ExtraPorts) -> (Vec<String>, usize) {
    let one = |port: &ExtraPort| {
        let path = port.path.as_deref().unwrap_or("-");
        format!("{} {} {path}", port.name, port.port)
    };
    (ports.iter().map(one).collect(), ports.problems().count())
}

#[test]
fn a_port_has_a_name_a_number_and_perhaps_a_path_and_people() {
    let ports = parse(&[
        ("workspace-port", "3000"),
        ("api.web.port", "8080"),
        ("api.api.port", " 9000 "),
        ("api.api.path", "/api/"),
        ("api.api.visibility", "user:bob"),
        ("apical", "no port"),
    ]);
    assert_eq!(short(&ports).0, ["api 9000 /api", "web 8080 -"]);
    assert_eq!(ports.problems().count(), 0);
    let workspace = Visibility::Authenticated;
    let web = ports.named("web").unwrap();
    assert_eq!(web.visibility(&workspace), &workspace);
    let bob = Visibility::Only(vec![Grant::User("bob".to_owned())]);
    assert_eq!(ports.named("api").unwrap().visibility(&workspace), &bob);
    assert_eq!(ports.named("other"), None);
    assert_eq!(parse(&[("workspace-port", "1")]), ExtraPorts::NONE);
    let manifest = serde_json::json!({"metadata": {"annotations": {
        "nogoo9/api.web.port": "8080", "nogoo9/api.web.path": 7, "nogoo9/visibility": "private",
    }}});
    let said = ExtraPorts::of_manifest(&manifest);
    assert_eq!(said, parse(&[("api.web.port", "8080")]));
    assert!(ExtraPorts::of_manifest(&serde_json::json!({})).is_empty());
    assert!(parse(&[("api.x.port", "no")]).is_empty());
}

#[test]
fn what_is_not_understood_is_left_out_and_told() {
    for (pairs, left, told) in [
        (&[("api.web.port", "0")][..], &[][..], "1 to 65535"),
        (&[("api.web.port", "65536")], &[], "'65536'"),
        (&[("api.web.port", "http")], &[], "api.web.port"),
        (&[("api.web.port", "-1")], &[], "1 to 65535"),
        (&[("api.Web.port", "80")], &[], "'Web'"),
        (&[("api.a--b.port", "80")], &[], "'a--b'"),
        (&[("api.xn.port", "80")], &[], "'xn'"),
        (&[("api.a.b.port", "80")], &[], "'a.b'"),
        (&[("api.aaaaaaaaaaaaaaaaaaaaa.port", "80")], &[], "1 to 20"),
        (&[("api..port", "80")], &[], "1 to 20"),
        (&[("api.port", "80")], &[], "api.NAME.port"),
        (&[("api.web.owner", "bob")], &[], ".visibility"),
        (&[("api.web.path", "/x")], &[], "api.web.port is missing"),
        (&[("api.web.visibility", "private")], &[], "is missing"),
        (&[("api.web.port", "3000")], &["web 3000 -"], "opens both"),
        (
            &[("workspace-port", "80"), ("api.web.port", "80")],
            &["web 80 -"],
            "own port",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/")],
            &["web 80 -"],
            "main port",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "x")],
            &["web 80 -"],
            "such as /api",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "")],
            &["web 80 -"],
            "such as /api",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/.nogoo9/x")],
            &["web 80 -"],
            "nogoo9's own",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/.nogoo9")],
            &["web 80 -"],
            "nogoo9's own",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/a/../b")],
            &["web 80 -"],
            "segments",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/a//b")],
            &["web 80 -"],
            "segments",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/a%2fb")],
            &["web 80 -"],
            "segments",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "/a;b")],
            &["web 80 -"],
            "segments",
        ),
        (
            &[("api.web.port", "80"), ("api.web.path", "//")],
            &["web 80 -"],
            "segments",
        ),
        (
            &[
                ("api.a.port", "1"),
                ("api.a.path", "/x"),
                ("api.b.port", "2"),
                ("api.b.path", "/x/"),
                ("api.c.port", "3"),
                ("api.c.path", "/x/y"),
            ],
            &["a 1 -", "b 2 -", "c 3 /x/y"],
            "several ports",
        ),
        (
            &[("api.web.port", "80"), ("api.web.visibility", "everyone")],
            &["web 80 -"],
            "nobody but the owner",
        ),
    ] {
        let ports = parse(pairs);
        let (seen, problems) = short(&ports);
        assert_eq!(seen, left, "{pairs:?}");
        assert_eq!(problems, 1, "{pairs:?}");
        let text = ports.problems().next().unwrap();
        assert!(text.contains(told), "{text}");
    }
    let unclear = parse(&[("api.web.port", "80"), ("api.web.visibility", "everyone")]);
    let web = unclear.named("web").unwrap();
    assert_eq!(
        web.visibility(&Visibility::Authenticated),
        &Visibility::Unclear("everyone".to_owned()),
        "private, whoever may open the workspace"
    );
}

#[test]
fn there_are_twenty_at_most() {
    let names: Vec<String> = (0..25).map(|n| format!("api.p{n:02}.port")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "80")).collect();
    let ports = parse(&pairs);
    assert_eq!(ports.iter().count(), MAX_PORTS);
    assert_eq!(ports.problems().count(), 5);
    assert!(ports.named("p19").is_some() && ports.named("p20").is_none());
    let many: Vec<String> = (0..99).map(|n| format!("api.x{n}.nothing")).collect();
    let pairs: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "80")).collect();
    assert_eq!(parse(&pairs).problems().count(), MAX_PROBLEMS);
}

#[test]
fn the_longest_path_wins_by_whole_segments() {
    let ports = parse(&[
        ("api.a.port", "1"),
        ("api.a.path", "/api"),
        ("api.b.port", "2"),
        ("api.b.path", "/api/v2"),
        ("api.c.port", "3"),
    ]);
    for (path, wanted) in [
        ("/api", Some("a")),
        ("/api/", Some("a")),
        ("/api/x", Some("a")),
        ("/api/v2", Some("b")),
        ("/api/v2/x/", Some("b")),
        ("/api/v22", Some("a")),
        ("/api//v2", Some("a")),
        ("/api/../x", Some("a")),
        ("/apiary", None),
        ("/api;x", None),
        ("/API", None),
        ("/%61pi/", None),
        ("//api/", None),
        ("/x/api", None),
        ("/", None),
        ("", None),
        ("*", None),
    ] {
        let found = ports.at(path).map(|port| &*port.name);
        assert_eq!(found, wanted, "{path}");
    }
}

proptest! {
    /// Whatever the annotations say: what is kept can be named, is found by its path and by nothing
    /// that does not begin with it, and there is never more of it than is allowed.
    #[test]
    fn whatever_is_said_what_is_kept_is_sound(
        pairs in proptest::collection::btree_map(
            "nogoo9/api\\.[a-c.-]{0,4}\\.(port|path|visibility|x)",
            "(/|\\.|a|b|[0-9]{1,5}|private|user:x|%2f| ){0,5}",
            0..12,
        ),
        path in "(/|a|b|\\.\\.|%2f){0,6}",
    ) {
        let ports = ExtraPorts::parse(&pairs);
        prop_assert!(ports.iter().count() <= MAX_PORTS);
        prop_assert!(ports.problems().count() <= MAX_PROBLEMS);
        for port in ports.iter() {
            prop_assert!(id::check_port_name(&port.name).is_ok());
            prop_assert_eq!(ports.named(&port.name), Some(port));
            prop_assert!(port.port != 0);
            if let Some(own) = port.path.as_deref() {
                prop_assert!(own.len() > 1 && own.starts_with('/') && !own.ends_with('/'));
                prop_assert_eq!(ports.at(own), Some(port));
                let mut others = ports.iter().filter(|other| other.name != port.name);
                prop_assert!(others.all(|other| other.path != port.path));
            }
        }
        let longest = ports
            .iter()
            .filter(|port| port.path.as_deref().is_some_and(|own| {
                path == own || path.starts_with(&format!("{own}/"))
            }))
            .max_by_key(|port| port.path.as_ref().map(|own| own.len()));
        prop_assert_eq!(ports.at(&path), longest);
    }
}
