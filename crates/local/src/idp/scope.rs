//! The scopes that exist here. Whatever else is asked for is left out, and the token's answer says
//! what was granted (RFC 6749, section 3.3).

use std::collections::BTreeSet;

use nogoo9_model::access::SCOPES;

/// Scopes of OpenID Connect.
const OPENID: [&str; 4] = ["openid", "profile", "email", "offline_access"];
/// Granted to whoever asks for none.
const DEFAULT: &str = "openid";

/// All of them, as metadata lists them.
pub(super) fn all() -> Vec<&'static str> {
    OPENID.into_iter().chain(SCOPES).collect()
}

/// Those of `asked` that exist, each once.
pub(super) fn known(asked: Option<&str>) -> String {
    let mut seen = BTreeSet::new();
    let known = all();
    keep(asked.unwrap_or(DEFAULT), |scope| {
        known.contains(&scope) && seen.insert(scope.to_owned())
    })
}

/// Those of `scope` that are nogoo9's, which a person is asked about.
pub(super) fn ours(scope: &str) -> impl Iterator<Item = &'static str> + '_ {
    SCOPES
        .into_iter()
        .filter(|one| scope.split(' ').any(|word| word == *one))
}

/// What is left of `scope` if of nogoo9's only those stay that the person allowed.
pub(super) fn allowed(scope: &str, allows: impl Fn(&str) -> bool) -> String {
    keep(scope, |one| !SCOPES.contains(&one) || allows(one))
}

/// What of `granted` a refresh asks for (RFC 6749, section 6); all of it unless it says so.
pub(super) fn narrowed(granted: &str, asked: Option<&str>) -> String {
    let Some(asked) = asked else {
        return granted.to_owned();
    };
    keep(granted, |one| asked.split(' ').any(|word| word == one))
}

/// What a scope lets its bearer do, for people.
pub(super) fn about(scope: &str) -> &'static str {
    match scope {
        "nogoo9:read" => "Look at workspaces and open their pages",
        "nogoo9:write" => "Make, start, stop, upgrade and delete workspaces",
        _ => "Upgrade everyone's workspaces, if you are an admin",
    }
}

fn keep(scope: &str, mut wanted: impl FnMut(&str) -> bool) -> String {
    let kept: Vec<&str> = scope.split(' ').filter(|one| wanted(one)).collect();
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_exists_is_granted_once() {
        for (asked, granted) in [
            (None, "openid"),
            (Some("openid email openid"), "openid email"),
            (
                Some("nogoo9:write groups  nogoo9:read"),
                "nogoo9:write nogoo9:read",
            ),
            (Some("groups"), ""),
        ] {
            assert_eq!(known(asked), granted, "{asked:?}");
        }
    }

    #[test]
    fn a_person_and_a_refresh_only_take_away() {
        let scope = "openid nogoo9:read nogoo9:write";
        assert_eq!(
            ours(scope).collect::<Vec<_>>(),
            ["nogoo9:read", "nogoo9:write"]
        );
        assert_eq!(
            allowed(scope, |one| one == "nogoo9:read"),
            "openid nogoo9:read"
        );
        assert_eq!(allowed("openid", |_| true), "openid");
        assert_eq!(narrowed(scope, None), scope);
        assert_eq!(
            narrowed(scope, Some("nogoo9:write nogoo9:admin")),
            "nogoo9:write"
        );
    }
}
