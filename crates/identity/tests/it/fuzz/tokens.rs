//! Tokens of every kind, at every verifier.

use super::fuzz;
use super::mutation::{Mutation, mutation};
use super::world::WORLD;
use crate::support::{HOST, NOW};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

fn token() -> impl Strategy<Value = String> {
    let mutated = (any::<Index>(), vec(mutation(), 0..4)).prop_map(|(of, changes)| {
        let tokens = WORLD.tokens();
        let good = (*of.get(&tokens)).to_owned();
        changes
            .iter()
            .fold(good, |token, change: &Mutation| change.apply(&token))
    });
    prop_oneof![
        20 => mutated,
        1 => any::<String>(),
        1 => "[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,4}",
        1 => "ng9_.{0,40}",
    ]
}

#[test]
fn no_token_counts_that_was_not_signed() {
    let world = &*WORLD;
    let (bearers, sessions) = (world.door.bearers(), world.door.sessions());
    fuzz("tokens", &token(), |token| {
        let access = world.access.contains(&token);
        let verdict = bearers.verify(&token, NOW);
        prop_assert_eq!(verdict.is_ok(), access, "as a bearer: {:?}", verdict);
        if access {
            prop_assert!(bearers.claims_to_us(&token), "never passed on");
        }
        let verdict = sessions.verify(&token, HOST, NOW);
        prop_assert_eq!(verdict.is_ok(), token == world.session, "{:?}", verdict);
        let verdict = world.codes.redeem(&token, HOST, &world.nonce, NOW);
        prop_assert_eq!(verdict.is_ok(), token == world.code, "{:?}", verdict);
        let verdict = world.codes.login(&token, NOW);
        prop_assert_eq!(verdict.is_ok(), token == world.login, "{:?}", verdict);
        Ok(())
    });
}

#[test]
fn no_nonce_but_the_browsers_own_redeems_a_code() {
    let world = &*WORLD;
    let nonce = prop_oneof![
        Just(world.nonce.clone()),
        any::<String>(),
        "[A-Za-z0-9_-]{43}",
        (any::<Index>(), "[A-Za-z0-9_=. -]").prop_map(|(at, by)| {
            let mut nonce = WORLD.nonce.clone();
            let at = at.index(nonce.len());
            nonce.replace_range(at..=at, &by);
            nonce
        }),
    ];
    let host = prop_oneof![
        Just(HOST.to_owned()),
        any::<String>(),
        "[a-z.:0-9-]{0,20}",
        "(x\\.)?dev\\.ws\\.example\\.org(:[0-9]{1,5}|\\.|/)?",
    ];
    fuzz("codes", &(nonce, host), |(nonce, host)| {
        let verdict = world.codes.redeem(&world.code, &host, &nonce, NOW);
        let wanted = nonce == world.nonce && host.eq_ignore_ascii_case(HOST);
        prop_assert_eq!(verdict.is_ok(), wanted, "{:?}", verdict);
        Ok(())
    });
}
