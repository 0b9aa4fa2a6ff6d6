//! Names of the objects that nogoo9 creates. All of them are functions of durable facts, so that a
//! create that is repeated after a crash is the same create.

use crate::label::base32_sha256;

/// Pod names stay under this, so that they also fit a host name.
const MAX_POD_NAME: usize = 62;
/// Characters of the suffix that tells pods of one workspace apart.
const SUFFIX: usize = 5;

/// Name of the pod that operation `operation` makes for generation `generation`:
/// `ws-{owner}-{id}-up-{5 characters}`, lower case, DNS-1123, under 63 characters.
#[must_use]
pub fn upgrade_pod(
    owner: &str,
    id: &str,
    namespace: &str,
    operation: &str,
    generation: u32,
) -> String {
    pod(
        owner,
        id,
        "-up-",
        &[operation, namespace, id, &generation.to_string()],
    )
}

/// Name of the probe of operation `operation`, see [`crate::probe`].
#[must_use]
pub fn probe_pod(
    owner: &str,
    id: &str,
    namespace: &str,
    operation: &str,
    generation: u32,
) -> String {
    pod(
        owner,
        id,
        "-probe-",
        &[operation, namespace, id, &generation.to_string()],
    )
}

/// Name of the pod of a workspace that was spawned, started or re-created at `generation`.
#[must_use]
pub fn spawned_pod(owner: &str, id: &str, namespace: &str, since: i64, generation: u32) -> String {
    pod(
        owner,
        id,
        "-",
        &[&since.to_string(), namespace, id, &generation.to_string()],
    )
}

/// Longest name that a template may give a claim.
pub const MAX_CLAIM: usize = 20;

/// Name of the PersistentVolumeClaim that a template calls `claim`:
/// `ws-{owner}-{id}-{10 characters}-{claim}`, DNS-1123, under 63 characters.
///
/// The owner is among the facts: an id that somebody else had before never finds their data.
#[must_use]
pub fn claim(owner: &str, id: &str, namespace: &str, claim: &str) -> String {
    let facts = [owner, namespace, id, claim].join("\0");
    let short: String = dns(claim).chars().take(MAX_CLAIM).collect();
    let tail = format!(
        "-{}-{}",
        base32_sha256(facts.as_bytes(), 10),
        short.trim_end_matches('-')
    );
    let mut stem = format!("ws-{}-{}", dns(owner), dns(id));
    stem.truncate(MAX_POD_NAME - tail.len());
    format!("{}{tail}", stem.trim_end_matches('-'))
}

/// Name of the Secret that holds a workspace's record.
#[must_use]
pub fn record(id: &str) -> String {
    format!("nogoo9-ws-{}", base32_sha256(id.as_bytes(), 26))
}

/// Characters of a session's public id.
pub const SESSION_ID: usize = 26;

/// The id by which people and logs know a browser session: its own, the `sid` of tokens, is nobody
/// else's business.
#[must_use]
pub fn session_id(sid: &str) -> String {
    base32_sha256(sid.as_bytes(), SESSION_ID)
}

/// Name of the Secret that holds the record of the session with that public id.
#[must_use]
pub fn session(id: &str) -> String {
    format!("nogoo9-session-{id}")
}

/// Name of the Secret that holds what is kept of a personal access token, by its
/// [id](crate::personal_token::id).
#[must_use]
pub fn personal_token(id: &str) -> String {
    format!("nogoo9-pat-{id}")
}

/// Name of the ConfigMap that holds an operation.
#[must_use]
pub fn operation(operation: &str) -> String {
    format!("nogoo9-op-{}", operation.trim_start_matches("op-"))
}

/// Name of the ConfigMap that holds a chunk of a bulk operation's targets.
#[must_use]
pub fn chunk(operation: &str, index: usize) -> String {
    format!("{}-{index}", self::operation(operation))
}

fn pod(owner: &str, id: &str, infix: &str, facts: &[&str]) -> String {
    // Facts are separated by NUL, which none of them can hold: no two lists hash alike.
    let suffix = base32_sha256(facts.join("\0").as_bytes(), SUFFIX);
    let tail = format!("{infix}{suffix}");
    let mut stem = format!("ws-{}-{}", dns(owner), dns(id));
    stem.truncate(MAX_POD_NAME - tail.len());
    format!("{}{tail}", stem.trim_end_matches('-'))
}

/// `text` as part of a DNS-1123 label: ASCII only, everything else is a single `-`.
fn dns(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    if out.is_empty() { "x".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_dns_1123(name: &str) -> bool {
        let edge =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        name.len() < 63
            && edge(name.chars().next())
            && edge(name.chars().last())
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    }

    #[test]
    fn shape() {
        let name = upgrade_pod("Alice Smith", "dev", "ns", "op-1", 2);
        assert!(name.starts_with("ws-alice-smith-dev-up-"), "{name}");
        assert_eq!(name.len(), "ws-alice-smith-dev-up-".len() + 5);
        assert!(spawned_pod("alice", "dev", "ns", 0, 1).starts_with("ws-alice-dev-"));
        let home = claim("alice", "dev", "ns", "home");
        assert!(
            home.starts_with("ws-alice-dev-") && home.ends_with("-home"),
            "{home}"
        );
        assert_ne!(
            home,
            claim("bob", "dev", "ns", "home"),
            "an id that changes hands"
        );
        assert_eq!(record("dev").len(), "nogoo9-ws-".len() + 26);
        assert_eq!(operation("op-abc"), "nogoo9-op-abc");
    }

    proptest! {
        #[test]
        fn valid_for_any_owner_and_id(owner in "\\PC{0,90}", id in "\\PC{0,90}", generation: u32) {
            for name in [
                upgrade_pod(&owner, &id, "ns", "op-x", generation),
                probe_pod(&owner, &id, "ns", "op-x", generation),
                spawned_pod(&owner, &id, "ns", 7, generation),
                claim(&owner, &id, "ns", "home"),
            ] {
                prop_assert!(is_dns_1123(&name), "{}", name);
            }
        }

        #[test]
        fn repeated_is_same_and_next_differs(id in "[a-z]{1,40}", generation in 0u32..u32::MAX) {
            let name = |g| upgrade_pod("alice", &id, "ns", "op-x", g);
            prop_assert_eq!(name(generation), name(generation));
            prop_assert_ne!(name(generation), name(generation + 1));
            prop_assert_ne!(name(generation), upgrade_pod("alice", &id, "ns", "op-y", generation));
        }
    }
}
