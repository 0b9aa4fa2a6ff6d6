//! Answers of pods: cookies that must not reach beyond the workspace, and addresses that path mode
//! maps back.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, LOCATION,
    SET_COOKIE, VARY,
};
use http::{HeaderName, HeaderValue};
use nogoo9_identity::cookie;
use pingora::http::ResponseHeader;
use url::Url;

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

/// Headers by which a page of one workspace would reach its siblings on a shared origin: workers and
/// dictionaries that see their requests, data and sign-ins that they lose, reports of where they go, and
/// how the host is reached at all.
const ORIGIN_WIDE: [HeaderName; 10] = [
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("clear-site-data"),
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
    set_cookies(response, mapping)?;
    let Some(mapping) = mapping else {
        return Ok(());
    };
    if mapping.shared {
        for name in &ORIGIN_WIDE {
            response.remove_header(name);
        }
    }
    if mapping.stripped
        && let Some(location) = response.headers.get(LOCATION)
        && let Some(mapped) = location
            .to_str()
            .ok()
            .and_then(|text| map_location(text, mapping))
    {
        response.insert_header(LOCATION, mapped)?;
    }
    Ok(())
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

fn set_cookies(response: &mut ResponseHeader, mapping: Option<Mapping<'_>>) -> pingora::Result<()> {
    if !response.headers.contains_key(SET_COOKIE) {
        return Ok(());
    }
    let cookies: Vec<HeaderValue> = response
        .headers
        .get_all(SET_COOKIE)
        .iter()
        .filter_map(|value| set_cookie(value, mapping))
        .collect();
    response.remove_header(&SET_COOKIE);
    for value in cookies {
        response.append_header(SET_COOKIE, value)?;
    }
    Ok(())
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
            out.extend_from_slice(&map_cookie_path(path, mapping));
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

/// Whether a path is in the workspace as the client sees it: the pod knows of the prefix, be it that
/// it gets it or that it goes by `X-Forwarded-Prefix`.
fn is_inside(path: &[u8], mapping: Mapping<'_>) -> bool {
    path.strip_prefix(mapping.prefix.as_bytes())
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'/' | b'?' | b'#')))
}

fn map_cookie_path(path: &[u8], mapping: Mapping<'_>) -> Vec<u8> {
    if is_inside(path, mapping) {
        return path.to_vec();
    }
    let mut mapped = mapping.prefix.as_bytes().to_vec();
    match path.first() {
        Some(b'/') if mapping.stripped => mapped.extend_from_slice(path),
        // Not absolute, or outside of what the pod may set: the whole workspace.
        _ => mapped.push(b'/'),
    }
    mapped
}

/// A `Location` as the client must see it; `None` if it stays.
fn map_location(location: &str, mapping: Mapping<'_>) -> Option<String> {
    if location.starts_with('/') && !location.starts_with("//") {
        if is_inside(location.as_bytes(), mapping) {
            return None;
        }
        return Some(format!("{}{location}", mapping.prefix));
    }
    // An absolute address of the pod itself, by the host it was asked as or by its own address.
    let url = Url::parse(location).ok()?;
    let authority = match (url.host_str()?, url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    if !authority.eq_ignore_ascii_case(mapping.host) && authority != mapping.pod {
        return None;
    }
    let rest = &url[url::Position::BeforePath..];
    if is_inside(rest.as_bytes(), mapping) {
        return Some(rest.to_owned());
    }
    Some(format!("{}{rest}", mapping.prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

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
