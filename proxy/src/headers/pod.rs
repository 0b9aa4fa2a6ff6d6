//! A client's request as its pod gets it.

use super::origin::Origin;
use super::{USER_ROLES, USER_SUB, cookies_in_one, encoded, is_claim};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, COOKIE, FORWARDED, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use nogoo9_identity::Authenticator;
use nogoo9_model::access::Caller;
use pingora::http::{IntoCaseHeaderName, RequestHeader};

/// Headers that are added at most.
const ADDED: usize = 8;

/// Makes a request fit for a pod. Of what was `sent`, whatever is `left` once the headers of this one
/// hop are gone goes on as it came: in its order, in its own letters. `target` is what the pod is asked
/// for; `caller` is `None` where the workspace wants no identity headers; `prefix` is what path mode
/// took off.
pub fn towards_pod(
    sent: &RequestHeader,
    left: &RequestHeader,
    target: &[u8],
    auth: &Authenticator,
    origin: Origin<'_>,
    caller: Option<&Caller>,
    prefix: Option<&str>,
) -> pingora::Result<RequestHeader> {
    let room = sent.headers.len() + ADDED;
    let mut request = RequestHeader::build(sent.method.clone(), target, Some(room))?;
    // What the pod speaks.
    request.set_version(left.version);
    request.set_send_end_stream(left.send_end_stream().unwrap_or(true));
    let mut theirs = theirs(&sent.headers, auth);
    if !sent.headers.contains_key(HOST) {
        // HTTP/2 has it elsewhere.
        if let Some(host) = left.headers.get(HOST) {
            request.append_header(HOST, host.clone())?;
        } else if let Some(authority) = left.uri.authority() {
            request.append_header(HOST, authority.as_str())?;
        }
    }
    let mut cases = sent.case_header_iter();
    for (name, value) in &sent.headers {
        let case = cases.next().map(|(case, _)| case);
        if *name == TRANSFER_ENCODING && is_chunked(sent) && left.version != Version::HTTP_2 {
            // Pingora would put it at the end.
            append(&mut request, name, case, value.clone())?;
            continue;
        }
        if !left.headers.contains_key(name) || is_claim(name) || *name == FORWARDED {
            continue;
        }
        if *name == AUTHORIZATION || *name == COOKIE {
            // Each of the two at the place of its first line.
            if let Some(theirs) = theirs.as_mut() {
                put_back(&mut request, theirs, name, case)?;
            }
            continue;
        }
        append(&mut request, name, case, value.clone())?;
    }
    origin.add_to(&mut request)?;
    origin.add_standard(&mut request)?;
    if let Some(prefix) = prefix {
        request.insert_header("X-Forwarded-Prefix", prefix)?;
    }
    if let Some(caller) = caller {
        request.insert_header(USER_SUB, encoded(&caller.sub))?;
        let roles: Vec<String> = caller.roles.iter().map(|role| encoded(role)).collect();
        request.insert_header(USER_ROLES, roles.join(","))?;
    }
    Ok(request)
}

/// Whether a body of unknown length comes: [`crate::strict`] lets no other coding through.
fn is_chunked(sent: &RequestHeader) -> bool {
    sent.version == Version::HTTP_11 && !sent.headers.contains_key(CONTENT_LENGTH)
}

/// What is the application's own of the headers that may hold something of ours.
fn theirs(sent: &HeaderMap, auth: &Authenticator) -> Option<HeaderMap> {
    if !sent.contains_key(COOKIE) && !sent.contains_key(AUTHORIZATION) {
        return None;
    }
    let mut some = HeaderMap::with_capacity(2);
    for name in [COOKIE, AUTHORIZATION] {
        for value in sent.get_all(&name) {
            some.append(name.clone(), value.clone());
        }
    }
    auth.strip(&mut some);
    Some(some)
}

fn put_back(
    request: &mut RequestHeader,
    theirs: &mut HeaderMap,
    name: &HeaderName,
    case: Option<&(impl IntoCaseHeaderName + Clone)>,
) -> pingora::Result<()> {
    if *name == COOKIE {
        if theirs.contains_key(COOKIE) {
            // HTTP/2 splits cookies into several fields; HTTP/1 applications expect one.
            let joined = HeaderValue::from_maybe_shared(bytes::Bytes::from(cookies_in_one(theirs)));
            if let Ok(joined) = joined {
                append(request, name, case, joined)?;
            }
        }
    } else {
        for value in theirs.get_all(name) {
            append(request, name, case, value.clone())?;
        }
    }
    theirs.remove(name);
    Ok(())
}

fn append(
    request: &mut RequestHeader,
    name: &HeaderName,
    case: Option<&(impl IntoCaseHeaderName + Clone)>,
    value: HeaderValue,
) -> pingora::Result<()> {
    match case {
        Some(case) => request.append_header(case.clone(), value)?,
        None => request.append_header(name, value)?,
    };
    Ok(())
}
