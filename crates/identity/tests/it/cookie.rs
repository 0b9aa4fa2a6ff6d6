//! Cookies: found exactly, set safely, kept from pods whatever surrounds them.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use nogoo9_identity::cookie::{CookieNames, Stripped, is_ours, pairs, strip, values};
use proptest::prelude::*;

fn headers(values: &[&str]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for value in values {
        map.append(
            COOKIE,
            HeaderValue::from_str(value).expect("a header value"),
        );
    }
    map
}

#[test]
fn names_go_by_the_scheme() {
    let (secure, plain) = (CookieNames::new(true), CookieNames::new(false));
    assert_eq!(secure.session(), "__Host-nogoo9");
    assert_eq!(plain.session(), "nogoo9");
    assert_eq!(
        secure.set(secure.session(), "a.b.c", 60),
        "__Host-nogoo9=a.b.c; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
    );
    assert_eq!(
        plain.set(plain.nonce(), "n", 60),
        "nogoo9-nonce=n; Path=/; Max-Age=60; HttpOnly; SameSite=Lax"
    );
    assert_eq!(
        plain.delete(plain.session()),
        "nogoo9=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
    );
    for names in [secure, plain] {
        for name in [names.session(), names.nonce(), names.login_prefix()] {
            assert!(is_ours(name), "{name}");
        }
    }
    for name in [
        "",
        "nogoo",
        "nogoo9x",
        "Nogoo9",
        "xnogoo9",
        "__Host-",
        "__Secure-nogoo9",
    ] {
        assert!(!is_ours(name), "{name}");
    }
}

#[test]
fn values_are_found_in_every_header_and_in_order() {
    let map = headers(&[
        "a=1; nogoo9=x; b=2",
        "nogoo9=y=z;nogoo9=\t",
        "nogoo9; =; ;nogoo9-nonce=n",
    ]);
    assert_eq!(values(&map, "nogoo9").collect::<Vec<_>>(), ["x", "y=z", ""]);
    assert_eq!(values(&map, "nogoo9-nonce").collect::<Vec<_>>(), ["n"]);
    assert_eq!(values(&map, "c").count(), 0);
}

#[test]
fn a_cookie_of_other_bytes_hides_none_of_ours() {
    // Applications set such cookies, and with `Domain` so may a page of a sibling host: that must
    // not sign anybody out.
    let mut map = HeaderMap::new();
    let sent = b"city=Z\xfcrich; nogoo9=x; name=\xe6\x97\xa5; nogoo9-nonce=n; nogoo9=\xff";
    map.append(COOKIE, HeaderValue::from_bytes(sent).expect("a header"));
    assert_eq!(values(&map, "nogoo9").collect::<Vec<_>>(), ["x"]);
    assert_eq!(values(&map, "nogoo9-nonce").collect::<Vec<_>>(), ["n"]);
}

#[test]
fn looking_is_bounded() {
    let flood = "nogoo9=x; ".repeat(100);
    assert_eq!(values(&headers(&[&flood]), "nogoo9").count(), 4);
    // Planted at longer paths, others come first: ours, of the shortest, is among the last.
    let planted: Vec<String> = (0..50).map(|n| format!("nogoo9={n}")).collect();
    let map = headers(&[&planted.join("; "), "a=1; nogoo9=own", "nogoo9=late"]);
    assert_eq!(
        values(&map, "nogoo9").collect::<Vec<_>>(),
        ["48", "49", "own", "late"]
    );
    let many = "a=b; ".repeat(2000) + "nogoo9=x";
    assert_eq!(values(&headers(&[&many]), "nogoo9").count(), 0);
}

#[test]
fn stripping_takes_ours_and_nothing_else() {
    let table: &[(&str, Stripped)] = &[
        ("", Stripped::Unchanged),
        ("a=1;b=2 ; c", Stripped::Unchanged),
        ("nogoo9=x", Stripped::Nothing),
        (
            " nogoo9 = x ;; nogoo9-nonce=y; __Host-nogoo9-login-ab=z",
            Stripped::Nothing,
        ),
        ("nogoo9", Stripped::Nothing),
        (
            "a=1; nogoo9=x; b=\"2\"",
            Stripped::Rest(b"a=1; b=\"2\"".to_vec()),
        ),
        ("__Host-nogoo9=x; a=1", Stripped::Rest(b"a=1".to_vec())),
        (
            "a=nogoo9; nogoo9x=1; nogoo9=2",
            Stripped::Rest(b"a=nogoo9; nogoo9x=1".to_vec()),
        ),
        ("a; nogoo9=2", Stripped::Rest(b"a".to_vec())),
    ];
    for (value, wanted) in table {
        assert_eq!(strip(value.as_bytes()), *wanted, "{value}");
    }
    assert_eq!(
        strip(b"a=\xff\xfe; nogoo9=x"),
        Stripped::Rest(b"a=\xff\xfe".to_vec())
    );
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,12}",
        Just("nogoo9".to_owned()),
        Just("__Host-nogoo9".to_owned()),
        "nogoo9-[a-z]{0,6}",
        "__Host-nogoo9-login-[a-z0-9]{1,4}",
        "nogoo9[a-z]{1,3}",
    ]
}

proptest! {
    #[test]
    fn others_survive_byte_for_byte_and_ours_never(
        cookies in prop::collection::vec((name(), "[!#-+\\--:<-\\[\\]-~]{0,20}"), 0..20),
        separator in prop_oneof![Just("; "), Just(";"), Just(" ;\t")],
    ) {
        let sent: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let value = sent.join(separator);
        let left = match strip(value.as_bytes()) {
            Stripped::Unchanged => value.clone(),
            Stripped::Nothing => String::new(),
            Stripped::Rest(bytes) => String::from_utf8(bytes).expect("ASCII stays ASCII"),
        };
        let left = headers(&[&left]);
        let found: Vec<(&str, &str)> = pairs(&left).collect();
        let wanted: Vec<(&str, &str)> = cookies
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(name, _)| !is_ours(name))
            .collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn any_bytes_are_stripped_for_good(value in prop::collection::vec(any::<u8>(), 0..200)) {
        let once = match strip(&value) {
            Stripped::Unchanged => value,
            Stripped::Nothing => Vec::new(),
            Stripped::Rest(bytes) => bytes,
        };
        prop_assert_eq!(strip(&once), Stripped::Unchanged);
    }

    #[test]
    fn what_is_set_is_found_again(value in "[A-Za-z0-9_.-]{0,200}", before in "[a-z]=[a-z]{0,9}") {
        let names = CookieNames::new(true);
        let set = names.set(names.session(), &value, 60);
        let pair = set.split(';').next().expect("a first part").to_owned();
        let map = headers(&[&before, &pair]);
        prop_assert_eq!(values(&map, names.session()).collect::<Vec<_>>(), vec![value.as_str()]);
    }
}
