use super::*;

fn caller(sub: &str, role: Role) -> Caller {
    let name = match role {
        Role::Viewer => "viewer",
        Role::User => "user",
        Role::Admin => "admin",
    };
    Caller {
        sub: sub.into(),
        roles: vec![name.into()],
        role,
        scopes: None,
    }
}

/// Every row and column of the design's table, own and another's.
#[test]
fn table() {
    use Action::*;
    let private = Visibility::Private;
    let ok = || Ok(());
    let denied = || Err(Denied::AccessDenied);
    let needs_user = || Err(Denied::Role { needed: "user" });
    type Row = (Action, [[Result<(), Denied>; 2]; 3]);
    let rows: Vec<Row> = vec![
        //          viewer: own, other            user: own, other          admin: own, other
        (Read, [[ok(), denied()], [ok(), denied()], [ok(), ok()]]),
        (
            Spawn,
            [[needs_user(), denied()], [ok(), denied()], [ok(), ok()]],
        ),
        (
            Manage,
            [[needs_user(), denied()], [ok(), denied()], [ok(), ok()]],
        ),
        (
            Upgrade,
            [[needs_user(), denied()], [ok(), denied()], [ok(), ok()]],
        ),
        (Open, [[ok(), denied()], [ok(), denied()], [ok(), denied()]]),
    ];
    for (action, by_role) in rows {
        for (role, by_owner) in [Role::Viewer, Role::User, Role::Admin]
            .into_iter()
            .zip(by_role)
        {
            for (owner, expected) in ["me", "other"].into_iter().zip(by_owner) {
                let target = Target::Workspace {
                    owner,
                    visibility: &private,
                };
                assert_eq!(
                    may(&caller("me", role), action, target),
                    expected,
                    "{action:?} {role:?} {owner}"
                );
            }
        }
    }
}

#[test]
fn upgrade_all_is_for_admins_with_the_agreed_text() {
    let refused = may(
        &caller("a", Role::User),
        Action::UpgradeAll,
        Target::Nothing,
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Forbidden: Only admin users can upgrade all workspaces"
    );
    assert_eq!(
        may(
            &caller("a", Role::Admin),
            Action::UpgradeAll,
            Target::Nothing
        ),
        Ok(())
    );
}

#[test]
fn what_is_about_everyone_is_seen_by_admins_alone() {
    for (role, expected) in [
        (Role::Viewer, Err(Denied::AccessDenied)),
        (Role::User, Err(Denied::AccessDenied)),
        (Role::Admin, Ok(())),
    ] {
        let caller = caller("me", role);
        assert_eq!(may(&caller, Action::Read, Target::Everyone), expected);
        for action in [Action::Spawn, Action::Manage, Action::Upgrade, Action::Open] {
            assert!(
                may(&caller, action, Target::Everyone).is_err(),
                "{action:?}"
            );
        }
    }
}

#[test]
fn visibility_opens_pages_and_nothing_else() {
    let bob = caller("bob", Role::User);
    let root = caller("root", Role::Admin);
    // What it says, whom it opens pages for: bob, a user, and root, an admin; and whether it is clear.
    for (text, for_bob, for_root, clear) in [
        (None, false, false, true),
        (Some(""), false, false, true),
        (Some("private"), false, false, true),
        (Some("authenticated"), true, true, true),
        (Some(" authenticated "), true, true, true),
        (Some("user:bob"), true, false, true),
        (Some("user:carol, role:user"), true, false, true),
        (Some("user:carol"), false, false, true),
        (Some("user:bo"), false, false, true),
        (Some("role:admin"), false, true, true),
        (Some("role:bob"), false, false, true),
        // no-crd's words.
        (Some("internal"), true, true, true),
        (Some("admin"), false, true, true),
        (Some("bob"), true, false, true),
        (Some("auth0|123"), false, false, true),
        // Anything else is private.
        (Some("everyone"), false, false, false),
        (Some("Everyone"), false, false, false),
        (Some("public"), false, false, false),
        (Some("Private"), false, false, false),
        (Some("AUTHENTICATED"), false, false, false),
        (Some("*"), false, false, false),
        (Some("bob carol"), false, false, false),
        (Some("bob,carol"), false, false, false),
        (Some("user:bob,everyone"), false, false, false),
        (Some("user:bob,authenticated"), false, false, false),
        (Some("user:bob,"), false, false, false),
        (Some("user:"), false, false, false),
        (Some("user: bob"), false, false, false),
        (Some("User:bob"), false, false, false),
        (Some("group:user"), false, false, false),
        (Some(":bob"), false, false, false),
        (Some("user:bob;role:user"), false, false, true),
    ] {
        let visibility = Visibility::parse(text);
        let target = Target::Workspace {
            owner: "alice",
            visibility: &visibility,
        };
        assert_eq!(
            !matches!(visibility, Visibility::Unclear(_)),
            clear,
            "{text:?}"
        );
        for (who, opens) in [(&bob, for_bob), (&root, for_root)] {
            assert_eq!(
                may(who, Action::Open, target).is_ok(),
                opens,
                "{text:?} {}",
                who.sub
            );
        }
        for action in [Action::Read, Action::Manage, Action::Upgrade] {
            assert_eq!(may(&bob, action, target), Err(Denied::AccessDenied));
        }
        let alice = caller("alice", Role::Viewer);
        assert_eq!(may(&alice, Action::Open, target), Ok(()), "{text:?}");
    }
    assert_eq!(
        Visibility::parse(Some(&format!("role:{}", "é".repeat(300)))),
        Visibility::Only(vec![Grant::Role("é".repeat(300))])
    );
    let Visibility::Unclear(said) = Visibility::parse(Some(&"é,".repeat(300))) else {
        panic!("that is a list?");
    };
    assert_eq!(said.chars().count(), 60, "what is told of it is bounded");
}

#[test]
fn enforced_scopes_deny_what_is_absent() {
    let mut alice = caller("alice", Role::Admin);
    alice.scopes = Some(["nogoo9:read".to_owned()].into());
    let target = Target::Workspace {
        owner: "alice",
        visibility: &Visibility::Private,
    };
    assert_eq!(may(&alice, Action::Read, target), Ok(()));
    assert_eq!(
        may(&alice, Action::Upgrade, target),
        Err(Denied::Scope {
            needed: "nogoo9:write"
        })
    );
    assert_eq!(
        may(&alice, Action::UpgradeAll, Target::Nothing),
        Err(Denied::Scope {
            needed: "nogoo9:admin"
        })
    );
}

#[test]
fn templates_by_role() {
    let root = caller("root", Role::Admin);
    // What it says, whether it is for users, for those who also have the role `data`, and is clear.
    for (text, for_users, for_data, clear) in [
        (None, true, true, true),
        (Some("data"), false, true, true),
        (Some("ops , data"), false, true, true),
        (Some("data science"), false, false, true),
        (Some("user"), true, true, true),
        (Some("Data"), false, false, true),
        (Some(""), false, false, false),
        (Some(" , "), false, false, false),
        (Some("data,"), false, false, false),
        (Some("data,,ops"), false, false, false),
        (Some("[\"data\"]"), false, false, false),
        (Some("*"), false, false, false),
        (Some("data;ops"), false, false, false),
        (Some("data\nops"), false, false, false),
    ] {
        let allowed_roles = AllowedRoles::parse(text);
        let target = Target::Template {
            allowed_roles: &allowed_roles,
        };
        let mut bob = caller("bob", Role::User);
        let read = |who: &Caller| may(who, Action::ReadTemplate, target);
        let expected = |is: bool| {
            if is {
                Ok(())
            } else {
                Err(Denied::AccessDenied)
            }
        };
        assert_eq!(read(&bob), expected(for_users), "{text:?}");
        bob.roles.push("data".into());
        assert_eq!(read(&bob), expected(for_data), "{text:?}");
        assert_eq!(read(&root), Ok(()), "{text:?}");
        assert_eq!(allowed_roles.problem().is_none(), clear, "{text:?}");
    }
    let problem = AllowedRoles::parse(Some("data,")).problem().unwrap();
    assert!(
        problem.starts_with("annotation nogoo9/allowed-roles is 'data,'"),
        "{problem}"
    );
}

#[test]
fn templates_are_written_by_admins_and_authors() {
    let entries = ["alice", "role:author", "user:auth0|7", "urn:x:y"];
    let authors = Authors::parse(&entries.map(str::to_owned)).unwrap();
    let with = |sub: &str, role: Role, roles: &[&str]| Caller {
        roles: roles.iter().map(ToString::to_string).collect(),
        ..caller(sub, role)
    };
    for (who, may_write) in [
        (with("root", Role::Admin, &[]), true),
        (with("alice", Role::User, &[]), true),
        (with("bob", Role::User, &["user"]), false),
        (with("bob", Role::User, &["user", "author"]), true),
        (with("auth0|7", Role::User, &[]), true),
        (with("urn:x:y", Role::User, &[]), true),
        // A role of that name is no subject, and the other way round.
        (with("author", Role::User, &["alice"]), false),
        // Viewers change nothing.
        (with("alice", Role::Viewer, &["author"]), false),
    ] {
        let expected = if may_write {
            Ok(())
        } else {
            Err(Denied::WriteTemplates)
        };
        let target = Target::Templates { authors: &authors };
        assert_eq!(
            may(&who, Action::WriteTemplates, target),
            expected,
            "{who:?}"
        );
    }
    for wrong in ["", " ", "role:", "user:", "role: a", "a\nb"] {
        let entries = ["alice".to_owned(), wrong.to_owned()];
        assert_eq!(Authors::parse(&entries), Err(wrong.to_owned()));
    }
    assert_eq!(Authors::parse(&[]), Ok(Authors::default()));
}

#[test]
fn a_mismatched_target_is_denied() {
    let admin = caller("root", Role::Admin);
    for action in [
        Action::Read,
        Action::Spawn,
        Action::Manage,
        Action::Upgrade,
        Action::Open,
        Action::ReadTemplate,
        Action::WriteTemplates,
    ] {
        assert_eq!(
            may(&admin, action, Target::Nothing),
            Err(Denied::AccessDenied),
            "{action:?}"
        );
    }
}
