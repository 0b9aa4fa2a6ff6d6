//! The page at `/`, rendered here, until the console comes: the caller's workspaces, what they are
//! doing, and what can be done with them. It works without JavaScript; the script only refreshes.

mod actions;
mod layout;
mod list;
mod new;

use super::App;
use super::auth::Proof;
use super::reply::no_store;
use crate::service::ListWorkspaces;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use nogoo9_model::access::Caller;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/refresh.js");

pub(super) fn router(app: App) -> Router {
    let policy = policy(&app);
    let layer = axum::middleware::from_fn(move |request, next: axum::middleware::Next| {
        let policy = policy.clone();
        async move { guard(next.run(request).await, policy) }
    });
    Router::new()
        .route("/", get(index))
        .route("/ui/list", get(fragment))
        .route("/ui/new", get(new::form).post(new::spawn))
        .route(
            "/ui/workspaces/{id}/delete",
            get(actions::confirm_delete).post(actions::delete),
        )
        .route("/ui/workspaces/{id}/{action}", post(actions::act))
        .route(
            "/ui/style.css",
            get(|| asset("text/css; charset=utf-8", STYLE)),
        )
        .route(
            "/ui/refresh.js",
            get(|| asset("text/javascript; charset=utf-8", SCRIPT)),
        )
        .layer(layer)
        .with_state(app)
}

/// Nothing from elsewhere, nothing inline, in nobody's frame. Forms may end at the issuer, since
/// signing out leads there.
fn policy(app: &App) -> Option<HeaderValue> {
    let issuer = app.issuer.origin().ascii_serialization();
    HeaderValue::from_str(&format!(
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
         form-action 'self' {issuer}; frame-ancestors 'none'; base-uri 'none'"
    ))
    .ok()
}

fn guard(mut response: Response, policy: Option<HeaderValue>) -> Response {
    let headers = response.headers_mut();
    if let Some(policy) = policy {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    );
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    );
    response
}

async fn asset(kind: &'static str, body: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "max-age=300"),
    ];
    (headers, body).into_response()
}

/// A page that no cache keeps.
fn page(status: StatusCode, body: Markup) -> Response {
    no_store((status, body).into_response())
}

/// The caller, or the way to become one.
async fn signed_in(app: &App, method: &Method, headers: &HeaderMap) -> Result<Caller, Response> {
    match app.auth.prove(method, headers).await {
        Proof::Caller(caller, _) => Ok(caller),
        // A form that was sent without a session that counts: whoever sent it signs in first, and
        // then presses the button again.
        Proof::Nothing | Proof::Refused(_) => Err(no_store(
            Redirect::to("/auth/login?return=/").into_response(),
        )),
    }
}

async fn index(State(app): State<App>, method: Method, headers: HeaderMap) -> Response {
    let Proof::Caller(caller, _) = app.auth.prove(&method, &headers).await else {
        return page(StatusCode::OK, layout::signed_out());
    };
    let workspaces = app
        .service
        .list_workspaces(&caller, &ListWorkspaces::default())
        .await;
    let templates = app.service.list_templates(&caller).await;
    let can_spawn = app.service.get_capabilities(&caller).can_spawn;
    match (workspaces, templates) {
        (Ok(workspaces), Ok(templates)) => page(
            StatusCode::OK,
            layout::signed_in(
                &caller,
                "Workspaces",
                &html! {
                    div #list data-refresh="/ui/list" { (list::list(&caller, &workspaces)) }
                    @if can_spawn { (new::choose(&templates)) }
                },
            ),
        ),
        (Err(error), _) | (_, Err(error)) => failed(&caller, &error),
    }
}

/// The list alone, for the script that refreshes it.
async fn fragment(State(app): State<App>, method: Method, headers: HeaderMap) -> Response {
    let Proof::Caller(caller, _) = app.auth.prove(&method, &headers).await else {
        return no_store(StatusCode::UNAUTHORIZED.into_response());
    };
    match app
        .service
        .list_workspaces(&caller, &ListWorkspaces::default())
        .await
    {
        Ok(workspaces) => page(StatusCode::OK, list::list(&caller, &workspaces)),
        Err(error) => no_store(error.code().status().into_response()),
    }
}

/// A page that says what went wrong and leads back.
fn failed(caller: &Caller, error: &crate::service::ServiceError) -> Response {
    let body = html! {
        section.card {
            h2 { "That did not work" }
            p role="alert" { (error) }
            p { a.button href="/" { "Back to the workspaces" } }
        }
    };
    page(
        error.code().status(),
        layout::signed_in(caller, "That did not work", &body),
    )
}

/// Back to the list, once something was done.
fn done() -> Response {
    no_store(Redirect::to("/").into_response())
}

/// A path parameter, as it was.
type Id = Path<String>;
