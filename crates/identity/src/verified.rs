//! What a verified token says.

use crate::session::{Freshness, freshness};
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Caller;

/// The outcome of verifying a token, shared by all requests that carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Who is calling.
    pub caller: Caller,
    /// From when on the token counts no more: its end, and for a bearer the leeway between clocks
    /// besides. Sockets and streams opened by it end then at the latest.
    pub expires: UnixSeconds,
    /// The browser session, for session tokens.
    pub sid: Option<String>,
    /// Until when it counts without control being asked, for session tokens that control renews.
    pub fresh_until: Option<UnixSeconds>,
}

impl Verified {
    /// Whether the token still counts by itself.
    #[must_use]
    pub fn freshness(&self, now: UnixSeconds) -> Freshness {
        freshness(self.fresh_until, now)
    }
}
