//! The head of an answer, line by line.

use http::{HeaderName, HeaderValue};
use pingora::http::ResponseHeader;

/// Puts in place of each line's value what `each` makes of it, and takes out the lines of which it makes
/// nothing. What stays has its order and its own letters.
pub(super) fn rewrite(
    response: &mut ResponseHeader,
    mut each: impl FnMut(&HeaderName, &HeaderValue) -> Option<HeaderValue>,
) -> pingora::Result<()> {
    let mut clean = ResponseHeader::build(response.status, Some(response.headers.len() + 2))?;
    clean.set_version(response.version);
    clean.set_reason_phrase(response.get_reason_phrase())?;
    let mut cases = response.case_header_iter();
    for (name, value) in &response.headers {
        let case = cases.next().map(|(case, _)| case);
        let Some(value) = each(name, value) else {
            continue;
        };
        match case {
            Some(case) => clean.append_header(case.clone(), value)?,
            None => clean.append_header(name, value)?,
        };
    }
    drop(cases);
    *response = clean;
    Ok(())
}
