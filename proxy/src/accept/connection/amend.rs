//! Heads of answers that go over the wire in another way than Pingora writes them: it alone says what
//! `Connection` is, and it answers some requests without asking us. Pure.

/// What is allowed where `CONNECT` is not (RFC 9110, section 15.5.6): what workspaces are asked with.
pub const ALLOW: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE";
/// "Upgrade Required".
const UPGRADE_REQUIRED: u16 = 426;
/// "Method Not Allowed".
const METHOD_NOT_ALLOWED: u16 = 405;

/// The status of the answer that begins so.
pub(super) fn status(answer: &[u8]) -> Option<u16> {
    let status = answer.strip_prefix(b"HTTP/1.1 ")?.get(..3)?;
    std::str::from_utf8(status).ok()?.parse().ok()
}

/// An answer as it is to go out, if that is not how it is written; `alone`: Pingora gave it without
/// asking us.
///
/// A 426 names `Upgrade` in `Connection` too (RFC 9110, section 7.8). What Pingora answers alone does not
/// tell what it was made with, and says with a 405 what is allowed.
pub(super) fn amended(answer: &[u8], alone: bool) -> Option<Vec<u8>> {
    let status = status(answer)?;
    let upgrade = status == UPGRADE_REQUIRED;
    if !upgrade && !alone {
        return None;
    }
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 2;
    let (head, rest) = answer.split_at_checked(end)?;
    let lines = || head.split_inclusive(|byte| *byte == b'\n');
    let upgrade = upgrade && lines().any(|line| is_named(line, b"upgrade"));
    let mut amended = Vec::with_capacity(answer.len() + ALLOW.len() + 16);
    for line in lines() {
        if alone && is_named(line, b"server") {
            continue;
        }
        match line.strip_suffix(b"\r\n") {
            Some(line) if upgrade && is_named(line, b"connection") => {
                amended.extend_from_slice(line);
                amended.extend_from_slice(b", Upgrade\r\n");
            }
            _ => amended.extend_from_slice(line),
        }
    }
    if alone && status == METHOD_NOT_ALLOWED {
        amended.extend_from_slice(format!("Allow: {ALLOW}\r\n").as_bytes());
    }
    amended.extend_from_slice(rest);
    Some(amended)
}

fn is_named(line: &[u8], name: &[u8]) -> bool {
    let mut parts = line.splitn(2, |byte| *byte == b':');
    parts
        .next()
        .is_some_and(|one| one.eq_ignore_ascii_case(name))
        && parts.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(answer: &str, alone: bool) -> Option<String> {
        let amended = amended(answer.as_bytes(), alone)?;
        Some(String::from_utf8(amended).unwrap())
    }

    #[test]
    fn a_426_names_upgrade_as_what_is_for_one_hop() {
        assert_eq!(
            of(
                "HTTP/1.1 426 Newer\r\nUpgrade: x\r\nconnection: close\r\nX: Connection: a\r\n\r\nConnection: b\r\n",
                false
            )
            .unwrap(),
            "HTTP/1.1 426 Newer\r\nUpgrade: x\r\nconnection: close, Upgrade\r\nX: Connection: a\r\n\r\nConnection: b\r\n"
        );
        for other in [
            "HTTP/1.1 200 OK\r\nUpgrade: x\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 426 Newer\r\nUpgrade: x\r\nConnection: close\r\n",
            "426",
        ] {
            assert_eq!(of(other, false), None, "{other}");
        }
        // One that does not say to what.
        let bare = "HTTP/1.1 426 Newer\r\nConnection: close\r\n\r\n";
        assert_eq!(of(bare, false).unwrap(), bare);
    }

    #[test]
    fn what_is_answered_alone_is_ours() {
        assert_eq!(
            of(
                "HTTP/1.1 405 No\r\nServer: Pingora\r\nConnection: close\r\n\r\n",
                true
            )
            .unwrap(),
            format!("HTTP/1.1 405 No\r\nConnection: close\r\nAllow: {ALLOW}\r\n\r\n")
        );
        assert_eq!(
            of("HTTP/1.1 400 Bad\r\nServer: Pingora\r\n\r\n", true).unwrap(),
            "HTTP/1.1 400 Bad\r\n\r\n"
        );
    }
}
