//! Whole requests: several proofs at once, in any spelling, from anywhere.

use super::fuzz;
use super::mutation::mutation;
use super::world::WORLD;
use crate::support::{HOST, NOW};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use nogoo9_identity::Via;
use nogoo9_identity::origin::cookie_counts;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn token() -> impl Strategy<Value = String> {
    let good = any::<Index>().prop_map(|of| of.get(&WORLD.access).clone());
    prop_oneof![
        3 => good.clone(),
        3 => (good, mutation()).prop_map(|(token, change)| change.apply(&token)),
        1 => "ng9_[A-Za-z0-9]{0,40}",
        1 => "[A-Za-z0-9._~+/-]{0,40}=?",
        1 => Just(WORLD.session.clone()),
    ]
}

fn authorization() -> impl Strategy<Value = (HeaderName, String)> {
    let scheme = select(
        &[
            "Bearer", "bearer", "BEARER", "bEaReR", "Basic", "token", "DPoP", "Bearer,", "",
        ][..],
    );
    let space = select(&[" ", "  ", "\t", " \t ", ""][..]);
    (scheme, space.clone(), token(), space)
        .prop_map(|(scheme, gap, token, end)| (AUTHORIZATION, format!("{scheme}{gap}{token}{end}")))
}

fn other() -> impl Strategy<Value = (HeaderName, String)> {
    let own = format!("https://{HOST}");
    let pick = |name: &'static str, values: Vec<String>| {
        select(values).prop_map(move |value| (HeaderName::from_static(name), value))
    };
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    prop_oneof![
        2 => Just((COOKIE, format!("__Host-nogoo9={}", WORLD.session))),
        2 => pick("origin", vec![own, "https://evil.ws.example.org".into(), "null".into()]),
        2 => pick("sec-fetch-site", texts(&["same-origin", "none", "same-site", "cross-site", ""])),
        1 => pick("sec-fetch-mode", texts(&["navigate", "cors", "websocket"])),
        1 => pick("sec-fetch-dest", texts(&["document", "empty", "iframe"])),
        1 => pick("upgrade", texts(&["websocket", "h2c"])),
        1 => pick("x-forwarded-user", texts(&["root"])),
        1 => ("[a-z]{1,8}", "[ -~]{0,20}").prop_map(|(name, value)| {
            let name = HeaderName::try_from(format!("x-app-{name}")).expect("a name");
            (name, value)
        }),
    ]
}

fn request() -> impl Strategy<Value = (Method, Vec<(HeaderName, String)>)> {
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::OPTIONS,
        Method::CONNECT,
    ];
    let all = vec(prop_oneof![authorization(), other()], 0..6);
    (select(methods.to_vec()), all)
}

fn map(sent: &[(HeaderName, String)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in sent {
        if let Ok(value) = HeaderValue::from_str(value) {
            map.append(name.clone(), value);
        }
    }
    map
}

/// The good access tokens in credentials that read as bearers.
fn good_bearers(map: &HeaderMap) -> usize {
    let is_good = |value: &HeaderValue| {
        let (scheme, token) = value.to_str().ok()?.trim().split_once([' ', '\t'])?;
        let known = WORLD.access.iter().any(|good| good == token.trim());
        (known && scheme.eq_ignore_ascii_case("bearer")).then_some(())
    };
    map.get_all(AUTHORIZATION)
        .iter()
        .filter_map(is_good)
        .count()
}

#[test]
fn nobody_is_somebody_without_a_signed_proof_and_no_pod_sees_it() {
    let world = &*WORLD;
    fuzz("headers", &request(), |(method, sent)| {
        let mut headers = map(&sent);
        let good = good_bearers(&headers);
        match world.door.authenticate(&method, &headers, HOST, NOW) {
            Ok(Some(found)) if found.via == Via::Bearer => prop_assert_eq!(good, 1),
            Ok(Some(_)) => {
                prop_assert_eq!(good, 0, "a bearer comes before a cookie");
                prop_assert!(headers.contains_key(COOKIE));
                prop_assert!(cookie_counts(&method, &headers, HOST));
            }
            Ok(None) => prop_assert_eq!(good, 0),
            Err(_) => prop_assert!(good != 1 || headers.get_all(AUTHORIZATION).iter().count() > 1),
        }
        let app = |headers: &HeaderMap| {
            let of_app = headers
                .iter()
                .filter(|(name, _)| name.as_str().starts_with("x-app-"));
            let named = of_app.map(|(name, value)| (name.to_string(), value.clone()));
            let mut all: Vec<_> = named.collect();
            // Between headers of different names there is no order.
            all.sort_by(|one, two| one.0.cmp(&two.0));
            all
        };
        let before = app(&headers);
        world.door.strip(&mut headers);
        prop_assert_eq!(good_bearers(&headers), 0);
        prop_assert!(!headers.contains_key(COOKIE));
        let personal = |value: &HeaderValue| {
            let text = value.to_str().unwrap_or_default().trim();
            let mut words = text.split([' ', '\t']);
            words
                .next_back()
                .is_some_and(|word| word.starts_with("ng9_"))
        };
        prop_assert!(!headers.get_all(AUTHORIZATION).iter().any(personal));
        prop_assert_eq!(before, app(&headers));
        Ok(())
    });
}
