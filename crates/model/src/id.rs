//! Workspace ids and port names: what a new one may look like.

/// Longest id that a new workspace may have.
pub const MAX_ID: usize = 40;
/// Longest name of an extra port.
pub const MAX_PORT_NAME: usize = 20;

/// Why an id or port name was refused; the text says what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{value}' cannot be used as {what}: use 1 to {max} of a-z, 0-9 and '-', starting and ending with a letter or digit, without '--'"
)]
pub struct InvalidName {
    what: &'static str,
    value: String,
    max: usize,
}

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
    check(name, MAX_PORT_NAME, "a port name")
}

/// Whether the id fits a host name; adopted ids that do not are served in path mode only.
#[must_use]
pub fn fits_host(id: &str) -> bool {
    check_new(id).is_ok()
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
    Err(InvalidName {
        what,
        value: value.chars().take(80).collect(),
        max,
    })
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
    }
}
