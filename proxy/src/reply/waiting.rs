//! The page of a workspace that is on its way: it follows how things stand, and gives way to the page that
//! was asked for.

use super::{OPENER_POLICY, POLICY, Reply, Told, escape};
use crate::table::progress::WaitsFor;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, RETRY_AFTER, X_FRAME_OPTIONS};

/// Follows how things stand by the events beside the page, or where there are none (an old browser, too
/// many pages) by the status document, and reloads the page that was asked for, with its query and
/// fragment, once there is a pod, or none will come.
pub(super) const SCRIPT: &str = include_str!("waiting.js");

/// Has a page that waits looked at again where no script does.
const AGAIN: &str = "<noscript><meta http-equiv=\"refresh\" content=\"3\"></noscript>";

/// What is said of a workspace at the top of its page, by the word of its status document.
const HEADINGS: [(&str, &str); 4] = [
    ("stopping", "is stopping"),
    ("deleting", "is being deleted"),
    ("failing", "does not start"),
    // All others.
    ("other", "is on its way"),
];

/// The headings of the workspace's page, by word, as the script reads them.
fn headings(id: &str) -> serde_json::Value {
    let named = HEADINGS.map(|(word, says)| (word.to_owned(), format!("{id} {says}").into()));
    serde_json::Value::Object(named.into_iter().collect())
}

impl Reply {
    /// A workspace that is not ready: the page follows the status document at `status_path` and reloads.
    #[must_use]
    pub fn waiting(id: &str, status_path: &str, told: &Told) -> Self {
        let all = headings(id);
        let heading = all.get(told.word).unwrap_or(&all["other"]);
        let heading = escape(heading.as_str().unwrap_or_default());
        let attributes = format!(
            " data-status=\"{}\" data-headings=\"{}\"",
            escape(status_path),
            escape(&all.to_string())
        );
        let reason = told.waits_for.as_ref().map_or("", WaitsFor::sentence);
        let error = told.last_error.as_deref().unwrap_or_default();
        let hidden = if error.is_empty() { " hidden" } else { "" };
        let inner = format!(
            "<h1>{heading}</h1><div role=\"status\"><p id=\"s\">{}</p><p id=\"w\">{reason}</p></div>\
             <div class=\"e\"{hidden}><p>The last upgrade failed:</p>\
             <pre id=\"e\" data-alone>{}</pre></div>\
             <div class=\"b\"><i></i></div>\
             <noscript><p>This page looks again every few seconds.</p></noscript>\
             <script>{SCRIPT}</script>",
            escape(&told.message),
            escape(error)
        );
        let page = Self::document(
            StatusCode::SERVICE_UNAVAILABLE,
            &heading,
            AGAIN,
            &attributes,
            &inner,
        );
        // It stands in for a page of the workspace's own: in a frame, it shall come back as well, and in
        // a window that another page opened, that one shall keep hold of it. There is nothing to be
        // clicked on.
        let policy = POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'");
        let mut page = page
            .with_other(CONTENT_SECURITY_POLICY.as_str(), policy)
            .with_other(X_FRAME_OPTIONS.as_str(), "SAMEORIGIN".to_owned())
            .with(RETRY_AFTER.as_str(), "2");
        page.headers.retain(|(name, _)| *name != OPENER_POLICY);
        page
    }

    /// A page that waits, for a browser that asked for `target` (path and query): without scripts it
    /// goes there again. The address alone would not do, since with a fragment browsers take that for a
    /// way inside the page that they have. `None`: this is no such page.
    #[must_use]
    pub fn again_at(&self, target: &str) -> Option<Self> {
        let page = std::str::from_utf8(&self.body).ok()?;
        let (before, after) = page.split_once(AGAIN)?;
        // With two slashes at its beginning it would name another host (URL standard, "path absolute
        // slash state"); a first segment that says nothing keeps it a path.
        let names_host = target.starts_with("//") || target.starts_with("/\\");
        let here = if names_host { "/." } else { "" };
        let url = format!("\"3;url={here}{}\"", escape(target));
        let there = AGAIN.replace("\"3\"", &url);
        Some(Self {
            body: Bytes::from([before, &there, after].concat()),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Html;
    use super::*;

    #[test]
    fn what_is_shown_is_escaped() {
        let told = Told {
            word: "starting",
            message: "<script>".to_owned(),
            waits_for: None,
            last_error: Some("X: <b>".to_owned()),
        };
        let page = Reply::waiting("dev", "/route/<x>\"/.nogoo9/status", &told);
        let text = String::from_utf8(page.body.to_vec()).unwrap();
        assert!(text.contains("data-status=\"/route/&lt;x&gt;&quot;/.nogoo9/status\""));
        assert!(
            text.contains("<p id=\"s\">&lt;script&gt;</p>") && text.contains("X: &lt;b&gt;</pre>")
        );
    }

    #[test]
    fn without_scripts_the_page_is_asked_for_again() {
        let told = Told {
            word: "starting",
            message: String::new(),
            waits_for: None,
            last_error: None,
        };
        let waiting = Reply::waiting("dev", "/.nogoo9/status", &told);
        let page = waiting.again_at("/a?b=\"<c>").unwrap();
        let text = String::from_utf8(page.body.to_vec()).unwrap();
        let refresh = "http-equiv=\"refresh\" content=\"3;url=/a?b=&quot;&lt;c&gt;\"";
        assert!(text.contains(refresh), "{text}");
        assert_eq!(Reply::bad_gateway(Html::Page).again_at("/"), None);
        // Never on another host.
        for (target, url) in [
            ("//evil.example/x", "/.//evil.example/x"),
            ("/\\evil.example/x", "/./\\evil.example/x"),
            ("/a//b", "/a//b"),
        ] {
            let page = waiting.again_at(target).unwrap();
            let text = String::from_utf8(page.body.to_vec()).unwrap();
            assert!(text.contains(&format!("\"3;url={url}\"")), "{text}");
        }
    }

    #[test]
    fn the_heading_goes_by_the_word_and_names_the_workspace() {
        for (word, heading) in [
            ("starting", "dev is on its way"),
            ("switching", "dev is on its way"),
            ("away", "dev is on its way"),
            ("stopping", "dev is stopping"),
            ("deleting", "dev is being deleted"),
            ("failing", "dev does not start"),
        ] {
            let told = Told {
                word,
                message: String::new(),
                waits_for: None,
                last_error: None,
            };
            let page = Reply::waiting("dev", "/.nogoo9/status", &told);
            let text = String::from_utf8(page.body.to_vec()).unwrap();
            let shown = [
                format!("<title>{heading}</title>"),
                format!("<h1>{heading}</h1>"),
            ];
            assert!(shown.iter().all(|part| text.contains(part)), "{word}");
        }
    }
}
