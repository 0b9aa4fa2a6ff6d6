use super::*;
use serde_json::json;

fn policy(roles_claim: &str) -> ClaimPolicy {
    ClaimPolicy {
        roles_claim: roles_claim.to_owned(),
        admin_role: "ops".to_owned(),
        admin_subs: vec!["root".to_owned()],
        default_role: Role::Viewer,
        scopes_claim: None,
    }
}

fn roles(claim: &str, claims: Value) -> Vec<String> {
    let Value::Object(claims) = claims else {
        panic!("claims are an object")
    };
    policy(claim).roles(&claims)
}

#[test]
fn roles_are_found_wherever_providers_put_them() {
    let table = [
        (
            "roles",
            json!({"roles": ["user", "dev"]}),
            vec!["user", "dev"],
        ),
        ("roles", json!({"roles": "user dev"}), vec!["user", "dev"]),
        ("a.b.c", json!({"a": {"b": {"c": ["x"]}}}), vec!["x"]),
        (
            "https://x.org/roles",
            json!({"https://x.org/roles": ["x"]}),
            vec!["x"],
        ),
        (
            "https://x.org/r.list",
            json!({"https://x.org/r": {"list": "x"}}),
            vec!["x"],
        ),
        (
            "a.b",
            json!({"a.b": ["named"], "a": {"b": ["nested"]}}),
            vec!["named"],
        ),
        ("roles", json!({}), vec![]),
        ("a.b", json!({"a": ["b"]}), vec![]),
        ("roles", json!({"roles": 7}), vec![]),
        ("roles", json!({"roles": null}), vec![]),
        ("roles", json!({"roles": {"user": true}}), vec![]),
        (
            "roles",
            json!({"roles": ["x", 7, null, "", "x"]}),
            vec!["x"],
        ),
        // Own roles come first.
        (
            "roles",
            json!({"roles": ["x", "ops", "y", "user"]}),
            vec!["ops", "user", "x", "y"],
        ),
    ];
    for (claim, claims, wanted) in table {
        assert_eq!(roles(claim, claims.clone()), wanted, "{claim} of {claims}");
    }
}

#[test]
fn the_own_role_survives_any_number_of_others() {
    let mut list: Vec<String> = (0..500).map(|n| format!("group-{n}")).collect();
    list.push("ops".to_owned());
    list.push("x".repeat(MAX_ROLE_LEN + 1));
    let kept = roles("roles", json!({ "roles": list }));
    assert_eq!(kept.len(), MAX_ROLES);
    assert_eq!(kept.first().map(String::as_str), Some("ops"));
    assert!(kept.iter().all(|role| role.len() <= MAX_ROLE_LEN));
}

#[test]
fn the_highest_role_counts() {
    let table: [(&str, &[&str], Role); 8] = [
        ("a", &[], Role::Viewer),
        ("a", &["dev"], Role::Viewer),
        ("a", &["user"], Role::User),
        ("a", &["viewer", "user"], Role::User),
        ("a", &["user", "ops"], Role::Admin),
        // The administrators' role was renamed, so this is a role like any other.
        ("a", &["admin"], Role::Viewer),
        ("a", &["OPS"], Role::Viewer),
        ("root", &["viewer"], Role::Admin),
    ];
    for (sub, named, wanted) in table {
        let caller = policy("roles").caller(sub, named.iter().map(ToString::to_string).collect());
        assert_eq!(
            (caller.role, caller.scopes),
            (wanted, None),
            "{sub} {named:?}"
        );
        assert_eq!(caller.sub, sub);
        assert_eq!(caller.roles, named);
    }
}

#[test]
fn subjects_that_nobody_can_have() {
    let table = [
        ("alice", true),
        ("auth0|64f", true),
        ("Grüße @ 世界", true),
        ("", false),
        ("a\nb", false),
        ("a\0", false),
    ];
    for (sub, wanted) in table {
        assert_eq!(valid_sub(sub), wanted, "{sub:?}");
    }
    assert!(valid_sub(&"x".repeat(255)));
    assert!(!valid_sub(&"x".repeat(256)));
}

#[test]
fn hundreds_of_groups_do_not_travel_with_a_session() {
    let mut groups: Vec<String> = (0..300).map(|n| format!("group-{n}")).collect();
    groups.push("team-late".to_owned());
    groups.push("ops".to_owned());
    let Value::Object(claims) = json!({ "roles": groups }) else {
        panic!("claims are an object")
    };
    let policy = policy("roles");
    let table: [(&[&str], &[&str]); 5] = [
        (&[], &["ops"]),
        (&["team-*"], &["ops", "team-late"]),
        (
            &["group-299", "team-late"],
            &["ops", "group-299", "team-late"],
        ),
        (&["group"], &["ops"]),
        (&["TEAM-*"], &["ops"]),
    ];
    for (patterns, wanted) in table {
        let carried = SessionRoles::new(patterns.iter().map(|&one| one.to_owned()).collect());
        let kept = policy.roles_where(&claims, |role| carried.carries(role));
        assert_eq!(kept, wanted, "{patterns:?}");
    }
    let all = SessionRoles::all();
    let kept = policy.roles_where(&claims, |role| all.carries(role));
    assert_eq!(kept.len(), MAX_ROLES);
    assert_eq!(kept[0], "ops");
}

#[test]
fn scopes_count_where_the_rule_is_on_and_none_are_granted_by_silence() {
    const READ: &str = "nogoo9:read";
    const WRITE: &str = "nogoo9:write";
    let on = |claim: &str| ClaimPolicy {
        scopes_claim: Some(claim.to_owned()),
        ..policy("roles")
    };
    let table: [(&str, Value, &[&str]); 8] = [
        (
            "scope",
            json!({"scope": "openid nogoo9:read  nogoo9:write"}),
            &[READ, WRITE],
        ),
        (
            "scp",
            json!({"scp": ["nogoo9:write", "User.Read"]}),
            &[WRITE],
        ),
        (
            "a.scopes",
            json!({"a": {"scopes": ["nogoo9:read"]}}),
            &[READ],
        ),
        ("scope", json!({}), &[]),
        ("scope", json!({"scope": ""}), &[]),
        ("scope", json!({"scope": 7}), &[]),
        ("scope", json!({"scp": ["nogoo9:read"]}), &[]),
        (
            "scope",
            json!({"scope": "nogoo9:readwrite NOGOO9:READ nogoo9:read,nogoo9:write"}),
            &[],
        ),
    ];
    for (claim, claims, wanted) in table {
        let Value::Object(map) = claims.clone() else {
            panic!("claims are an object")
        };
        let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        assert_eq!(on(claim).scopes(&map), Some(wanted), "{claim} of {claims}");
        assert_eq!(policy("roles").scopes(&map), None, "{claims}");
    }
}
