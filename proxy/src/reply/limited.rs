//! What an address gets from which too much came that was forged.

use super::Reply;
use http::StatusCode;
use http::header::RETRY_AFTER;

impl Reply {
    /// Too many credentials that do not count came from this address; the next one is heard in so
    /// many seconds.
    #[must_use]
    pub fn too_many_failures(seconds: u64) -> Self {
        let message = format!(
            "Too many requests from your address had a token or a cookie that does not count, as this one \
             has. Requests with one that counts are not limited; the next other one is heard in {seconds} s."
        );
        Self::error(StatusCode::TOO_MANY_REQUESTS, "too_many_failures", &message)
            .with(RETRY_AFTER.as_str(), seconds.to_string())
    }
}
