//! Cookie headers of any bytes, with ours among them.

use super::fuzz;
use super::mutation::mutation;
use super::world::WORLD;
use crate::support::{HOST, NOW};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method};
use nogoo9_identity::cookie::{is_ours, pairs};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const SESSION: &str = "__Host-nogoo9";

#[derive(Debug, Clone)]
enum Cookie {
    /// The one that counts.
    Session,
    /// The same name with something else in it.
    Planted(String),
    /// Another name of ours.
    Ours(&'static str, String),
    /// An application's, well-formed, with this number in its name.
    App(u8, String),
    /// Anything.
    Junk(Vec<u8>),
}

fn cookie() -> impl Strategy<Value = Cookie> {
    const NAMES: &[&str] = &[
        "nogoo9",
        "nogoo9-nonce",
        "__Host-nogoo9-nonce",
        "nogoo9-login-x",
        "__Host-nogoo9-login-x",
        "nogoo9-",
    ];
    prop_oneof![
        2 => Just(Cookie::Session),
        2 => prop_oneof![
            // A semicolon would end the cookie, and what follows be no longer under our name.
            mutation().prop_map(|change| change.apply(&WORLD.session).replace(';', "_")),
            "[!#-+\\--:<-\\[\\]-~]{0,20}",
        ]
        .prop_map(Cookie::Planted),
        1 => (select(NAMES), "[!#-+\\--:<-\\[\\]-~]{0,20}").prop_map(|(n, v)| Cookie::Ours(n, v)),
        3 => (any::<u8>(), "[!#-+\\--:<-\\[\\]-~]{0,20}").prop_map(|(n, v)| Cookie::App(n, v)),
        2 => vec(any::<u8>(), 0..30).prop_map(Cookie::Junk),
    ]
}

impl Cookie {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Session => format!("{SESSION}={}", WORLD.session).into_bytes(),
            Self::Planted(value) => format!("{SESSION}={value}").into_bytes(),
            Self::Ours(name, value) => format!("{name}={value}").into_bytes(),
            Self::App(number, value) => format!("app{number}={value}").into_bytes(),
            Self::Junk(bytes) => bytes.clone(),
        }
    }
}

/// One `Cookie` header: cookies, and what stands between two of them.
fn header() -> impl Strategy<Value = Vec<(Cookie, &'static str)>> {
    vec(
        (cookie(), select(&["; ", ";", " ; ", ";;", ";\t"][..])),
        0..8,
    )
}

fn sent(cookies: &[Vec<(Cookie, &str)>]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for header in cookies {
        let mut bytes = Vec::new();
        for (cookie, separator) in header {
            bytes.extend(cookie.bytes());
            bytes.extend(separator.as_bytes());
        }
        // What no HTTP parser lets in does not get here either.
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            map.append(COOKIE, value);
        }
    }
    map
}

fn contains(map: &HeaderMap, bytes: &[u8]) -> bool {
    map.get_all(COOKIE)
        .iter()
        .any(|value| value.as_bytes().windows(bytes.len()).any(|at| at == bytes))
}

#[test]
fn only_the_signed_session_counts_and_no_pod_sees_it() {
    let world = &*WORLD;
    let good = format!("{SESSION}={}", world.session);
    fuzz("cookies", &vec(header(), 1..4), |cookies| {
        let mut map = sent(&cookies);
        let found = world.door.session(&Method::GET, &map, HOST, NOW);
        if found.is_some() {
            prop_assert!(contains(&map, good.as_bytes()), "{:?}", map);
        }
        let before: Vec<(String, String)> = pairs(&map)
            .filter(|(name, _)| !is_ours(name.trim_matches([' ', '\t'])))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();

        world.door.strip(&mut map);
        prop_assert!(!contains(&map, world.session.as_bytes()), "{:?}", map);
        prop_assert!(
            pairs(&map).all(|(name, _)| !is_ours(name.trim_matches([' ', '\t']))),
            "{:?}",
            map
        );
        let after: Vec<(String, String)> = pairs(&map)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        prop_assert_eq!(before, after, "the application's own stay as they are");
        let again = map.clone();
        world.door.strip(&mut map);
        prop_assert_eq!(map, again);
        Ok(())
    });
}
