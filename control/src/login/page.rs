//! Pages for when signing in does not work: what happened, and what to do; and one on the way out.

use super::reply;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{DOCTYPE, Markup, html};
use std::sync::LazyLock;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1c2024;--soft:#60646c;--card:#fff;--back:#f4f5f7;--line:#dcdfe4;--go:#1f5fd0}\
@media(prefers-color-scheme:dark){:root{--ink:#edeef0;--soft:#a0a5ad;--card:#1b1d21;--back:#111214;--line:#33363c;--go:#7aa5ff}}\
*{box-sizing:border-box}body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;\
background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
main{max-width:32rem;width:100%;background:var(--card);border:1px solid var(--line);border-radius:12px;padding:2rem}\
h1{font-size:1.25rem;margin:0 0 .75rem}p{margin:0 0 .75rem}.soft{color:var(--soft)}code{font-size:.9em;overflow-wrap:anywhere}\
a.go{display:inline-block;margin-top:.5rem;padding:.6rem 1rem;border-radius:8px;background:var(--go);color:var(--card);\
text-decoration:none;font-weight:600}a.go:focus-visible{outline:3px solid var(--ink);outline-offset:2px}";

static POLICY: LazyLock<String> = LazyLock::new(|| reply::policy(STYLE));

/// What a page says.
pub(super) struct Trouble<'a> {
    /// In a few words.
    pub(super) title: &'a str,
    /// What happened, in a sentence.
    pub(super) what: &'a str,
    /// What the reader can do.
    pub(super) todo: &'a str,
    /// What an administrator would want to know; shown small.
    pub(super) detail: Option<&'a str>,
    /// Where "try again" leads.
    pub(super) again: &'a str,
}

impl Trouble<'_> {
    /// The page as an answer.
    pub(super) fn answer(&self, status: StatusCode, cookies: &[String]) -> Response {
        reply::page(status, &self.markup(), &POLICY, cookies)
    }

    fn markup(&self) -> Markup {
        let inner = html! {
            p { (self.what) }
            p.soft { (self.todo) }
            @if let Some(detail) = self.detail {
                p.soft { "For your administrator: " code { (detail) } }
            }
            a.go href=(self.again) { "Try again" }
        };
        document(self.title, None, &inner)
    }
}

/// Leads on to another origin by itself. From a form a redirect may not: browsers hold it to what the
/// form's page allows forms, which for the console is its own origin and the issuer's.
pub(super) fn onward(to: &str, cookies: &[String]) -> Response {
    let inner = html! {
        p { "The identity provider is told next." }
        a.go href=(to) { "Go on" }
    };
    let page = document("You are signed out here", Some(to), &inner);
    reply::page(StatusCode::OK, &page, &POLICY, cookies)
}

fn document(title: &str, onward: Option<&str>, inner: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                @if let Some(to) = onward {
                    meta http-equiv="refresh" content={ "0; url=" (to) };
                }
                title { (title) " · nogoo9" }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (inner)
                }
            }
        }
    }
}
