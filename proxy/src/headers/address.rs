//! Addresses in a pod's answer, as the client must see them in path mode.
//!
//! A pod that sees its paths without `/route/{id}` names them so too. In a page's text that is the
//! application's own business (relative links, `X-Forwarded-Prefix`); in headers it is mapped back.

/// How a pod's addresses are mapped back that is reached under a prefix: in path mode, or by the path of an
/// extra port.
#[derive(Debug, Clone, Copy)]
pub struct Mapping<'a> {
    /// `/route/{id}`, the path of an extra port, or both; without a final slash.
    pub prefix: &'a str,
    /// Whether the pod sees paths without the prefix; if it sees them with it, only what reaches
    /// beyond the workspace is corrected.
    pub stripped: bool,
    /// Whether other workspaces are on the same host, as in path mode.
    pub shared: bool,
    /// Host that the client asked for.
    pub host: &'a str,
    /// Address of the pod, by which it may call itself.
    pub pod: &'a str,
}

impl Mapping<'_> {
    /// Whether a path is in the workspace as the client sees it: the pod knows of the prefix, be it
    /// that it gets it or that it goes by `X-Forwarded-Prefix`.
    pub(super) fn is_inside(self, path: &[u8]) -> bool {
        path.strip_prefix(self.prefix.as_bytes())
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?' | b'#')))
    }

    /// An address (`Location`, `Content-Location`, `SourceMap`); `None` if it stays.
    pub(super) fn address(self, address: &[u8]) -> Option<Vec<u8>> {
        let path = self.own_path(address)?;
        if self.is_inside(path) {
            return (path.len() < address.len()).then(|| path.to_vec());
        }
        let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
        Some([self.prefix.as_bytes(), slash, path].concat())
    }

    /// `Refresh`: a time, and perhaps an address to go to then; `None` if it stays.
    pub(super) fn refresh(self, value: &[u8]) -> Option<Vec<u8>> {
        let separator = value.iter().position(|byte| matches!(byte, b';' | b','))?;
        let mut at = separator + 1;
        let blank = |at: usize| {
            let rest = value.get(at..).unwrap_or_default();
            at + rest.len() - rest.trim_ascii_start().len()
        };
        at = blank(at);
        let word = value.get(at..at + 3).unwrap_or_default();
        if word.eq_ignore_ascii_case(b"url") && value.get(blank(at + 3)) == Some(&b'=') {
            at = blank(blank(at + 3) + 1);
        }
        let quote = value
            .get(at)
            .copied()
            .filter(|byte| matches!(byte, b'\'' | b'"'));
        at += usize::from(quote.is_some());
        let rest = value.get(at..)?;
        let end = quote
            .and_then(|quote| rest.iter().position(|byte| *byte == quote))
            .unwrap_or(rest.len());
        let (address, after) = rest.split_at_checked(end)?;
        let mapped = self.address(address.trim_ascii_end())?;
        Some([value.get(..at)?, &mapped, after].concat())
    }

    /// `Link`: addresses in angle brackets (RFC 8288); `None` if it stays.
    pub(super) fn link(self, value: &[u8]) -> Option<Vec<u8>> {
        let mut mapped = Vec::with_capacity(value.len() + self.prefix.len());
        let mut rest = value;
        let mut changed = false;
        let mut quoted = false;
        while let Some((byte, more)) = rest.split_first() {
            mapped.push(*byte);
            rest = more;
            match byte {
                b'"' => quoted = !quoted,
                b'\\' if quoted => {
                    if let Some((escaped, more)) = rest.split_first() {
                        mapped.push(*escaped);
                        rest = more;
                    }
                }
                b'<' if !quoted => {
                    let end = rest.iter().position(|byte| *byte == b'>')?;
                    let (address, more) = rest.split_at_checked(end)?;
                    match self.address(address) {
                        Some(other) => {
                            changed = true;
                            mapped.extend_from_slice(&other);
                        }
                        None => mapped.extend_from_slice(address),
                    }
                    rest = more;
                }
                _ => {}
            }
        }
        changed.then_some(mapped)
    }

    /// The path that a cookie of the pod's may have: one under the prefix.
    pub(super) fn cookie_path(self, path: &[u8]) -> Vec<u8> {
        if self.is_inside(path) {
            return path.to_vec();
        }
        let mut mapped = self.prefix.as_bytes().to_vec();
        match path.first() {
            Some(b'/') if self.stripped => mapped.extend_from_slice(path),
            // Not absolute, or outside of what the pod may set: the whole workspace.
            _ => mapped.push(b'/'),
        }
        mapped
    }

    /// From the path on, if an address is one of the pod's own, by the host that it was asked as or by
    /// its own address; `None`: it is another's, or relative.
    fn own_path(self, address: &[u8]) -> Option<&[u8]> {
        let (scheme, after) = match address {
            [b'/', b'/', after @ ..] => (&b""[..], after),
            [b'/', ..] => return Some(address),
            _ => {
                let colon = address.iter().position(|byte| *byte == b':')?;
                let (scheme, after) = address.split_at_checked(colon)?;
                (scheme, after.strip_prefix(b"://")?)
            }
        };
        let default_port: &[u8] = match scheme {
            b"" => b"",
            scheme if scheme.eq_ignore_ascii_case(b"http") => b":80",
            scheme if scheme.eq_ignore_ascii_case(b"https") => b":443",
            _ => return None,
        };
        // Without a scheme it has that of where it is read: the pod knows of http alone.
        let pods_port = if scheme.is_empty() {
            b":80"
        } else {
            default_port
        };
        let end = after
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?' | b'#' | b'\\'))
            .unwrap_or(after.len());
        let (authority, path) = after.split_at_checked(end)?;
        let own = plain(authority, default_port)
            .eq_ignore_ascii_case(plain(self.host.as_bytes(), default_port))
            || plain(authority, pods_port) == plain(self.pod.as_bytes(), pods_port);
        own.then_some(path)
    }
}

/// An authority without the port that its scheme has anyway.
fn plain<'a>(authority: &'a [u8], default_port: &[u8]) -> &'a [u8] {
    authority.strip_suffix(default_port).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPPING: Mapping<'_> = Mapping {
        prefix: "/route/dev",
        stripped: true,
        shared: true,
        host: "localhost:9009",
        pod: "10.0.0.1:3000",
    };

    fn text(bytes: Option<Vec<u8>>) -> Option<String> {
        bytes.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn addresses() {
        for (address, expected) in [
            ("/a?b#c", Some("/route/dev/a?b#c")),
            ("/a/../b//c%2F", Some("/route/dev/a/../b//c%2F")),
            ("a", None),
            ("../a", None),
            ("?a", None),
            ("", None),
            ("//evil.example/x", None),
            ("https://example.org/x", None),
            ("mailto:a@b.example", None),
            ("ftp://localhost:9009/x", None),
            ("http://localhost:9009/x?y", Some("/route/dev/x?y")),
            ("HTTP://LOCALHOST:9009/x", Some("/route/dev/x")),
            ("http://localhost:9009", Some("/route/dev/")),
            ("http://localhost:9009?y", Some("/route/dev/?y")),
            ("//localhost:9009/x", Some("/route/dev/x")),
            ("http://10.0.0.1:3000/x", Some("/route/dev/x")),
            ("http://user@localhost:9009/x", None),
            ("http://localhost:90/x", None),
            ("/\\evil.example", Some("/route/dev/\\evil.example")),
            // From an application that goes by X-Forwarded-Prefix.
            ("/route/dev", None),
            ("/route/dev/a?b", None),
            ("/route/dev?b", None),
            ("http://localhost:9009/route/dev/x", Some("/route/dev/x")),
            ("/route/device", Some("/route/dev/route/device")),
        ] {
            let mapped = text(MAPPING.address(address.as_bytes()));
            assert_eq!(mapped.as_deref(), expected, "{address}");
        }
        let public = Mapping {
            host: "paths.example.net",
            ..MAPPING
        };
        let with_port = text(public.address(b"https://paths.example.net:443/x"));
        assert_eq!(with_port.as_deref(), Some("/route/dev/x"));
    }

    #[test]
    fn a_pod_need_not_name_the_port_that_goes_without_saying() {
        for (pod, address, own) in [
            ("10.0.0.1:80", "http://10.0.0.1/x", true),
            ("10.0.0.1:80", "http://10.0.0.1:80/x", true),
            ("10.0.0.1:80", "//10.0.0.1/x", true),
            ("10.0.0.1:80", "//10.0.0.1:80/x", true),
            ("10.0.0.1:80", "https://10.0.0.1/x", false),
            ("10.0.0.1:443", "https://10.0.0.1/x", true),
            ("10.0.0.1:443", "https://10.0.0.1:443/x", true),
            ("10.0.0.1:443", "http://10.0.0.1/x", false),
            ("10.0.0.1:3000", "http://10.0.0.1/x", false),
            ("10.0.0.1:8080", "http://10.0.0.1:80/x", false),
            ("[fd00::1]:80", "http://[fd00::1]/x", true),
            ("[fd00::1]:80", "http://[fd00::1]:80/x", true),
        ] {
            let mapped = text(Mapping { pod, ..MAPPING }.address(address.as_bytes()));
            let expected = own.then_some("/route/dev/x");
            assert_eq!(mapped.as_deref(), expected, "{address} of {pod}");
        }
    }

    #[test]
    fn refreshes_and_links() {
        for (value, expected) in [
            ("5", None),
            ("5; url=/x", Some("5; url=/route/dev/x")),
            ("5;URL = '/x' ", Some("5;URL = '/route/dev/x' ")),
            ("5,/x", Some("5,/route/dev/x")),
            ("0; url=\"/x", Some("0; url=\"/route/dev/x")),
            ("0; url=x", None),
            ("0; url=https://example.org/", None),
            ("0; url", None),
            (";", None),
        ] {
            let mapped = text(MAPPING.refresh(value.as_bytes()));
            assert_eq!(mapped.as_deref(), expected, "{value}");
        }
        for (value, expected) in [
            (
                "</a.css>; rel=preload, <b.js>; title=\"</c>\", </d>",
                Some("</route/dev/a.css>; rel=preload, <b.js>; title=\"</c>\", </route/dev/d>"),
            ),
            ("<https://example.org/a>; rel=next", None),
            ("</a", None),
            ("a\"\\\"</b>", None),
            ("", None),
        ] {
            let mapped = text(MAPPING.link(value.as_bytes()));
            assert_eq!(mapped.as_deref(), expected, "{value}");
        }
    }

    proptest! {
        /// Whatever a pod says, a mapped address is inside of its workspace.
        #[test]
        fn mapped_is_inside(
            start in prop::sample::select(vec!["", "/", "//", "/\\", "http://localhost:9009", "//10.0.0.1:3000", "HTTPS://", "5;url="]),
            rest in "[ -~]{0,24}",
        ) {
            let value = format!("{start}{rest}");
            if let Some(mapped) = MAPPING.address(value.as_bytes()) {
                prop_assert!(MAPPING.is_inside(&mapped), "{:?}", mapped);
            }
            for mapped in [MAPPING.refresh(value.as_bytes()), MAPPING.link(value.as_bytes())] {
                prop_assert!(mapped.is_none_or(|mapped| mapped.len() > 4));
            }
            prop_assert!(MAPPING.is_inside(&MAPPING.cookie_path(value.as_bytes())));
        }
    }
}
