//! Answers that the proxy gives itself: pages, redirects and errors.

mod absent;
mod broken_off;
mod html;
mod limited;
mod socket;
mod told;
mod waiting;

use crate::strict::Flaw;
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, RETRY_AFTER, X_FRAME_OPTIONS,
};
use pingora::http::ResponseHeader;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;
use waiting::SCRIPT;

pub use html::Html;
pub use told::Told;

/// An answer: status, headers and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Status code.
    pub status: StatusCode,
    /// Headers besides those of every reply.
    pub headers: Vec<(&'static str, String)>,
    /// Body; its type is in the headers.
    pub body: Bytes,
}

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;margin:0;min-height:100vh;display:grid;place-items:center;background:light-dark(#f6f7f9,#14161a);color:light-dark(#1c2024,#e8eaed)}main{max-width:34rem;padding:2rem}h1{font-size:1.35rem;margin:0 0 .5rem}p{margin:.5rem 0;color:light-dark(#50575f,#a6adb5)}a{color:light-dark(#0b5cad,#7ab7ff)}button{font:inherit;font-weight:600;margin-top:1rem;padding:.6rem 1.2rem;border:0;border-radius:8px;cursor:pointer;background:light-dark(#0b5cad,#7ab7ff);color:light-dark(#fff,#14161a)}button:focus-visible,a:focus-visible{outline:3px solid light-dark(#1c2024,#e8eaed);outline-offset:2px}.e{border-left:3px solid light-dark(#b3261e,#ff8a80);padding-left:.75rem;margin-top:1rem}.e pre{font:.9rem/1.4 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;margin:0}[hidden]{display:none}.b{width:100%;height:3px;overflow:hidden;background:light-dark(#dfe3e8,#2a2f36);border-radius:2px;margin-top:1.25rem}.b i{display:block;width:30%;height:100%;background:light-dark(#0b5cad,#7ab7ff);animation:m 1.4s ease-in-out infinite}@keyframes m{from{transform:translateX(-100%)}to{transform:translateX(340%)}}@media(prefers-reduced-motion:reduce){.b i{animation:none;width:100%}}";

/// What pages may do: nothing but show themselves, and the one script. Nobody may frame them.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| data_encoding::BASE64.encode(&Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT),
    )
});

/// What every reply says beside its own headers; one of these that it has itself stands.
const ALWAYS: [(&str, &str); 3] = [
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
];
/// Parts a page from the window that opened it.
const OPENER_POLICY: &str = "cross-origin-opener-policy";
/// For a year, and for this host alone: what is under it is others' to decide.
pub const TRANSPORT_SECURITY: &str = "max-age=31536000";

impl Reply {
    /// Nothing but headers.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            status: StatusCode::OK,
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// Plain text.
    #[must_use]
    pub fn text(status: StatusCode, text: &str) -> Self {
        let headers = vec![(
            CONTENT_TYPE.as_str(),
            "text/plain; charset=utf-8".to_owned(),
        )];
        Self {
            status,
            headers,
            body: Bytes::from(format!("{text}\n")),
        }
    }

    /// A request that came to the wrong place (RFC 9110, section 15.5.20).
    #[must_use]
    pub fn misdirected(text: &str) -> Self {
        Self::text(StatusCode::MISDIRECTED_REQUEST, text)
    }

    /// JSON.
    #[must_use]
    pub fn json(status: StatusCode, value: &serde_json::Value) -> Self {
        let headers = vec![(CONTENT_TYPE.as_str(), "application/json".to_owned())];
        Self {
            status,
            headers,
            body: Bytes::from(value.to_string()),
        }
    }

    /// Why not, for a program: a short word, and a sentence.
    #[must_use]
    pub fn error(status: StatusCode, code: &str, message: &str) -> Self {
        let body = serde_json::json!({"code": code, "message": message});
        Self::json(status, &body)
    }

    /// A redirect.
    #[must_use]
    pub fn redirect(status: StatusCode, to: String) -> Self {
        Self {
            status,
            headers: vec![(LOCATION.as_str(), to)],
            body: Bytes::new(),
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets a header in place of what it is now.
    fn with_other(mut self, name: &'static str, value: String) -> Self {
        self.headers.retain(|(one, _)| *one != name);
        self.with(name, value)
    }

    fn page(status: StatusCode, title: &str, body_attributes: &str, inner: &str) -> Self {
        Self::document(status, title, "", body_attributes, inner)
    }

    fn document(
        status: StatusCode,
        title: &str,
        head: &str,
        body_attributes: &str,
        inner: &str,
    ) -> Self {
        let html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title>{head}<style>{STYLE}</style></head>\
             <body{body_attributes}><main>{inner}</main></body></html>"
        );
        let own = [
            (CONTENT_TYPE.as_str(), "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY.as_str(), POLICY.as_str()),
            (X_FRAME_OPTIONS.as_str(), "DENY"),
            (OPENER_POLICY, "same-origin"),
            (
                "permissions-policy",
                "camera=(), geolocation=(), microphone=()",
            ),
        ];
        let headers = own.map(|(name, value)| (name, value.to_owned())).to_vec();
        Self {
            status,
            headers,
            body: Bytes::from(html),
        }
    }

    /// "Not there", and, since the two must not be told apart, "not yours".
    #[must_use]
    pub fn not_found(html: Html, console: &str) -> Self {
        let message = "There is no such workspace, or it is not yours.";
        if !html.is_page() {
            return Self::error(StatusCode::NOT_FOUND, "not_found", message);
        }
        let inner = format!(
            "<h1>Nothing here for you</h1><p>{message}</p>\
             <p>If it is yours it may be stopped: <a href=\"{}\">start it in the console</a>.</p>",
            escape(console)
        );
        Self::page(StatusCode::NOT_FOUND, "Not found", "", &inner)
    }

    /// Held for as long as may be, or too many held already.
    #[must_use]
    pub fn unavailable(html: Html, message: &str) -> Self {
        let reply = if html.is_page() {
            let inner = format!(
                "<h1>Not ready</h1><p>{}</p><p>{}</p>",
                escape(message),
                html.advice()
            );
            Self::page(StatusCode::SERVICE_UNAVAILABLE, "Not ready", "", &inner)
        } else {
            Self::error(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
        };
        reply.with(RETRY_AFTER.as_str(), "5")
    }

    /// This proxy stops; another one takes what is asked anew.
    #[must_use]
    pub fn stopping(html: Html) -> Self {
        Self::unavailable(html, "This proxy stops; ask again.")
    }

    /// The request breaks the protocol.
    #[must_use]
    pub fn bad_request() -> Self {
        let message = "The request is not proper HTTP.";
        Self::error(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    /// The request can be read in two ways.
    #[must_use]
    pub fn flawed(flaw: Flaw) -> Self {
        Self::error(flaw.status(), "invalid_request", &flaw.to_string())
    }

    /// The rest of the request did not come.
    #[must_use]
    pub fn timed_out() -> Self {
        let message = "The request did not arrive as a whole in time.";
        Self::error(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
    }

    /// The body is larger than it may be (`--max-body-bytes`).
    #[must_use]
    pub fn too_large() -> Self {
        let message = "The request's body is larger than this server takes.";
        Self::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    /// The workspace's answer broke off, or made no sense.
    #[must_use]
    pub fn bad_gateway(html: Html) -> Self {
        let message = "The workspace did not give a proper answer.";
        if html.is_page() {
            let advice = match html {
                Html::Form => {
                    "<p>Nobody can tell whether it took what you sent: go back, and look before you send it again.</p>"
                }
                Html::No | Html::Page => "",
            };
            let inner = format!("<h1>No proper answer</h1><p>{message}</p>{advice}");
            Self::page(StatusCode::BAD_GATEWAY, "Bad gateway", "", &inner)
        } else {
            Self::error(StatusCode::BAD_GATEWAY, "bad_gateway", message)
        }
    }

    /// The head as Pingora sends it. Nothing that the proxy says may be stored.
    ///
    /// # Errors
    /// A header value that cannot be one.
    pub fn head(&self) -> pingora::Result<Box<ResponseHeader>> {
        let mut head = self.endless_head()?;
        head.insert_header(CONTENT_LENGTH, self.body.len().to_string())?;
        Ok(head)
    }

    /// The head of an answer whose body is written as it comes.
    ///
    /// # Errors
    /// A header value that cannot be one.
    pub fn endless_head(&self) -> pingora::Result<Box<ResponseHeader>> {
        let room = self.headers.len() + ALWAYS.len() + 2;
        let mut head = ResponseHeader::build(self.status, Some(room))?;
        for (name, value) in ALWAYS {
            if !self.headers.iter().any(|(own, _)| *own == name) {
                head.insert_header(name, value)?;
            }
        }
        for (name, value) in &self.headers {
            head.append_header(*name, value.as_str())?;
        }
        Ok(Box::new(head))
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_frames_a_page_but_a_waiting_one_its_own_workspace() {
        let policies = |reply: &Reply| {
            let head = reply.head().unwrap();
            let one = |name: &str| {
                let all: Vec<_> = head.headers.get_all(name).iter().collect();
                assert!(all.len() <= 1, "{name}");
                all.first().map(|value| value.to_str().unwrap().to_owned())
            };
            assert_eq!(one("x-content-type-options").unwrap(), "nosniff");
            assert_eq!(one("referrer-policy").unwrap(), "no-referrer");
            assert!(one("permissions-policy").unwrap().contains("camera=()"));
            let policy = one("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
            let ancestors = policy.rsplit("frame-ancestors ").next().unwrap().to_owned();
            let opener = one("cross-origin-opener-policy");
            (ancestors, one("x-frame-options").unwrap(), opener)
        };
        let text = |text: &str| text.to_owned();
        let none = (text("'none'"), text("DENY"), Some(text("same-origin")));
        for reply in [
            Reply::not_found(Html::Page, "http://localhost/"),
            Reply::unavailable(Html::Page, "x"),
            Reply::bad_gateway(Html::Page),
        ] {
            assert_eq!(policies(&reply), none);
        }
        let own = (text("'self'"), text("SAMEORIGIN"), None);
        let told = Told {
            word: "starting",
            message: "x".to_owned(),
            waits_for: None,
            last_error: None,
        };
        let waiting = Reply::waiting("dev", "/.nogoo9/status", &told);
        assert_eq!(policies(&waiting), own);
    }

    #[test]
    fn every_reply_forbids_storing() {
        for reply in [
            Reply::text(StatusCode::OK, "x"),
            Reply::redirect(StatusCode::FOUND, "/".to_owned()),
            Reply::not_found(Html::Page, "http://localhost:9009/"),
        ] {
            let head = reply.head().unwrap();
            assert_eq!(head.headers.get("cache-control").unwrap(), "no-store");
            assert_eq!(
                head.headers
                    .get("content-length")
                    .unwrap()
                    .to_str()
                    .unwrap(),
                reply.body.len().to_string()
            );
        }
    }
}
