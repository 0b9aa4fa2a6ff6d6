//! What is told of a request that control took and did not answer.

use super::{Html, Reply};
use http::StatusCode;

impl Reply {
    /// Control broke off before its answer. Nothing says when to come again: it may have done what it was
    /// asked, and a client that obeys would have it done twice.
    #[must_use]
    pub fn broken_off(html: Html) -> Self {
        let message = "The console broke off before it answered: nobody can know whether it did what it \
                       was asked.";
        if html.is_page() {
            let inner = format!("<h1>No answer</h1><p>{message}</p>");
            return Self::page(StatusCode::BAD_GATEWAY, "No answer", "", &inner);
        }
        Self::error(StatusCode::BAD_GATEWAY, "bad_gateway", message)
    }
}
