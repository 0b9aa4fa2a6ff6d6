//! The frame around every page.

use maud::{DOCTYPE, Markup, html};
use nogoo9_model::access::Caller;

fn document(title: &str, header: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · nogoo9" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/ui/style.css";
                script src="/ui/refresh.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { (header) }
                main #main { (body) }
            }
        }
    }
}

pub(super) fn signed_out() -> Markup {
    document(
        "Sign in",
        &html! { a.brand href="/" { "nogoo9" } },
        &html! {
            section.card.center {
                h1 { "Your workspaces, one click away" }
                p { "Sign in to open, start and upgrade them." }
                p { a.button.primary href="/auth/login?return=/" { "Sign in" } }
            }
        },
    )
}

pub(super) fn signed_in(caller: &Caller, title: &str, body: &Markup) -> Markup {
    document(
        title,
        &html! {
            a.brand href="/" { "nogoo9" }
            div.who {
                span { (caller.sub) @if caller.is_admin() { " " span.badge { "admin" } } }
                form method="post" action="/auth/logout" { button type="submit" { "Sign out" } }
            }
        },
        &html! { h1 { (title) } (body) },
    )
}
