//! What is done to a good token.

use super::world::WORLD;
use crate::support::NOW;
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{Algorithm, EncodingKey};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::Value;

#[derive(Debug, Clone)]
pub(super) enum Mutation {
    /// One byte becomes another.
    Replace(Index, u8),
    /// Something is put in.
    Insert(Index, String),
    /// A stretch is taken out.
    Delete(Index, usize),
    /// A part comes from another good token.
    Splice(usize, Index),
    /// A part is there twice.
    Repeat(usize),
    /// A member of header (0) or claims (1) is set, as JSON text.
    Set(usize, String, String),
    /// A member is named twice.
    Double(usize, String, String),
    /// Header and claims are signed anew, by somebody who must not.
    Sign(Forgery),
}

#[derive(Debug, Clone)]
pub(super) enum Forgery {
    Empty,
    Zeros(usize),
    /// With the published keys as a shared secret.
    Published(Algorithm),
    /// With a key of the same id.
    Attacker,
}

const NAMES: &[&str] = &[
    "alg", "typ", "kid", "jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty", "iss",
    "aud", "sub", "exp", "nbf", "iat", "roles", "scope", "sid", "ng9", "azp", "",
];

fn value() -> impl Strategy<Value = String> {
    const TEXTS: &[&str] = &[
        "none",
        "None",
        "HS256",
        "HS512",
        "RS256",
        "PS256",
        "ES256",
        "EdDSA",
        "k",
        "ec",
        "rs",
        "../k",
        "' OR 1=1 --",
        "JWT",
        "at+jwt",
        "ng9-session+jwt",
        "ng9-code+jwt",
        "ng9-login+jwt",
        "logout+jwt",
        "root",
        "admin",
        "DEF",
        "b64",
        "http://127.0.0.1:9/k",
        "https://login.other.example",
        "https://secret.example",
        "app",
        "",
    ];
    prop_oneof![
        4 => select(TEXTS).prop_map(|text| Value::from(text).to_string()),
        2 => select(TEXTS).prop_map(|text| Value::from(vec![text, text]).to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => (-40..40i64).prop_map(|by| (NOW + by).to_string()),
        1 => select(&["null", "true", "false", "{}", "[]", "1e400", "1e18", "{\"a\":1,\"a\":2}"][..])
            .prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| Value::from(text).to_string()),
        1 => (1usize..200).prop_map(|depth| "[".repeat(depth) + &"]".repeat(depth)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(
            &[
                ".", "..", "=", "==", " ", "\t", "\r\n", "\0", "%", "+", "/", "-", "_", "\u{e9}"
            ][..]
        )
        .prop_map(str::to_owned),
        any::<String>(),
        "[A-Za-z0-9_-]{1,8}",
        (1usize..3000).prop_map(|times| "A".repeat(times)),
    ]
}

pub(super) fn mutation() -> impl Strategy<Value = Mutation> {
    let name = || select(NAMES).prop_map(str::to_owned);
    prop_oneof![
        3 => (any::<Index>(), 0x20u8..0x7f).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        1 => (any::<Index>(), text()).prop_map(|(at, text)| Mutation::Insert(at, text)),
        1 => (any::<Index>(), 1usize..80).prop_map(|(at, len)| Mutation::Delete(at, len)),
        2 => (0usize..3, any::<Index>()).prop_map(|(part, of)| Mutation::Splice(part, of)),
        1 => (0usize..3).prop_map(Mutation::Repeat),
        4 => (0usize..2, name(), value()).prop_map(|(part, n, v)| Mutation::Set(part, n, v)),
        1 => (0usize..2, name(), value()).prop_map(|(part, n, v)| Mutation::Double(part, n, v)),
        3 => forgery().prop_map(Mutation::Sign),
    ]
}

fn forgery() -> impl Strategy<Value = Forgery> {
    const SHARED: &[Algorithm] = &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
    prop_oneof![
        Just(Forgery::Empty),
        (1usize..300).prop_map(Forgery::Zeros),
        select(SHARED).prop_map(Forgery::Published),
        Just(Forgery::Attacker),
    ]
}

impl Mutation {
    /// The token, changed; as it is where there is nothing to change.
    pub(super) fn apply(&self, token: &str) -> String {
        let changed = match self {
            Self::Replace(at, byte) => edited(token, *at, 1, &char::from(*byte).to_string()),
            Self::Insert(at, text) => edited(token, *at, 0, text),
            Self::Delete(at, len) => edited(token, *at, *len, ""),
            Self::Splice(part, of) => {
                let from = *of.get(&WORLD.tokens());
                from.split('.')
                    .nth(*part)
                    .and_then(|other| with_part(token, *part, other))
            }
            Self::Repeat(part) => {
                let same = token.split('.').nth(*part).map(str::to_owned);
                same.and_then(|same| with_part(token, *part, &format!("{same}.{same}")))
            }
            Self::Set(part, name, value) => rewritten(token, *part, |mut all| {
                let value = serde_json::from_str(value).unwrap_or(Value::Null);
                all.insert(name.clone(), value);
                Value::Object(all).to_string()
            }),
            Self::Double(part, name, value) => rewritten(token, *part, |all| {
                let name = Value::from(name.as_str());
                let rest = Value::Object(all).to_string();
                format!(
                    "{{{name}:{value},{name}:{value},{}",
                    rest.trim_start_matches('{')
                )
            }),
            Self::Sign(forgery) => signed(token, forgery),
        };
        changed.unwrap_or_else(|| token.to_owned())
    }
}

/// `len` characters from `at` on become `text`.
fn edited(token: &str, at: Index, len: usize, text: &str) -> Option<String> {
    let chars: Vec<char> = token.chars().collect();
    if chars.is_empty() {
        return None;
    }
    let at = at.index(chars.len());
    let before = chars.iter().take(at);
    let after = chars.iter().skip(at + len);
    Some(
        before
            .copied()
            .chain(text.chars())
            .chain(after.copied())
            .collect(),
    )
}

fn with_part(token: &str, part: usize, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = token.split('.').collect();
    *parts.get_mut(part)? = text;
    Some(parts.join("."))
}

fn rewritten(
    token: &str,
    part: usize,
    change: impl FnOnce(serde_json::Map<String, Value>) -> String,
) -> Option<String> {
    let encoded = token.split('.').nth(part)?;
    let json = BASE64URL_NOPAD.decode(encoded.as_bytes()).ok()?;
    let all = serde_json::from_slice(&json).ok()?;
    with_part(token, part, &BASE64URL_NOPAD.encode(change(all).as_bytes()))
}

fn signed(token: &str, forgery: &Forgery) -> Option<String> {
    let message = token.rsplit_once('.')?.0;
    let signature = match forgery {
        Forgery::Empty => String::new(),
        Forgery::Zeros(len) => BASE64URL_NOPAD.encode(&vec![0; *len]),
        Forgery::Published(algorithm) => {
            let key = EncodingKey::from_secret(&WORLD.jwks).ok()?;
            jsonwebtoken::crypto::sign(message.as_bytes(), &key, *algorithm).ok()?
        }
        Forgery::Attacker => WORLD.attacker.signature(message),
    };
    Some(format!("{message}.{signature}"))
}
