//! What is taken out of, and put into, the headers of requests and answers. Pure.
//!
//! Towards pods nothing of ours may go: no cookie, no token, and no header by which a client could
//! claim to be somebody. What a pod may believe is only what is added here.

mod answer;

use http::HeaderName;
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, FORWARDED, HOST};
use nogoo9_identity::Authenticator;
use nogoo9_model::access::Caller;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pingora::http::RequestHeader;
use std::net::IpAddr;

pub use answer::{Mapping, add_cookie, from_pod, let_read};

/// Subject of the verified caller.
pub const USER_SUB: &str = "X-User-Sub";
/// Roles of the verified caller, separated by commas.
pub const USER_ROLES: &str = "X-User-Roles";

/// What a value that carries a sub or a role is encoded by: all but visible ASCII, and `%` and `,`.
const VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',');

/// Beginnings of names by which proxies tell applications who is calling or where from. Compared in
/// lower case with `-` for whatever is no letter or digit: CGI and its heirs turn all that into `_`.
const CLAIMS: [&str; 35] = [
    "x-user",
    "x-auth-user",
    "x-auth-email",
    "x-auth-group",
    "x-auth-role",
    "oidc-claim-",
    "x-oidc-",
    "x-pomerium-",
    "x-vouch-",
    "x-consumer-",
    "x-credential-",
    "x-proxy-user",
    "x-proxy-role",
    "x-forwarded-",
    "x-auth-request-",
    "x-authenticated-",
    "x-authentik-",
    "x-webauth-",
    "x-workspace-jwt",
    "x-nogoo9-",
    "x-remote-",
    "remote-",
    "x-amzn-oidc-",
    "x-goog-authenticated-user-",
    "x-goog-iap-",
    "x-ms-client-principal",
    "cf-access-",
    "tailscale-user-",
    "ssl-client-",
    "x-ssl-client-",
    "x-client-cert",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
];

/// Likewise, whole names: what begins like them is applications' own.
const WHOLE_CLAIMS: [&str; 6] = [
    "x-email", "x-group", "x-groups", "x-role", "x-roles", "x-sub",
];

/// Where a request came from, for the hop to control or a pod.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// Host that the client asked for.
    pub host: &'a str,
    /// Scheme of the public URL.
    pub scheme: &'a str,
    /// Address of the client.
    pub client: Option<IpAddr>,
}

/// Makes a request fit for control: whoever the client claims to be is taken out, cookies and
/// tokens stay.
pub fn towards_control(request: &mut RequestHeader, origin: Origin<'_>) -> pingora::Result<()> {
    drop_claims(request);
    join_cookies(request)?;
    add_origin(request, origin)
}

/// Makes a request fit for a pod. `caller` is `None` where the workspace wants no identity headers;
/// `prefix` is what path mode took off.
pub fn towards_pod(
    request: &mut RequestHeader,
    auth: &Authenticator,
    origin: Origin<'_>,
    caller: Option<&Caller>,
    prefix: Option<&str>,
) -> pingora::Result<()> {
    drop_claims(request);
    strip_ours(request, auth)?;
    join_cookies(request)?;
    add_origin(request, origin)?;
    if let Some(prefix) = prefix {
        request.insert_header("X-Forwarded-Prefix", prefix)?;
    }
    if let Some(caller) = caller {
        request.insert_header(USER_SUB, encoded(&caller.sub))?;
        let roles: Vec<String> = caller.roles.iter().map(|role| encoded(role)).collect();
        request.insert_header(USER_ROLES, roles.join(","))?;
    }
    Ok(())
}

/// Takes out the headers that concern one hop only, named by the standard or by `Connection`, for a
/// request that we send ourselves.
pub fn drop_hop_by_hop(request: &mut RequestHeader) {
    let named: Vec<HeaderName> = request
        .headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| *name != HOST)
        .collect();
    for name in named {
        request.remove_header(&name);
    }
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
    ] {
        request.remove_header(name);
    }
}

/// A value outside of what a header may carry, made fit for one.
#[must_use]
pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// Whether a client could claim something by a header of that name.
fn is_claim(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let plain = |byte: &u8| {
        if byte.is_ascii_alphanumeric() {
            *byte
        } else {
            b'-'
        }
    };
    let begins = |claim: &&str| {
        name.len() >= claim.len()
            && name
                .iter()
                .map(plain)
                .zip(claim.bytes())
                .all(|(a, b)| a == b)
    };
    CLAIMS.iter().any(begins)
        || WHOLE_CLAIMS
            .iter()
            .any(|claim| name.len() == claim.len() && begins(claim))
}

fn drop_claims(request: &mut RequestHeader) {
    let claims: Vec<HeaderName> = request
        .headers
        .keys()
        .filter(|name| is_claim(name))
        .cloned()
        .collect();
    for name in claims {
        request.remove_header(&name);
    }
    request.remove_header(&FORWARDED);
}

fn strip_ours(request: &mut RequestHeader, auth: &Authenticator) -> pingora::Result<()> {
    // The few headers that may hold something of ours, taken out, cleaned and put back.
    let mut some = http::HeaderMap::new();
    for name in [COOKIE, AUTHORIZATION] {
        for value in request.headers.get_all(&name) {
            some.append(name.clone(), value.clone());
        }
        request.remove_header(&name);
    }
    if some.is_empty() {
        return Ok(());
    }
    auth.strip(&mut some);
    for (name, value) in &some {
        request.append_header(name.clone(), value.clone())?;
    }
    Ok(())
}

/// HTTP/2 splits cookies into several fields; HTTP/1 applications expect one.
fn join_cookies(request: &mut RequestHeader) -> pingora::Result<()> {
    let mut all = request.headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (all.next(), all.next()) else {
        return Ok(());
    };
    let mut joined = first.as_bytes().to_vec();
    for value in std::iter::once(second).chain(all) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(value.as_bytes());
    }
    request.insert_header(COOKIE, joined)
}

fn add_origin(request: &mut RequestHeader, origin: Origin<'_>) -> pingora::Result<()> {
    request.insert_header("X-Forwarded-Host", origin.host)?;
    request.insert_header("X-Forwarded-Proto", origin.scheme)?;
    match origin.client {
        Some(client) => request.insert_header("X-Forwarded-For", client.to_string()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
