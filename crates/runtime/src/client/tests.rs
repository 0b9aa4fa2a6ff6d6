use super::*;
use proptest::prelude::*;

fn trusted(networks: &[&str]) -> TrustedProxies {
    TrustedProxies::new(networks.iter().map(|text| text.parse().unwrap()).collect())
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A header line.
type Line<'a> = (&'static str, &'a str);

fn headers(lines: &[Line<'_>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[test]
fn the_rightmost_address_that_is_not_a_trusted_proxys() {
    const XFF: &str = "x-forwarded-for";
    const FWD: &str = "forwarded";
    let lb = trusted(&["10.0.0.0/8", "192.0.2.7", "fd00::/8"]);
    let cases: &[(&str, &[Line<'_>], &str)] = &[
        // Nobody said anything.
        ("10.0.0.1", &[], "10.0.0.1"),
        ("203.0.113.9", &[], "203.0.113.9"),
        // Who is not trusted may say what they like.
        ("203.0.113.9", &[(XFF, "1.2.3.4")], "203.0.113.9"),
        ("203.0.113.9", &[(FWD, "for=1.2.3.4")], "203.0.113.9"),
        // One proxy, two, and what the client wrote itself.
        ("10.0.0.1", &[(XFF, "203.0.113.9")], "203.0.113.9"),
        (
            "10.0.0.1",
            &[(XFF, "203.0.113.9, 192.0.2.7")],
            "203.0.113.9",
        ),
        ("10.0.0.1", &[(XFF, "1.2.3.4, 203.0.113.9")], "203.0.113.9"),
        (
            "10.0.0.1",
            &[(XFF, "10.9.9.9, 203.0.113.9, 10.0.0.2")],
            "203.0.113.9",
        ),
        // Several lines are one list.
        (
            "10.0.0.1",
            &[(XFF, "1.2.3.4"), (XFF, "203.0.113.9"), (XFF, "10.0.0.2")],
            "203.0.113.9",
        ),
        // All of them are ours: the farthest.
        ("10.0.0.1", &[(XFF, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
        // What cannot be read ends it, at the proxy that wrote it.
        ("10.0.0.1", &[(XFF, "203.0.113.9, unknown")], "10.0.0.1"),
        (
            "10.0.0.1",
            &[(XFF, "203.0.113.9, junk, 10.0.0.2")],
            "10.0.0.2",
        ),
        ("10.0.0.1", &[(XFF, "junk, 203.0.113.9")], "203.0.113.9"),
        // Empty entries are none.
        ("10.0.0.1", &[(XFF, "203.0.113.9, ,")], "203.0.113.9"),
        ("10.0.0.1", &[(XFF, "")], "10.0.0.1"),
        // Ports, brackets, IPv4 in IPv6.
        ("10.0.0.1", &[(XFF, "203.0.113.9:4711")], "203.0.113.9"),
        ("10.0.0.1", &[(XFF, "[2001:db8::1]:4711")], "2001:db8::1"),
        ("10.0.0.1", &[(XFF, "[2001:db8::1]")], "2001:db8::1"),
        ("10.0.0.1", &[(XFF, "2001:db8::1")], "2001:db8::1"),
        ("10.0.0.1", &[(XFF, "::ffff:203.0.113.9")], "203.0.113.9"),
        ("::ffff:10.0.0.1", &[(XFF, "203.0.113.9")], "203.0.113.9"),
        ("fd00::5", &[(XFF, "203.0.113.9")], "203.0.113.9"),
        // RFC 7239.
        ("10.0.0.1", &[(FWD, "for=203.0.113.9")], "203.0.113.9"),
        (
            "10.0.0.1",
            &[(
                FWD,
                "for=1.2.3.4;proto=https, For=\"[2001:db8::1]:4711\";by=10.0.0.2",
            )],
            "2001:db8::1",
        ),
        (
            "10.0.0.1",
            &[(FWD, "for=203.0.113.9, for=10.0.0.2")],
            "203.0.113.9",
        ),
        (
            "10.0.0.1",
            &[(FWD, "for=203.0.113.9, for=_hidden")],
            "10.0.0.1",
        ),
        (
            "10.0.0.1",
            &[(FWD, "for=203.0.113.9, proto=https")],
            "10.0.0.1",
        ),
        (
            "10.0.0.1",
            &[(FWD, "for=1.2.3.4;for=203.0.113.9")],
            "10.0.0.1",
        ),
        // A comma inside of quotes begins nothing.
        (
            "10.0.0.1",
            &[(FWD, "by=\"x, for=1.2.3.4\";for=203.0.113.9")],
            "203.0.113.9",
        ),
        // An opened quote does not swallow what the proxy has appended.
        (
            "10.0.0.1",
            &[(FWD, "for=\"1.2.3.4\";x=\", for=203.0.113.9")],
            "10.0.0.1",
        ),
        // The older header comes first.
        (
            "10.0.0.1",
            &[(FWD, "for=1.2.3.4"), (XFF, "203.0.113.9")],
            "203.0.113.9",
        ),
    ];
    for (peer, lines, client) in cases {
        let found = lb.client(ip(peer), &headers(lines));
        assert_eq!(found, ip(client), "{peer} {lines:?}");
    }
}

#[test]
fn networks_are_read_and_mistakes_are_named() {
    for (text, inside, outside) in [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("10.1.2.3/8", "10.255.0.1", "11.0.0.1"),
        ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
        ("192.0.2.7/32", "::ffff:192.0.2.7", "192.0.2.6"),
        ("::ffff:10.0.0.0/104", "10.2.0.1", "11.0.0.1"),
        ("fd00::/8", "fdff::1", "fe80::1"),
        ("::1", "::1", "::2"),
        ("0.0.0.0/0", "203.0.113.9", "2001:db8::1"),
        ("::/0", "2001:db8::1", "203.0.113.9"),
    ] {
        let network: Network = text.parse().unwrap();
        assert!(network.contains(ip(inside)), "{inside} in {text}");
        assert!(!network.contains(ip(outside)), "{outside} not in {text}");
    }
    for wrong in [
        "",
        "/8",
        "10.0.0.0/",
        "10.0.0.0/33",
        "::/129",
        "10.0.0.0/+8",
        "10.0/8",
        "lb.example",
        "10.0.0.0/8/8",
        "::ffff:10.0.0.0/90",
        "10.0.0.0/256",
    ] {
        let error = wrong.parse::<Network>().unwrap_err().to_string();
        assert!(error.contains(&format!("`{wrong}`")), "{error}");
    }
}

#[test]
fn one_client_is_an_address_or_a_64() {
    let source = |text: &str| Source::from(ip(text));
    assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
    assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
    assert_ne!(source("203.0.113.9"), source("203.0.113.8"));
    assert_eq!(source("203.0.113.9"), source("::ffff:203.0.113.9"));
    assert_eq!(source("203.0.113.9").to_string(), "203.0.113.9");
    assert_eq!(source("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)).to_canonical()),
    ]
}

/// A value that a header can have, such as proxies and attackers write.
fn any_list() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any_ip().prop_map(|ip| ip.to_string()),
        any_ip().prop_map(|ip| format!("for=\"{ip}\"")),
        Just(",".to_owned()),
        Just(", ".to_owned()),
        "[ -~]{0,12}",
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// Whatever a peer that is not trusted sends, its own address counts.
    #[test]
    fn a_stranger_is_never_believed(peer in any_ip(), list in any_list(), other in any_list()) {
        let none = TrustedProxies::default();
        let said = headers(&[("x-forwarded-for", &list), ("forwarded", &other)]);
        prop_assert_eq!(none.client(peer, &said), peer);
        prop_assert_eq!(trusted(&["192.0.2.0/24"]).client(ip("198.51.100.1"), &said), ip("198.51.100.1"));
    }

    /// Behind a trusted proxy that appends whom it sees, nothing that the client wrote changes the
    /// outcome.
    #[test]
    fn a_client_cannot_lie_past_a_proxy_that_appends(client in any_ip(), list in any_list(), other in any_list()) {
        let lb = trusted(&["192.0.2.1"]);
        prop_assume!(client != ip("192.0.2.1"));
        let appended = format!("{list}, {client}");
        let said = headers(&[("x-forwarded-for", &appended), ("forwarded", &other)]);
        prop_assert_eq!(lb.client(ip("192.0.2.1"), &said), client);
        let said = headers(&[("x-forwarded-for", &list), ("x-forwarded-for", &client.to_string())]);
        prop_assert_eq!(lb.client(ip("192.0.2.1"), &said), client);
    }

    /// The same of `Forwarded`; here a client can at most hide behind the proxy.
    #[test]
    fn a_client_cannot_lie_past_a_proxy_that_appends_forwarded(client in any_ip(), list in any_list()) {
        let lb = trusted(&["192.0.2.1"]);
        prop_assume!(client != ip("192.0.2.1"));
        let appended = format!("{list}, for=\"{client}\"");
        let found = lb.client(ip("192.0.2.1"), &headers(&[("forwarded", &appended)]));
        prop_assert!(found == client || found == ip("192.0.2.1"), "{found}");
    }
}
