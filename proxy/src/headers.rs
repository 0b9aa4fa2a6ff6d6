//! What is taken out of, and put into, the headers of requests and answers. Pure.
//!
//! Towards pods nothing of ours may go: no cookie, no token, and no header by which a client could
//! claim to be somebody. What a pod may believe is only what is added here.

mod address;
mod answer;
mod framing;
mod origin;
mod pod;
mod rewrite;
mod size;

use http::HeaderName;
use http::header::{CONNECTION, COOKIE, FORWARDED, HOST};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pingora::http::RequestHeader;

pub use address::Mapping;
pub use answer::{add_cookie, from_pod, let_read, let_read_ours};
pub use framing::settle;
pub use origin::Origin;
pub use pod::towards_pod;
pub use size::{fit, fit_trailers};

/// Subject of the verified caller.
pub const USER_SUB: &str = "X-User-Sub";
/// Roles of the verified caller, separated by commas.
pub const USER_ROLES: &str = "X-User-Roles";

/// What a value that carries a sub or a role is encoded by: all but visible ASCII, and `%` and `,`.
const VALUE: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',');

/// Beginnings of names by which proxies tell applications who is calling or where from. Compared in
/// lower case with `-` for whatever is no letter or digit: CGI and its heirs turn all that into `_`.
const CLAIMS: [&str; 47] = [
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
    "x-ms-token-",
    "x-azure-clientip",
    "x-envoy-external-",
    "auth-user",
    "cf-access-",
    "tailscale-user-",
    "ssl-client-",
    "x-ssl-client-",
    "x-client-cert",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "client-cert",
    "client-ip",
    "x-cluster-client-ip",
    "fastly-client-ip",
    "forwarded-",
    "x-original-forwarded-",
    "x-appengine-user-",
    "kubeflow-user",
];

/// What those begin with.
const FIRST: &[u8] = b"xorctsfkap";

/// Likewise, whole names: what begins like them is applications' own.
const WHOLE_CLAIMS: [&str; 9] = [
    // CGI and its heirs take it for the proxy that they shall ask ("httpoxy").
    "proxy",
    "x-email",
    "x-forwarded",
    "x-group",
    "x-groups",
    "x-jwt-assertion",
    "x-role",
    "x-roles",
    "x-sub",
];

/// Makes a request fit for control: whoever the client claims to be is taken out, cookies and
/// tokens stay.
pub fn towards_control(request: &mut RequestHeader, origin: Origin<'_>) -> pingora::Result<()> {
    drop_claims(request);
    join_cookies(request)?;
    origin.add_to(request)
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
    // Hardly a name that browsers send begins like one of them.
    if !name.first().is_some_and(|first| FIRST.contains(first)) {
        return false;
    }
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

/// HTTP/2 splits cookies into several fields; HTTP/1 applications expect one.
fn join_cookies(request: &mut RequestHeader) -> pingora::Result<()> {
    let mut all = request.headers.get_all(COOKIE).iter();
    let (Some(_), Some(_)) = (all.next(), all.next()) else {
        return Ok(());
    };
    let joined = cookies_in_one(&request.headers);
    request.insert_header(COOKIE, joined)
}

/// All cookies of a request in one value.
fn cookies_in_one(headers: &http::HeaderMap) -> Vec<u8> {
    let values: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(http::HeaderValue::as_bytes)
        .collect();
    values.join(&b"; "[..])
}

#[cfg(test)]
mod tests;
