//! Workspace ids and port names: what a new one may look like, and the hosts that they make.

/// Longest id that a new workspace may have.
pub const MAX_ID: usize = 40;
/// Longest name of an extra port.
pub const MAX_PORT_NAME: usize = 20;

/// Why an id or port name was refused; the text says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{value}' cannot be used as {what}: use 1 to {max} of a-z, 0-9 and '-', starting and ending with a letter or digit, without '--'{but}"
)]
pub struct InvalidName {
    what: &'static str,
    value: String,
    max: usize,
    but: &'static str,
}

/// A port name that no host may have: browsers read a label that begins with `xn--` as an encoded one
/// (RFC 5890, section 2.3.1).
const NO_PORT_NAME: &str = "xn";

/// Checks the id of a new workspace: `[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?` without `--`.
///
/// # Errors
/// [`InvalidName`], with the rule in its text.
pub fn check_new(id: &str) -> Result<(), InvalidName> {
    check(id, MAX_ID, "a workspace id")
}

/// Checks the name of an extra port.
///
/// # Errors
/// [`InvalidName`], with the rule in its text.
pub fn check_port_name(name: &str) -> Result<(), InvalidName> {
    let but = ", and not 'xn'";
    if name == NO_PORT_NAME {
        return Err(InvalidName::new("a port name", name, MAX_PORT_NAME, but));
    }
    check(name, MAX_PORT_NAME, "a port name").map_err(|error| InvalidName { but, ..error })
}

/// Whether the id fits a host name; adopted ids that do not are served in path mode only.
#[must_use]
pub fn fits_host(id: &str) -> bool {
    check_new(id).is_ok()
}

/// What the label before the workspace domain names: the extra port, if it is `{name}--{id}`, and the id.
/// Neither has a `--` of its own, so the first one parts them; and one wildcard certificate covers both.
#[must_use]
pub fn split_host(label: &str) -> Option<(Option<&str>, &str)> {
    let (name, id) = match label.split_once("--") {
        None => (None, label),
        Some((name, id)) => (Some(name), id),
    };
    let is_name = name.is_none_or(|name| check_port_name(name).is_ok());
    (is_name && fits_host(id)).then_some((name, id))
}

impl InvalidName {
    fn new(what: &'static str, value: &str, max: usize, but: &'static str) -> Self {
        Self {
            what,
            value: value.chars().take(80).collect(),
            max,
            but,
        }
    }
}

fn check(value: &str, max: usize, what: &'static str) -> Result<(), InvalidName> {
    let bytes = value.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    if edge(bytes.first())
        && edge(bytes.last())
        && bytes.len() <= max
        && bytes.iter().all(inner)
        && !value.contains("--")
    {
        return Ok(());
    }
    Err(InvalidName::new(what, value, max, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let longest = "a".repeat(40);
        let too_long = "a".repeat(41);
        for (id, ok) in [
            ("a", true),
            ("7", true),
            ("my-workspace-2", true),
            (longest.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("a--b", false),
            ("A", false),
            ("a.b", false),
            ("a/b", false),
            ("ä", false),
        ] {
            assert_eq!(check_new(id).is_ok(), ok, "{id}");
        }
        assert!(check_port_name(&"p".repeat(20)).is_ok());
        assert!(check_port_name(&"p".repeat(21)).is_err());
        assert!(check_port_name("xn").is_err() && check_port_name("xna").is_ok());
    }

    #[test]
    fn hosts_of_workspaces_and_of_their_ports() {
        for (label, wanted) in [
            ("dev", Some((None, "dev"))),
            ("my-dev-2", Some((None, "my-dev-2"))),
            ("web--dev", Some((Some("web"), "dev"))),
            ("a-b--c-d", Some((Some("a-b"), "c-d"))),
            ("web--a--b", None),
            ("web---dev", None),
            ("web----dev", None),
            ("--dev", None),
            ("web--", None),
            ("--", None),
            ("xn--dev", None),
            ("Web--dev", None),
            ("a.b--dev", None),
            ("", None),
        ] {
            assert_eq!(split_host(label), wanted, "{label}");
        }
        let longest = format!("{}--{}", "p".repeat(20), "a".repeat(40));
        assert!(longest.len() <= 63 && split_host(&longest).is_some());
        let too_long = format!("{}--a", "p".repeat(21));
        assert_eq!(split_host(&too_long), None);
    }

    proptest::proptest! {
        #[test]
        fn a_ports_host_names_both(name in "[a-z0-9-]{1,22}", id in "[a-z0-9-]{1,42}") {
            let label = format!("{name}--{id}");
            let both = check_port_name(&name).is_ok() && check_new(&id).is_ok();
            let wanted = both.then_some((Some(name.as_str()), id.as_str()));
            proptest::prop_assert_eq!(split_host(&label), wanted);
        }
    }
}
