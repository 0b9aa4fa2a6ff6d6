//! The list of workspaces.

use crate::service::{Outdated, Status, Workspace, Workspaces};
use maud::{Markup, html};
use nogoo9_model::access::{Action, Caller, Target, Visibility, may};

pub(super) fn list(caller: &Caller, workspaces: &Workspaces) -> Markup {
    if workspaces.workspaces.is_empty() {
        return html! { p.empty { "There is no workspace yet." } };
    }
    html! {
        ul.workspaces {
            @for workspace in &workspaces.workspaces { (row(caller, workspace)) }
        }
    }
}

fn row(caller: &Caller, workspace: &Workspace) -> Markup {
    let own = Target::Workspace {
        owner: &workspace.owner,
        visibility: &Visibility::Private,
    };
    let opens = matches!(
        workspace.status,
        Status::Running | Status::Upgrading | Status::Starting
    );
    let link = workspace
        .url
        .as_ref()
        .or(workspace.path_url.as_ref())
        .filter(|_| opens && caller.is(&workspace.owner));
    html! {
        li.card data-workspace=(workspace.id) data-status=(word(workspace.status)) {
            div.head {
                h2 {
                    @match link {
                        Some(url) => a href=(url) data-key=(format!("open-{}", workspace.id)) { (workspace.name) },
                        None => (workspace.name),
                    }
                }
                span class=(format!("badge {}", word(workspace.status))) { (word(workspace.status)) }
                @if workspace.outdated == Outdated::Yes { span.badge.outdated { "outdated" } }
            }
            // The badge says one word already.
            @if !workspace.message.eq_ignore_ascii_case(word(workspace.status)) {
                p.message { (workspace.message) }
            }
            @if let Some(error) = &workspace.last_upgrade_error {
                p.error role="alert" { "The last upgrade failed: " (error) }
            }
            dl {
                dt { "Id" } dd { (workspace.id) }
                @if !caller.is(&workspace.owner) { dt { "Owner" } dd { (workspace.owner) } }
                dt { "Template" } dd { (workspace.template) }
                dt { "Version" }
                dd {
                    code { (workspace.version) }
                    @match (&workspace.latest_version, workspace.outdated) {
                        (Some(latest), Outdated::Yes) => { " → " code { (latest) } },
                        (_, Outdated::Unknown) => " (the template cannot be read)",
                        _ => "",
                    }
                }
                @if let Some(pod) = &workspace.pod_name { dt { "Pod" } dd { code { (pod) } } }
            }
            @if may(caller, Action::Manage, own).is_ok() { (buttons(workspace)) }
        }
    }
}

fn buttons(workspace: &Workspace) -> Markup {
    let id = &workspace.id;
    let button = |action: &str, label: &str, primary: bool| {
        html! {
            form method="post" action=(format!("/ui/workspaces/{id}/{action}")) {
                button class=[primary.then_some("primary")] type="submit" data-key=(format!("{action}-{id}"))
                    aria-label=(format!("{label} {}", workspace.name)) { (label) }
            }
        }
    };
    let running = matches!(
        workspace.status,
        Status::Running | Status::Starting | Status::Failing | Status::Upgrading
    );
    html! {
        div.buttons {
            @if workspace.outdated == Outdated::Yes && workspace.operation_id.is_none() && running {
                (button("upgrade", "Upgrade", true))
            }
            @if workspace.status == Status::Stopped { (button("start", "Start", true)) }
            @if running { (button("stop", "Stop", false)) }
            @if workspace.status != Status::Deleting {
                a.button.danger href=(format!("/ui/workspaces/{id}/delete")) data-key=(format!("delete-{id}"))
                    aria-label=(format!("Delete {}", workspace.name)) { "Delete" }
            }
        }
    }
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Starting => "starting",
        Status::Upgrading => "upgrading",
        Status::Stopping => "stopping",
        Status::Stopped => "stopped",
        Status::Deleting => "deleting",
        Status::Failing => "failing",
    }
}
