//! Buttons: each a form that posts here, with the same-origin rule of cookies in front of it.

use super::super::App;
use super::super::reply;
use super::{Id, done, failed, layout, page, signed_in};
use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode};
use maud::html;

pub(super) async fn act(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    Path((id, action)): Path<(String, String)>,
) -> Response {
    let caller = match signed_in(&app, &method, &headers).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    let result = match action.as_str() {
        "start" => app.service.start_workspace(&caller, &id).await.map(drop),
        "stop" => app.service.stop_workspace(&caller, &id).await.map(drop),
        "upgrade" => app.service.upgrade_workspace(&caller, &id).await.map(drop),
        _ => return reply::not_found(),
    };
    match result {
        Ok(()) => done(),
        Err(error) => failed(&caller, &error),
    }
}

pub(super) async fn delete(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    Path(id): Id,
) -> Response {
    let caller = match signed_in(&app, &method, &headers).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    match app.service.delete_workspace(&caller, &id).await {
        Ok(_) => done(),
        Err(error) => failed(&caller, &error),
    }
}

/// Asks before anything is lost.
pub(super) async fn confirm_delete(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    Path(id): Id,
) -> Response {
    let caller = match signed_in(&app, &method, &headers).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    let workspace = match app.service.get_workspace(&caller, &id).await {
        Ok(workspace) => workspace,
        Err(error) => return failed(&caller, &error),
    };
    let body = html! {
        section.card {
            p { "Everything in " strong { (workspace.name) } " is lost: what runs in it and what is stored in it." }
            div.buttons {
                form method="post" action=(format!("/ui/workspaces/{}/delete", workspace.id)) {
                    button.danger type="submit" { "Delete " (workspace.name) }
                }
                a.button href="/" { "Keep it" }
            }
        }
    };
    page(
        StatusCode::OK,
        layout::signed_in(&caller, &format!("Delete {}?", workspace.name), &body),
    )
}
