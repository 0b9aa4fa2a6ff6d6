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
    for (text, opens) in [
        (None, false),
        (Some("private"), false),
        (Some("authenticated"), true),
        (Some("internal"), true),
        (Some("user:bob"), true),
        (Some("user:carol, role:user"), true),
        (Some("user:carol"), false),
        (Some("role:admin"), false),
        (Some("everyone"), false),
        (Some("user:bob,everyone"), false),
        (Some("user:"), false),
    ] {
        let visibility = Visibility::parse(text);
        let target = Target::Workspace {
            owner: "alice",
            visibility: &visibility,
        };
        assert_eq!(may(&bob, Action::Open, target).is_ok(), opens, "{text:?}");
        assert_eq!(may(&bob, Action::Read, target), Err(Denied::AccessDenied));
        assert_eq!(
            may(&bob, Action::Upgrade, target),
            Err(Denied::AccessDenied)
        );
    }
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
    let allowed = vec!["data".to_owned()];
    let mut bob = caller("bob", Role::User);
    let restricted = Target::Template {
        allowed_roles: &allowed,
    };
    assert_eq!(
        may(
            &bob,
            Action::ReadTemplate,
            Target::Template { allowed_roles: &[] }
        ),
        Ok(())
    );
    assert_eq!(
        may(&bob, Action::ReadTemplate, restricted),
        Err(Denied::AccessDenied)
    );
    bob.roles.push("data".into());
    assert_eq!(may(&bob, Action::ReadTemplate, restricted), Ok(()));
    assert_eq!(
        may(
            &caller("root", Role::Admin),
            Action::ReadTemplate,
            restricted
        ),
        Ok(())
    );
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
    ] {
        assert_eq!(
            may(&admin, action, Target::Nothing),
            Err(Denied::AccessDenied),
            "{action:?}"
        );
    }
}
