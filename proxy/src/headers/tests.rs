use super::*;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::Sessions;
use nogoo9_model::access::Role;
use pingora::http::ResponseHeader;
use proptest::prelude::*;
use std::sync::Arc;

fn authenticator() -> Authenticator {
    let policy = Arc::new(ClaimPolicy::default());
    let config = BearerConfig {
        issuer: "https://issuer".to_owned(),
        audiences: vec!["us".to_owned()],
    };
    let keys = || Keys::fixed(KeySet::default());
    Authenticator::new(
        Bearers::new(config, policy.clone(), keys()),
        Sessions::new("https://us/", policy, keys()),
        CookieNames::new(true),
    )
}

fn caller(sub: &str, roles: &[&str]) -> Caller {
    Caller {
        sub: sub.to_owned(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
        role: Role::User,
        scopes: None,
    }
}

const ORIGIN: Origin<'_> = Origin {
    host: "dev.localhost",
    scheme: "https",
    client: None,
};

fn request(headers: &[(&'static str, &str)]) -> RequestHeader {
    let mut request = RequestHeader::build("GET", b"/", None).unwrap();
    for (name, value) in headers {
        request.append_header(*name, *value).unwrap();
    }
    request
}

fn values(request: &RequestHeader, name: &str) -> Vec<String> {
    request
        .headers
        .get_all(name)
        .iter()
        .map(|v| v.to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn values_of_any_kind_fit() {
    for (text, expected) in [
        ("alice", "alice"),
        ("auth0|a@b.c", "auth0|a@b.c"),
        ("a b", "a%20b"),
        ("a,b", "a%2Cb"),
        ("100%", "100%25"),
        ("ä", "%C3%A4"),
        ("a\r\nX: y", "a%0D%0AX:%20y"),
    ] {
        assert_eq!(encoded(text), expected);
    }
    let mut request = request(&[]);
    let caller = caller("ä", &["a,b", "c"]);
    towards_pod(&mut request, &authenticator(), ORIGIN, Some(&caller), None).unwrap();
    assert_eq!(values(&request, "x-user-sub"), ["%C3%A4"]);
    assert_eq!(values(&request, "x-user-roles"), ["a%2Cb,c"]);
}

#[test]
fn names_that_proxies_put_on_and_names_that_applications_use() {
    for (name, stripped) in [
        ("X-User", true),
        ("X-Username", true),
        ("X-Auth-User", true),
        ("X-Auth-Username", true),
        ("X-Auth-Email", true),
        ("X-Auth-Groups", true),
        ("X_AUTH_ROLES", true),
        ("X-Email", true),
        ("X.Groups", true),
        ("X-Roles", true),
        ("OIDC_CLAIM_sub", true),
        ("X-OIDC-Email", true),
        ("X-Pomerium-Jwt-Assertion", true),
        ("X-Vouch-User", true),
        ("X-Consumer-Username", true),
        ("X-Credential-Identifier", true),
        ("X-Proxy-User", true),
        ("X-Auth-Token", false),
        ("X-Auth-Key", false),
        ("X-Email-Template", false),
        ("X-Group-By", false),
        ("X-Subscription", false),
        ("X-Proxy-Cache", false),
        ("OIDC-Issuer", false),
        ("Email", false),
    ] {
        let mut request = request(&[(name, "root")]);
        towards_pod(&mut request, &authenticator(), ORIGIN, None, None).unwrap();
        let gone = !request.headers.values().any(|value| value == "root");
        assert_eq!(gone, stripped, "{name}");
    }
}

#[test]
fn cookies_of_http2_are_joined() {
    let mut request = request(&[
        ("cookie", "a=1"),
        ("cookie", "__Host-nogoo9=x; b=2"),
        ("cookie", "c=3"),
    ]);
    towards_pod(&mut request, &authenticator(), ORIGIN, None, None).unwrap();
    assert_eq!(values(&request, "cookie"), ["a=1; b=2; c=3"]);
}

#[test]
fn hop_by_hop_headers_go() {
    let mut request = request(&[
        ("connection", "upgrade, x-named"),
        ("x-named", "1"),
        ("upgrade", "websocket"),
        ("te", "trailers"),
        ("sec-websocket-key", "x"),
        ("host", "dev.localhost"),
    ]);
    drop_hop_by_hop(&mut request);
    let left: std::collections::BTreeSet<&str> =
        request.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(
        left.into_iter().collect::<Vec<_>>(),
        ["host", "sec-websocket-key"]
    );
}

#[test]
fn addresses_are_mapped_back() {
    let mapping = Mapping {
        prefix: "/route/dev",
        stripped: true,
        shared: true,
        host: "localhost:9009",
        pod: "10.0.0.1:3000",
    };
    for (location, expected) in [
        ("/a?b#c", "/route/dev/a?b#c"),
        ("a", "a"),
        ("../a", "../a"),
        ("//evil.org/x", "//evil.org/x"),
        ("https://example.org/x", "https://example.org/x"),
        ("http://localhost:9009/x?y", "/route/dev/x?y"),
        ("http://10.0.0.1:3000/x", "/route/dev/x"),
        // From an application that goes by X-Forwarded-Prefix.
        ("/route/dev", "/route/dev"),
        ("/route/dev/a?b", "/route/dev/a?b"),
        ("/route/dev?b", "/route/dev?b"),
        ("http://localhost:9009/route/dev/x", "/route/dev/x"),
        ("http://10.0.0.1:3000/route/dev/x", "/route/dev/x"),
        ("/route/device", "/route/dev/route/device"),
    ] {
        let mut response = ResponseHeader::build(302, None).unwrap();
        response.insert_header("location", location).unwrap();
        from_pod(&mut response, Some(mapping)).unwrap();
        assert_eq!(response.headers.get("location").unwrap(), expected);
    }
}

#[test]
fn what_would_reach_siblings_goes_in_path_mode_alone() {
    let mapping = Mapping {
        prefix: "/route/dev",
        stripped: true,
        shared: true,
        host: "paths.example.net",
        pod: "10.0.0.1:3000",
    };
    let wide = [
        ("service-worker-allowed", "/"),
        ("clear-site-data", "\"*\""),
        ("alt-svc", "h3=\":443\""),
        ("strict-transport-security", "max-age=0"),
        ("nel", "{}"),
        ("report-to", "{}"),
        ("use-as-dictionary", "match=\"/*\""),
    ];
    let own = [
        ("content-security-policy", "frame-ancestors *"),
        ("x-frame-options", "DENY"),
    ];
    let all = || wide.iter().chain(&own);
    for mode in [None, Some(mapping)] {
        let mut response = ResponseHeader::build(200, None).unwrap();
        for (name, value) in all() {
            response.append_header(*name, *value).unwrap();
        }
        from_pod(&mut response, mode).unwrap();
        for (name, value) in all() {
            let kept = response
                .headers
                .get(*name)
                .map(|value| value.to_str().unwrap());
            let goes = mode.is_some() && !own.iter().any(|(one, _)| one == name);
            assert_eq!(kept, (!goes).then_some(*value), "{name} {mode:?}");
        }
        // And nothing of ours is put upon it.
        let most = if mode.is_some() {
            own.len()
        } else {
            own.len() + wide.len()
        };
        assert_eq!(response.headers.len(), most, "{:?}", response.headers);
    }
}

#[test]
fn an_extra_port_under_a_path_is_mapped_on_its_own_host() {
    let mapping = |stripped| Mapping {
        prefix: "/api",
        stripped,
        shared: false,
        host: "dev.localhost:9009",
        pod: "10.0.0.1:9000",
    };
    for (name, value, mapped) in [
        ("location", "/x?y", "/api/x?y"),
        ("location", "/api/x", "/api/x"),
        ("location", "http://10.0.0.1:9000/x", "/api/x"),
        ("location", "http://dev.localhost:9009/x", "/api/x"),
        ("location", "https://example.org/x", "https://example.org/x"),
        ("set-cookie", "a=1", "a=1"),
        ("set-cookie", "a=1; Path=/", "a=1; Path=/api/"),
        ("set-cookie", "a=1; Path=/x; Domain=b", "a=1; Path=/api/x"),
        (
            "set-cookie",
            "__host-a=1; Secure; Path=/",
            "__host-a=1; Secure; Path=/",
        ),
        // Nobody else is on its host.
        ("clear-site-data", "\"*\"", "\"*\""),
    ] {
        for (stripped, expected) in [(true, mapped), (false, value)] {
            let mut response = ResponseHeader::build(302, None).unwrap();
            response.insert_header(name, value).unwrap();
            from_pod(&mut response, Some(mapping(stripped))).unwrap();
            let got = response.headers.get(name).unwrap().to_str().unwrap();
            let expected = expected.replace("; Domain=b", "");
            assert_eq!(got, expected, "{name}: {value} {stripped}");
        }
    }
}

#[test]
fn cookies_stay_inside_their_workspace() {
    let mapping = |stripped| Mapping {
        prefix: "/route/dev",
        stripped,
        shared: true,
        host: "h",
        pod: "p",
    };
    for (cookie, host_mode, stripped, kept) in [
        (
            "a=1",
            Some("a=1"),
            Some("a=1; Path=/route/dev/"),
            Some("a=1; Path=/route/dev/"),
        ),
        (
            "a=1; Path=/x",
            Some("a=1; Path=/x"),
            Some("a=1; Path=/route/dev/x"),
            Some("a=1; Path=/route/dev/"),
        ),
        (
            "a=1; Path=/route/dev/x",
            Some("a=1; Path=/route/dev/x"),
            Some("a=1; Path=/route/dev/x"),
            Some("a=1; Path=/route/dev/x"),
        ),
        (
            "a=1; path=/route/device",
            Some("a=1; path=/route/device"),
            Some("a=1; Path=/route/dev/route/device"),
            Some("a=1; Path=/route/dev/"),
        ),
        (
            "a=1; DOMAIN=x; Secure",
            Some("a=1; Secure"),
            Some("a=1; Secure; Path=/route/dev/"),
            Some("a=1; Secure; Path=/route/dev/"),
        ),
        ("nogoo9=x", None, None, None),
        (" __Host-nogoo9 =x; Secure", None, None, None),
        ("nogoo9", None, None, None),
        ("=nogoo9=x", None, None, None),
    ] {
        for (mode, expected) in [
            (None, host_mode),
            (Some(mapping(true)), stripped),
            (Some(mapping(false)), kept),
        ] {
            let mut response = ResponseHeader::build(200, None).unwrap();
            response.insert_header("set-cookie", cookie).unwrap();
            from_pod(&mut response, mode).unwrap();
            let got = response
                .headers
                .get("set-cookie")
                .map(|value| value.to_str().unwrap());
            assert_eq!(got, expected, "{cookie} {mode:?}");
        }
    }
}

proptest! {
    /// No spelling of a claim gets through, and the caller's own headers are there exactly once.
    #[test]
    fn no_claim_survives(
        claim in prop::sample::select(CLAIMS.to_vec()),
        rest in "[a-z_-]{0,8}",
        upper in any::<u32>(),
        other in prop::sample::select(vec!['_', '.', '~', '!', '|']),
    ) {
        let name: String = format!("{claim}{rest}x").chars().enumerate().map(|(n, c)| {
            let c = if c == '-' && upper >> (n % 31) & 2 == 2 { other } else { c };
            if upper >> (n % 32) & 1 == 1 { c.to_ascii_uppercase() } else { c }
        }).collect();
        let mut request = request(&[]);
        request.append_header(name.clone(), "root").unwrap();
        let caller = caller("alice", &["user"]);
        towards_pod(&mut request, &authenticator(), ORIGIN, Some(&caller), Some("/route/dev")).unwrap();
        prop_assert!(request.headers.values().all(|value| value != "root"), "{}", name);
        prop_assert_eq!(values(&request, "x-user-sub"), ["alice"]);
    }
}
