use super::*;
use proptest::prelude::*;

fn whole(length: usize, client: Option<&str>) -> Result<Parsed, Malformed> {
    Ok(Parsed::Whole {
        length,
        client: client.map(|client| client.parse().unwrap()),
    })
}

/// A header of version 2.
fn second(command: u8, family: u8, said: &[u8]) -> Vec<u8> {
    let length = u16::try_from(said.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, said].concat()
}

const V4_SAID: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0x10, 0x20, 1, 187];

fn v6_said() -> Vec<u8> {
    let source = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
    let destination = "2001:db8::2".parse::<Ipv6Addr>().unwrap().octets();
    [&source[..], &destination, &[0x10, 0x20, 1, 187]].concat()
}

#[test]
fn version_1() {
    for (line, client) in [
        (
            "PROXY TCP4 192.0.2.1 198.51.100.2 4128 443\r\n",
            Some("192.0.2.1:4128"),
        ),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            Some("255.255.255.255:65535"),
        ),
        (
            "PROXY TCP6 2001:db8::1 2001:db8::2 4128 443\r\n",
            Some("[2001:db8::1]:4128"),
        ),
        (
            "PROXY TCP6 ::ffff:192.0.2.1 ::1 0 0\r\n",
            Some("[::ffff:192.0.2.1]:0"),
        ),
        ("PROXY UNKNOWN\r\n", None),
        ("PROXY UNKNOWN ffff::1 whatever \x01 it says\r\n", None),
    ] {
        assert_eq!(
            parse(line.as_bytes()),
            whole(line.len(), client),
            "{line:?}"
        );
        let more = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&more), whole(line.len(), client), "{line:?}");
    }
}

#[test]
fn what_version_1_may_not_say() {
    for line in [
        "PROXY\r\n",
        "PROXY \r\n",
        "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2  2\r\n",
        "PROXY TCP4 192.0.2.1 2001:db8::2 1 2\r\n",
        "PROXY TCP4 2001:db8::1 192.0.2.2 1 2\r\n",
        "PROXY TCP6 192.0.2.1 2001:db8::2 1 2\r\n",
        "PROXY TCP4 192.0.2.300 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1\n192.0.2.2 1 2\r\n",
        "GET / HTTP/1.1\r\n",
    ] {
        assert_eq!(parse(line.as_bytes()), Err(Malformed), "{line:?}");
    }
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_MOST));
    assert_eq!(parse(long.as_bytes()), Err(Malformed));
    // Nobody waits for an end that may not come any more.
    assert_eq!(parse(&long.as_bytes()[..V1_MOST]), Err(Malformed));
    assert_eq!(parse(&long.as_bytes()[..V1_MOST - 1]), Ok(Parsed::More));
}

#[test]
fn version_2() {
    let v6 = v6_said();
    let unix = [7; 216];
    let tlvs = [&V4_SAID[..], &[0x04, 0, 3, 1, 2, 3]].concat();
    for (command, family, said, client) in [
        (0x21, 0x11, &V4_SAID[..], Some("192.0.2.1:4128")),
        (0x21, 0x11, &tlvs, Some("192.0.2.1:4128")),
        (0x21, 0x21, &v6, Some("[2001:db8::1]:4128")),
        (0x21, 0x31, &unix, None),
        (0x21, 0x12, &V4_SAID, None),
        (0x21, 0x00, &[], None),
        (0x21, 0x00, &[1, 2, 3], None),
        (0x20, 0x00, &[], None),
        // LOCAL: what is said of addresses does not count.
        (0x20, 0x11, &V4_SAID, None),
        (0x20, 0xff, &[9], None),
    ] {
        let header = second(command, family, said);
        assert_eq!(
            parse(&header),
            whole(header.len(), client),
            "{command:x} {family:x}"
        );
        let more = [&header[..], b"\x16\x03\x01"].concat();
        assert_eq!(
            parse(&more),
            whole(header.len(), client),
            "{command:x} {family:x}"
        );
        for end in 0..header.len() {
            assert_eq!(
                parse(&header[..end]),
                Ok(Parsed::More),
                "{end} of {header:?}"
            );
        }
    }
}

#[test]
fn what_version_2_may_not_say() {
    for (command, family, said) in [
        (0x11, 0x11, &V4_SAID[..]),
        (0x01, 0x11, &V4_SAID),
        (0x22, 0x11, &V4_SAID),
        (0x21, 0x13, &V4_SAID),
        (0x21, 0x41, &V4_SAID),
        // Too short for what it claims to be.
        (0x21, 0x11, &V4_SAID[..11]),
        (0x21, 0x21, &[0; 35]),
    ] {
        let header = second(command, family, said);
        assert_eq!(parse(&header), Err(Malformed), "{command:x} {family:x}");
    }
    let most = second(0x21, 0x00, &vec![0; V2_MOST - FIXED]);
    assert_eq!(parse(&most), whole(V2_MOST, None));
    let more = second(0x21, 0x00, &vec![0; V2_MOST - FIXED + 1]);
    // As soon as it says so.
    assert_eq!(parse(&more[..FIXED]), Err(Malformed));
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let header = prop_oneof![
        Just(Vec::new()),
        Just(SIGNATURE.to_vec()),
        Just([&SIGNATURE[..], &[0x21, 0x11, 0, 12]].concat()),
        Just(b"PROXY TCP4 ".to_vec()),
        Just(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2".to_vec()),
    ];
    let rest = prop::collection::vec(any::<u8>(), 0..150);
    (header, rest).prop_map(|(header, rest)| [header, rest].concat())
}

proptest! {
    /// A verdict stays whatever comes later, and one is there once no more may come.
    #[test]
    fn verdicts_stay(bytes in bytes()) {
        let mut verdict = Ok(Parsed::More);
        for end in 0..=bytes.len() {
            let now = parse(&bytes[..end]);
            if verdict != Ok(Parsed::More) {
                prop_assert_eq!(now, verdict);
            }
            if let Ok(Parsed::Whole { length, .. }) = now {
                prop_assert!(length <= end);
            }
            verdict = now;
        }
    }

    #[test]
    fn any_address_is_read_as_it_was_written(v4: u32, v6: u128, port: u16, tlvs in prop::collection::vec(any::<u8>(), 0..50)) {
        let v4 = SocketAddr::from((Ipv4Addr::from_bits(v4), port));
        let v6 = SocketAddr::from((Ipv6Addr::from_bits(v6), port));
        for (client, family) in [(v4, "TCP4"), (v6, "TCP6")] {
            let line = format!("PROXY {family} {0} {0} {port} 443\r\n", client.ip());
            prop_assert_eq!(parse(line.as_bytes()), whole(line.len(), Some(&client.to_string())));
            let said = match client.ip() {
                IpAddr::V4(ip) => [&ip.octets()[..], &[0; 4], &port.to_be_bytes(), &[0; 2], &tlvs].concat(),
                IpAddr::V6(ip) => [&ip.octets()[..], &[0; 16], &port.to_be_bytes(), &[0; 2], &tlvs].concat(),
            };
            let header = second(0x21, if client.is_ipv4() { 0x11 } else { 0x21 }, &said);
            prop_assert_eq!(parse(&header), whole(header.len(), Some(&client.to_string())));
        }
    }
}
