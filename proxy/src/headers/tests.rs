use super::*;
use nogoo9_identity::Authenticator;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::Sessions;
use nogoo9_model::access::{Caller, Role};
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

/// The request as its pod gets it.
fn towards(
    request: &mut RequestHeader,
    caller: Option<&Caller>,
    prefix: Option<&str>,
) -> pingora::Result<()> {
    let auth = authenticator();
    let target = request.raw_path();
    *request = towards_pod(request, request, target, &auth, ORIGIN, caller, prefix)?;
    Ok(())
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
    towards(&mut request, Some(&caller), None).unwrap();
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
        ("Client-Cert", true),
        ("Client-Cert-Chain", true),
        ("Client-IP", true),
        ("X-Cluster-Client-IP", true),
        ("Fastly-Client-IP", true),
        ("Forwarded_For", true),
        ("X-Forwarded", true),
        ("X-Original-Forwarded-For", true),
        ("X-Appengine-User-Email", true),
        ("kubeflow-userid", true),
        ("proxy", true),
        ("proxying", false),
        ("auth-user", true),
        ("author", false),
        ("x-ms-token-aad-id-token", true),
        ("x-azure-clientip", true),
        ("x-envoy-external-address", true),
        ("x-jwt-assertion", true),
        ("Client-Id", false),
        ("X-ForwardedTo", false),
        ("From", false),
        ("Keep", false),
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
        towards(&mut request, None, None).unwrap();
        let gone = !request.headers.values().any(|value| value == "root");
        assert_eq!(gone, stripped, "{name}");
    }
}

#[test]
fn no_claim_is_passed_over_by_its_first_letter() {
    let claims = CLAIMS.iter().chain(&WHOLE_CLAIMS);
    for claim in claims {
        assert!(FIRST.contains(&claim.as_bytes()[0]), "{claim}");
    }
}

#[test]
fn what_stays_has_its_order_and_its_letters() {
    let sent = request(&[
        ("hOsT", "dev.localhost"),
        ("X-First", "1"),
        ("Connection", "x-gone"),
        ("X-Gone", "1"),
        ("COOKIE", "a=1; __Host-nogoo9=x"),
        ("X-Auth-User", "root"),
        ("Transfer-ENCODING", "chunked"),
        ("x-last", "1"),
        ("X-FIRST", "2"),
        ("Authorization", "Basic YTpi"),
    ]);
    let mut left = sent.clone();
    for name in ["connection", "x-gone", "transfer-encoding"] {
        left.remove_header(name);
    }
    let auth = authenticator();
    let made = towards_pod(&sent, &left, b"/x?y", &auth, ORIGIN, None, None).unwrap();
    let mut wire = Vec::new();
    made.header_to_h1_wire(&mut wire);
    let wire = String::from_utf8(wire).unwrap();
    let lines: Vec<&str> = wire.trim_end().split("\r\n").collect();
    assert_eq!(
        lines,
        [
            "hOsT: dev.localhost",
            "X-First: 1",
            "X-FIRST: 2",
            "COOKIE: a=1",
            "Transfer-ENCODING: chunked",
            "x-last: 1",
            "Authorization: Basic YTpi",
            "X-Forwarded-Host: dev.localhost",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Port: 443",
            "Forwarded: for=unknown;host=\"dev.localhost\";proto=https",
        ]
    );
    assert_eq!(made.raw_path(), b"/x?y");
    assert_eq!(made.version, http::Version::HTTP_11);
    // HTTP/2 says by its frames where a body ends, and takes no such header (RFC 9113, section 8.2.2).
    left.set_version(http::Version::HTTP_2);
    let made = towards_pod(&sent, &left, b"/x?y", &auth, ORIGIN, None, None).unwrap();
    assert!(!made.headers.contains_key("transfer-encoding"));
}

#[test]
fn answers_keep_their_order_and_nothing_of_their_hop() {
    let mut response = ResponseHeader::build(200, None).unwrap();
    response.set_reason_phrase(Some("Fine")).unwrap();
    for (name, value) in [
        ("SERVER", "x"),
        ("Connection", "keep-alive, x-hop, content-length"),
        ("Keep-Alive", "timeout=5"),
        ("Set-Cookie", "a=1; Domain=x"),
        ("x-hop", "1"),
        ("Upgrade", "h2c"),
        ("Content-Length", "2"),
        ("set-cookie", "b=1"),
        ("Proxy-Connection", "close"),
        ("eTag", "x"),
    ] {
        response.append_header(name, value).unwrap();
    }
    from_pod(&mut response, None).unwrap();
    let mut wire = Vec::new();
    response.header_to_h1_wire(&mut wire);
    assert_eq!(
        String::from_utf8(wire).unwrap(),
        "SERVER: x\r\nConnection: keep-alive, x-hop, content-length\r\nSet-Cookie: a=1\r\nset-cookie: b=1\r\nContent-Length: 2\r\neTag: x\r\n"
    );
    assert_eq!(response.get_reason_phrase(), Some("Fine"));
    let mut wanted = ResponseHeader::build(426, None).unwrap();
    wanted.append_header("Upgrade", "websocket").unwrap();
    from_pod(&mut wanted, None).unwrap();
    assert!(wanted.headers.contains_key("upgrade"));
}

#[test]
fn cookies_of_http2_are_joined() {
    let mut request = request(&[
        ("cookie", "a=1"),
        ("cookie", "__Host-nogoo9=x; b=2"),
        ("cookie", "c=3"),
    ]);
    towards(&mut request, None, None).unwrap();
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
    let mapping = |stripped| Mapping {
        prefix: "/route/dev",
        stripped,
        shared: true,
        host: "localhost:9009",
        pod: "10.0.0.1:3000",
    };
    for (name, value, expected) in [
        ("location", "/a", "/route/dev/a"),
        ("content-location", "/a", "/route/dev/a"),
        ("sourcemap", "/a.map", "/route/dev/a.map"),
        ("refresh", "1; url=/a", "1; url=/route/dev/a"),
        ("link", "</a>; rel=next", "</route/dev/a>; rel=next"),
        ("x-other", "/a", "/a"),
    ] {
        for (mapping, expected) in [
            (None, value),
            (Some(mapping(true)), expected),
            (Some(mapping(false)), value),
        ] {
            let mut response = ResponseHeader::build(302, None).unwrap();
            response.insert_header(name, value).unwrap();
            from_pod(&mut response, mapping).unwrap();
            assert_eq!(response.headers.get(name).unwrap(), expected);
        }
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
        ("clear-site-data", "\"storage\""),
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
        ("clear-site-data", "\"cache\"", "\"cache\""),
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
        towards(&mut request, Some(&caller), Some("/route/dev")).unwrap();
        prop_assert!(request.headers.values().all(|value| value != "root"), "{}", name);
        prop_assert_eq!(values(&request, "x-user-sub"), ["alice"]);
    }
}
