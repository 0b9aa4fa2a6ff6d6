//! The pages people see.

use axum::{
    http::header,
    response::{Html, IntoResponse, Response},
};
use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, html};
use sha2::Digest as _;
use url::Url;

use super::{USERS, User, authorize::AuthorizeRequest, documents, scope};

const CSS: &str = include_str!("page.css");

/// Field of the form: the person wants nothing of it.
pub(super) const DENY: &str = "deny";

/// Field of the form: the person lets the application have that scope.
pub(super) fn allow(scope: &str) -> String {
    format!("allow:{scope}")
}

/// The sign-in page: one button a person; the hinted one has the focus. An application that no
/// operator named is shown as what it is, and that it wants to act at `audience`. Of nogoo9's scopes
/// each is the person's to give.
pub(super) fn sign_in(
    request: &AuthorizeRequest,
    audience: &str,
    sealed: &str,
    hint: Option<&User>,
) -> Response {
    let first = hint.unwrap_or(&USERS[0]);
    let back = Url::parse(&request.redirect_uri).ok();
    let scheme = back.as_ref().map_or("https", Url::scheme).to_owned();
    let back = back.map_or_else(String::new, |url| url.origin().ascii_serialization());
    let body = html! {
        h1 { "Who are you today?" }
        @if request.trusted {
            p { strong { (request.client_id) } " wants to know. You go on to " code { (back) } "." }
        } @else {
            p {
                strong { (request.name.as_deref().unwrap_or("An application without a name")) }
                " wants to act for you at " code { (audience) } ". You go on to "
                code { (back) } "."
            }
            @if documents::is_address(&request.client_id) {
                p { "So says the document at " code { (request.client_id) } "." }
            } @else {
                p { "Nobody vouches for that name. Its id is " code { (request.client_id) } "." }
            }
        }
        form method="post" action="/sign-in" {
            input type="hidden" name="request" value=(sealed);
            @for scope in scope::ours(&request.scope) {
                label.scope {
                    input type="checkbox" name=(allow(scope)) value="yes" checked;
                    span { (scope::about(scope)) " " code { (scope) } }
                }
            }
            ul.people {
                @for user in &USERS {
                    li {
                        button.(user.sub) name="user" value=(user.sub)
                            autofocus[user.sub == first.sub] {
                            span.face aria-hidden="true" { (user.name.get(..1).unwrap_or("?")) }
                            span.who { b { (user.name) } span { (user.about) } }
                            span.role { (user.roles.join(", ")) }
                        }
                    }
                }
            }
            @if !request.trusted {
                button.deny name=(DENY) value="yes" { "Let nobody in" }
            }
        }
        p.note {
            "For development only: there are no passwords. Anyone who can reach this page can \
             be anyone, which is why it listens on this machine alone."
        }
    };
    // After the form is sent, browsers hold every redirect to `form-action` too. Whoever opened a
    // workspace first is led on to its own host, which is not known here.
    reply("Sign in", &body, &format!("'self' {scheme}:"))
}

/// Something is wrong with the request, and there is nowhere safe to go.
pub(super) fn refusal(text: &str) -> Response {
    let body = html! { h1 { "That did not work" } p { (text) } };
    reply("That did not work", &body, "'none'")
}

/// After signing out.
pub(super) fn signed_out() -> Response {
    let body = html! { h1 { "You are signed out" } p { "You can close this page." } };
    reply("Signed out", &body, "'none'")
}

/// The front page.
pub(super) fn about(issuer: &str) -> Response {
    let body = html! {
        h1 { "Development identity provider" }
        p { "Issuer " code { (issuer) } }
        p.note { "For development only: it asks for no passwords." }
    };
    reply("Development identity provider", &body, "'none'")
}

fn reply(title: &str, body: &Markup, form_action: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · nogoo9" }
                style { (maud::PreEscaped(CSS)) }
            }
            body { main { div.mark { "nogoo9" } (body) } }
        }
    };
    let style = BASE64.encode(&sha2::Sha256::digest(CSS.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action {form_action}; \
         frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        // Not `no-referrer`: browsers would then post the form with `Origin: null`.
        (header::REFERRER_POLICY, "same-origin".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    (headers, Html(page.into_string())).into_response()
}
