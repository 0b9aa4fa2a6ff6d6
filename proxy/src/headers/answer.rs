//! Answers of pods: cookies that must not reach beyond the workspace, and addresses that path mode
//! maps back.

use super::address::Mapping;
use super::rewrite::rewrite;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, LINK, LOCATION,
    PROXY_AUTHENTICATE, REFRESH, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use nogoo9_identity::cookie;
use pingora::http::ResponseHeader;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const PROXY_AUTHENTICATION_INFO: HeaderName = HeaderName::from_static("proxy-authentication-info");
/// What a browser is to forget of the host.
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Where the source of a script or style is, for debuggers.
const SOURCE_MAP: HeaderName = HeaderName::from_static("sourcemap");
/// Answers without any of these are passed on as they are on a workspace's own host.
const ALTERED: [HeaderName; 10] = [
    CLEAR_SITE_DATA,
    CONNECTION,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHENTICATION_INFO,
    PROXY_CONNECTION,
    SET_COOKIE,
    TE,
    TRAILER,
    UPGRADE,
];

/// Headers by which a page of one workspace would reach its siblings on a shared origin: workers and
/// dictionaries that see their requests, data and sign-ins that they lose, reports of where they go, and
/// how the host is reached at all.
const ORIGIN_WIDE: [HeaderName; 10] = [
    HeaderName::from_static("service-worker-allowed"),
    CLEAR_SITE_DATA,
    HeaderName::from_static("alt-svc"),
    HeaderName::from_static("strict-transport-security"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("use-as-dictionary"),
    HeaderName::from_static("set-login"),
    HeaderName::from_static("accept-ch"),
    HeaderName::from_static("origin-agent-cluster"),
];

/// Headers that speak to shared caches alone, and to some louder than `Cache-Control` (RFC 9213).
const SHARED_CACHES: [HeaderName; 2] = [
    HeaderName::from_static("cdn-cache-control"),
    HeaderName::from_static("surrogate-control"),
];

/// Makes an answer of a pod fit for the client; `mapping` where it is reached under a prefix.
pub fn from_pod(
    response: &mut ResponseHeader,
    mapping: Option<Mapping<'_>>,
) -> pingora::Result<()> {
    // On a host of its own, a pod that sees whole paths says what it means.
    let mapping = mapping.filter(|mapping| mapping.shared || mapping.stripped);
    if mapping.is_none()
        && !ALTERED
            .iter()
            .any(|name| response.headers.contains_key(name))
    {
        return Ok(());
    }
    let named = named(&response.headers);
    let status = response.status;
    rewrite(response, |name, value| match mapping {
        _ if is_for_this_hop(name, &named, status) => None,
        Some(mapping) if mapping.shared && ORIGIN_WIDE.contains(name) => None,
        _ if *name == SET_COOKIE => set_cookie(value, mapping),
        _ if *name == CLEAR_SITE_DATA => of_this_host(value),
        Some(mapping) if mapping.stripped => Some(mapped(name, value, mapping)),
        _ => Some(value.clone()),
    })
}

/// What `Connection` names.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(CONNECTION).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    names
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

/// Whether a header is about the connection to the pod, and goes no further (RFC 9110, section 7.6.1).
fn is_for_this_hop(name: &HeaderName, named: &[HeaderName], status: StatusCode) -> bool {
    if *name == UPGRADE {
        // An answer that asks for an upgrade, or makes it, says to what.
        return status != StatusCode::UPGRADE_REQUIRED && status != StatusCode::SWITCHING_PROTOCOLS;
    }
    if *name == CONNECTION {
        // In a final answer Pingora puts the edge's own in its place.
        return status.is_informational();
    }
    let framing = *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
    let always = [
        KEEP_ALIVE,
        PROXY_AUTHENTICATE,
        PROXY_AUTHENTICATION_INFO,
        PROXY_CONNECTION,
        TE,
        TRAILER,
    ];
    always.contains(name) || (!framing && named.contains(name))
}

/// A header's value with the addresses in it mapped back.
fn mapped(name: &HeaderName, value: &HeaderValue, mapping: Mapping<'_>) -> HeaderValue {
    let bytes = value.as_bytes();
    let mapped = if *name == LOCATION || *name == CONTENT_LOCATION || *name == SOURCE_MAP {
        mapping.address(bytes)
    } else if *name == REFRESH {
        mapping.refresh(bytes)
    } else if *name == LINK {
        mapping.link(bytes)
    } else {
        None
    };
    mapped
        .and_then(|mapped| HeaderValue::from_bytes(&mapped).ok())
        .unwrap_or_else(|| value.clone())
}

/// What a browser is to forget that is the host's alone: cookies are those of the whole site, the
/// console's and other workspaces' among them (Clear Site Data, section 4.2.2).
fn of_this_host(value: &HeaderValue) -> Option<HeaderValue> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for kind in value.as_bytes().split(|byte| *byte == b',') {
        match kind.trim_ascii() {
            b"\"cookies\"" | b"" => {}
            b"\"*\"" => kept.extend([&b"\"cache\""[..], b"\"storage\"", b"\"executionContexts\""]),
            kind => kept.push(kind),
        }
    }
    let kept = (!kept.is_empty()).then(|| kept.join(&b", "[..]))?;
    HeaderValue::from_bytes(&kept).ok()
}

/// Lets a page of `origin` read the answer, unless the pod says itself who may.
pub fn let_read(response: &mut ResponseHeader, origin: &str) -> pingora::Result<()> {
    if response.headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        return Ok(());
    }
    response.insert_header(ACCESS_CONTROL_ALLOW_ORIGIN, origin)?;
    response.insert_header(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true")?;
    response.append_header(VARY, "Origin")?;
    Ok(())
}

/// Lets a page of `origin` read an answer of ours, and in it what a script cannot see otherwise: when to
/// come again, and by what to prove who it is.
pub fn let_read_ours(response: &mut ResponseHeader, origin: &str) -> pingora::Result<()> {
    if response.headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) {
        return Ok(());
    }
    let_read(response, origin)?;
    let names = "Retry-After, WWW-Authenticate";
    response.insert_header(ACCESS_CONTROL_EXPOSE_HEADERS, names)
}

/// Adds a cookie of ours, and sees to it that no shared cache keeps what it comes with.
pub fn add_cookie(response: &mut ResponseHeader, cookie: &str) -> pingora::Result<()> {
    response.append_header(SET_COOKIE, cookie)?;
    for name in &SHARED_CACHES {
        response.remove_header(name);
    }
    let said: Vec<&[u8]> = response
        .headers
        .get_all(CACHE_CONTROL)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    let private = private(&said.join(&b", "[..]));
    response.insert_header(CACHE_CONTROL, private)
}

/// What `Cache-Control` says, for one reader only.
fn private(said: &[u8]) -> String {
    // With a quoted list of fields, commas separate nothing: rather too strict than misread.
    let Some(said) = std::str::from_utf8(said)
        .ok()
        .filter(|text| !text.contains('"'))
    else {
        return "private, no-cache".to_owned();
    };
    let kept = said.split(',').map(str::trim).filter(|directive| {
        let name = directive.split('=').next().unwrap_or_default().trim();
        let shared = ["", "public", "private", "s-maxage", "proxy-revalidate"];
        !shared.iter().any(|one| name.eq_ignore_ascii_case(one))
    });
    std::iter::once("private")
        .chain(kept)
        .collect::<Vec<_>>()
        .join(", ")
}

/// One `Set-Cookie` value: `None` if it takes a name of ours, else without `Domain`, and where it is reached
/// under a prefix with a path under that.
fn set_cookie(value: &HeaderValue, mapping: Option<Mapping<'_>>) -> Option<HeaderValue> {
    let bytes = value.as_bytes();
    let mut parts = bytes.split(|byte| *byte == b';');
    let pair = parts.next()?;
    let name = pair.split(|byte| *byte == b'=').next()?.trim_ascii();
    // A cookie without a name is sent as its bare value, which may begin with `nogoo9=`.
    let name = if name.is_empty() {
        nameless(pair)
    } else {
        name
    };
    if std::str::from_utf8(name).is_ok_and(cookie::is_ours) {
        return None;
    }
    // A browser takes these for the whole host alone, which is the workspace's unless it is shared.
    let mapping = mapping.filter(|mapping| mapping.shared || !is_host_wide(name));
    let mut out = pair.to_vec();
    let mut has_path = false;
    for part in parts {
        let (key, text) = match part.iter().position(|byte| *byte == b'=') {
            Some(at) => part.split_at(at),
            None => (part, [].as_slice()),
        };
        let key = key.trim_ascii();
        if key.eq_ignore_ascii_case(b"domain") {
            continue;
        }
        if key.eq_ignore_ascii_case(b"path")
            && let Some(mapping) = mapping
        {
            has_path = true;
            let path = text.strip_prefix(b"=").unwrap_or(text).trim_ascii();
            out.extend_from_slice(b"; Path=");
            out.extend_from_slice(&mapping.cookie_path(path));
            continue;
        }
        out.push(b';');
        out.extend_from_slice(part);
    }
    if let Some(mapping) = mapping.filter(|mapping| mapping.shared)
        && !has_path
    {
        out.extend_from_slice(b"; Path=");
        out.extend_from_slice(mapping.prefix.as_bytes());
        out.push(b'/');
    }
    HeaderValue::from_bytes(&out).ok()
}

/// Whether a cookie's name binds it to the path `/` (RFC 6265bis, section 4.1.3.2).
fn is_host_wide(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"__Host-";
    name.get(..PREFIX.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX))
}

/// The name that a browser would read out of `=name=value` when it sends the cookie back.
fn nameless(pair: &[u8]) -> &[u8] {
    let pair = pair.trim_ascii();
    let rest = pair.strip_prefix(b"=").unwrap_or(pair).trim_ascii();
    rest.split(|byte| *byte == b'=').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_forgets_what_is_the_hosts_alone() {
        for (said, left) in [
            ("\"cache\"", Some("\"cache\"")),
            ("\"cookies\"", None),
            ("", None),
            (
                "\"cookies\" ,\"storage\",, \"clientHints\"",
                Some("\"storage\", \"clientHints\""),
            ),
            (
                "\"*\"",
                Some("\"cache\", \"storage\", \"executionContexts\""),
            ),
        ] {
            let said = HeaderValue::from_str(said).unwrap();
            let kept = of_this_host(&said);
            assert_eq!(kept.as_ref().map(|kept| kept.to_str().unwrap()), left);
        }
    }

    #[test]
    fn what_comes_with_a_cookie_is_for_one_reader() {
        for (said, wanted) in [
            ("", "private"),
            ("public, max-age=600", "private, max-age=600"),
            ("max-age=600,s-maxage=60", "private, max-age=600"),
            ("Public , S-MaxAge=5, immutable", "private, immutable"),
            ("private, max-age=1", "private, max-age=1"),
            ("no-store", "private, no-store"),
            ("private=\"x, public\"", "private, no-cache"),
            (",,", "private"),
        ] {
            assert_eq!(private(said.as_bytes()), wanted, "{said}");
        }
        assert_eq!(private(b"\xff"), "private, no-cache");
        let mut head = ResponseHeader::build(200, None).unwrap();
        head.append_header("Cache-Control", "public").unwrap();
        head.append_header("Cache-Control", "max-age=5").unwrap();
        head.append_header("CDN-Cache-Control", "max-age=600")
            .unwrap();
        head.append_header("Set-Cookie", "theirs=1").unwrap();
        add_cookie(&mut head, "nogoo9=x; Path=/").unwrap();
        let all = |name: &str| -> Vec<&str> {
            let values = head.headers.get_all(name).iter();
            values.map(|value| value.to_str().unwrap()).collect()
        };
        assert_eq!(all("cache-control"), ["private, max-age=5"]);
        assert!(all("cdn-cache-control").is_empty());
        assert_eq!(all("set-cookie"), ["theirs=1", "nogoo9=x; Path=/"]);
    }
}
