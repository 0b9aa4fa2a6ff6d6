use super::*;
use crate::access::{Action, Denied, Target, Visibility, may};

const NOW: UnixSeconds = 1_800_000_000;

fn caller(role: Role) -> Caller {
    Caller {
        sub: "alice".into(),
        roles: vec!["user".into(), "team".into()],
        role,
        scopes: None,
    }
}

fn made(role: Role, scopes: Option<&[&str]>) -> Result<PersonalToken, Refusal> {
    let scopes: Option<Vec<String>> =
        scopes.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
    let wanted = Wanted {
        name: "ci",
        scopes: scopes.as_deref(),
        days: None,
    };
    PersonalToken::new(&token(&[7; ENTROPY]), &caller(role), &wanted, NOW)
}

#[test]
fn tokens_are_known_by_their_form_and_named_by_their_hash() {
    let (one, other) = (token(&[0; ENTROPY]), token(&[255; ENTROPY]));
    for token in [&one, &other] {
        assert!(is_token(token), "{token}");
        assert_eq!(token.len(), PREFIX.len() + LETTERS);
        assert!(is_id(&id(token)) && hash(token).starts_with(&id(token)));
        assert!(!hash(token).contains(&token[PREFIX.len()..]));
    }
    assert_ne!(id(&one), id(&other));
    let long = format!("{one}a");
    for text in [
        "",
        "ng9_",
        &one[1..],
        &one[..one.len() - 1],
        &long,
        &one.to_uppercase(),
        &one.replace('a', "1"),
        &one.replacen('a', "/", 1),
        &format!("ng9_{}", "é".repeat(20)),
    ] {
        assert!(!is_token(text), "{text}");
    }
    for id in [
        "",
        "../nogoo9-session-keys",
        &"A".repeat(26),
        &"a".repeat(27),
    ] {
        assert!(!is_id(id), "{id}");
    }
}

#[test]
fn what_cannot_be_had() {
    let long = "n".repeat(MAX_NAME + 1);
    for (name, days, argument) in [
        ("", None, "name"),
        ("  ", None, "name"),
        ("a\nb", None, "name"),
        (&long, None, "name"),
        ("ci", Some(0), "expiresInDays"),
        ("ci", Some(MAX_DAYS + 1), "expiresInDays"),
    ] {
        let wanted = Wanted {
            name,
            scopes: None,
            days,
        };
        let refused = PersonalToken::new("t", &caller(Role::User), &wanted, NOW).unwrap_err();
        assert_eq!(refused.argument, argument, "{name:?} {days:?}");
    }
    for scopes in [
        &[][..],
        &["nogoo9:everything"],
        &[READ, ""],
        &[READ, ADMIN],
        &["nogoo9:READ"],
    ] {
        let refused = made(Role::User, Some(scopes)).unwrap_err();
        assert_eq!(refused.argument, "scopes", "{scopes:?}");
    }
    assert!(made(Role::Admin, Some(&[ADMIN])).is_ok());
}

#[test]
fn nobody_hands_on_a_scope_that_they_lack() {
    let limited = |scopes: &[&str]| Caller {
        scopes: Some(scopes.iter().map(|one| (*one).to_owned()).collect()),
        ..caller(Role::Admin)
    };
    let make = |caller: &Caller, scopes: Option<&[String]>| {
        let wanted = Wanted {
            name: "ci",
            scopes,
            days: None,
        };
        PersonalToken::new("t", caller, &wanted, NOW).map(|made| made.scopes)
    };
    let reader = limited(&[READ]);
    assert_eq!(make(&reader, None).unwrap(), [READ.to_owned()].into());
    assert!(make(&reader, Some(&[WRITE.to_owned()])).is_err());
    assert!(make(&reader, Some(&[ADMIN.to_owned()])).is_err());
    assert!(make(&limited(&["email"]), None).is_err());
}

#[test]
fn it_ends_when_it_says() {
    let token = token(&[7; ENTROPY]);
    let made = made(Role::User, None).unwrap();
    assert_eq!(made.expires, NOW + 30 * DAY);
    assert!(made.is_proven_by(&token, made.expires - 1));
    assert!(!made.is_proven_by(&token, made.expires));
    assert!(!made.is_proven_by("ng9_other", NOW));
    assert!(!serde_json::to_string(&made).unwrap().contains(&token));
}

#[test]
fn it_reaches_no_further_than_its_owner_did_or_does() {
    for (then, now, counts) in [
        (Role::User, Role::Admin, Role::User),
        (Role::Admin, Role::User, Role::User),
        (Role::Viewer, Role::User, Role::Viewer),
        (Role::Admin, Role::Admin, Role::Admin),
    ] {
        let speaks = made(then, None).unwrap().caller(caller(now));
        assert_eq!(speaks.role, counts, "{then:?} {now:?}");
    }
}

#[test]
fn scopes_limit_what_it_does() {
    let own = Target::Workspace {
        owner: "alice",
        visibility: &Visibility::Private,
    };
    let actions = [
        (Action::Read, own),
        (Action::Open, own),
        (Action::Manage, own),
        (Action::Upgrade, own),
        (Action::UpgradeAll, Target::Nothing),
    ];
    for (scopes, allowed) in [
        (Some(&[READ][..]), [true, true, false, false, false]),
        (Some(&[WRITE]), [false, false, true, true, false]),
        (Some(&[ADMIN]), [false, false, false, false, true]),
        // An admin's token upgrades everyone's only if that was asked for.
        (None, [true, true, true, true, false]),
    ] {
        let made = made(Role::Admin, scopes).unwrap();
        let speaks = made.caller(caller(Role::Admin));
        for ((action, target), allowed) in actions.into_iter().zip(allowed) {
            let verdict = may(&speaks, action, target);
            assert_eq!(verdict.is_ok(), allowed, "{scopes:?} {action:?}");
            if !allowed {
                let needed = action.scope();
                assert_eq!(verdict, Err(Denied::Scope { needed }));
            }
        }
    }
}

#[test]
fn its_last_use_is_noted_by_the_hour() {
    let made = made(Role::User, None).unwrap();
    let used = made.used(NOW + 5).unwrap();
    assert_eq!(used.last_used, Some(NOW + 5));
    assert_eq!(used.used(NOW + 4 + NOTE_EVERY), None);
    let again = used.used(NOW + 5 + NOTE_EVERY).unwrap();
    assert_eq!(again.last_used, Some(NOW + 5 + NOTE_EVERY));
    assert_eq!((again.name, again.expires), (made.name, made.expires));
}

#[test]
fn every_scope_of_the_rule_can_be_had() {
    for action in [
        Action::Read,
        Action::Spawn,
        Action::Manage,
        Action::Upgrade,
        Action::UpgradeAll,
        Action::ReadTemplate,
        Action::Open,
    ] {
        assert!([READ, WRITE, ADMIN].contains(&action.scope()), "{action:?}");
    }
}
