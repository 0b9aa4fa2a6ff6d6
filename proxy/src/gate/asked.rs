//! Requests that only control can answer: their workspace has no pods, or is not the caller's.

use super::sign_in::{query, target};
use super::{Opened, ours, prefix};
use crate::reply::Html;
use crate::route::{Mode, Place};
use http::Method;
use nogoo9_identity::Verified;
use percent_encoding::percent_decode_str;
use pingora::http::RequestHeader;
use std::sync::Arc;

/// Longest address to return to after a start, in bytes.
const MAX_BACK: usize = 2048;

/// A request for a workspace that the table knows no live pods of, or knows as somebody else's.
#[derive(Debug)]
pub struct Asked {
    /// The workspace's id.
    pub id: String,
    /// The extra port whose host was asked.
    pub port: Option<String>,
    /// The path inside the workspace, without the query.
    pub path: String,
    /// Who is calling.
    pub caller: Arc<Verified>,
    /// How the workspace was reached.
    pub mode: Mode,
    /// Host that the client asked for, as sessions are bound to it.
    pub host: String,
    /// How an answer may be shown that is the edge's own.
    pub html: Html,
    /// Whether a WebSocket is asked for.
    pub websocket: bool,
    /// What is wanted.
    pub wants: Wants,
    /// The path to show once the workspace was started.
    pub back: String,
    /// `false`: the table knows it, and it is not the caller's. Control is asked all the same, so
    /// that this takes as long as for an id that nobody has.
    pub theirs: bool,
    /// The workspace, where the table knows it.
    pub opened: Option<Opened>,
}

/// What a request wants of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wants {
    /// Something of the workspace's own.
    Page,
    /// How things stand.
    Status,
    /// The same, as it changes.
    Events,
    /// To start it.
    Start,
}

impl Asked {
    /// Where a page asks how things stand.
    #[must_use]
    pub fn status_path(&self) -> String {
        ours(self.mode, &self.id, "status")
    }

    /// Where the start button leads.
    #[must_use]
    pub fn start_path(&self) -> String {
        let start = ours(self.mode, &self.id, "start");
        format!("{start}?return={}", query(&self.back))
    }
}

/// The path to show once the workspace was started: for the start button the one that it names, else
/// the one that was asked for. Always one of this very workspace.
pub(super) fn back(request: &RequestHeader, place: &Place<'_>) -> String {
    let root = format!("{}/", prefix(place.mode, &place.id).unwrap_or_default());
    let wanted = if place.ours.is_some() {
        let pairs = request.uri.query().unwrap_or_default().split('&');
        let named = pairs.filter_map(|pair| pair.strip_prefix("return=")).next();
        let named = percent_decode_str(named.unwrap_or_default());
        named.decode_utf8().unwrap_or_default().into_owned()
    } else if request.method == Method::GET || request.method == Method::HEAD {
        target(request).to_owned()
    } else {
        // Where a form is sent there may be nothing to be seen.
        root.clone()
    };
    if is_inside(&wanted, &root) {
        wanted
    } else {
        root
    }
}

/// Whether a browser that is sent to `path` stays inside the workspace at `root`.
fn is_inside(path: &str, root: &str) -> bool {
    let segments = path.split(['?', '#']).next().unwrap_or_default();
    let climbs = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == ".." || plain == "."
    };
    path.len() <= MAX_BACK
        && path.starts_with(root)
        // A second slash would begin a host.
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !segments.split('/').any(climbs)
        && !path.starts_with(&format!("{root}.nogoo9/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_inside() {
        for (path, root, inside) in [
            ("/", "/", true),
            ("/a/b?c=../d", "/", true),
            ("/route/dev/a", "/route/dev/", true),
            ("/route/dev", "/route/dev/", false),
            ("/route/device/", "/route/dev/", false),
            ("/route/dev/../other/", "/route/dev/", false),
            ("/route/dev/%2E%2e/other/", "/route/dev/", false),
            ("/route/dev/./x", "/route/dev/", false),
            ("//evil.example", "/", false),
            ("/\\evil.example", "/", false),
            ("/a\nb", "/", false),
            ("/a b", "/", false),
            ("https://evil.example/", "/", false),
            ("/.nogoo9/start", "/", false),
            ("", "/", false),
        ] {
            assert_eq!(is_inside(path, root), inside, "{path} in {root}");
        }
        assert!(!is_inside(&format!("/{}", "a".repeat(MAX_BACK)), "/"));
    }
}
