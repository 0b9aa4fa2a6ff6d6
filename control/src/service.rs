//! Every command and query of nogoo9, once. JSON API, MCP and the page are thin adapters over it.
//!
//! Each takes the [`Caller`] as an argument and asks [`nogoo9_model::access::may`] first. Commands
//! change the workspace's record, by compare-and-swap, and wake the engine; they touch no pod. What
//! is another's and what is not there give the same answer, field by field.

mod absent;
mod authoring;
mod bulk;
mod error;
mod even;
mod feed;
mod history;
mod ids;
mod lifecycle;
mod limit;
mod links;
mod logs;
mod metrics;
mod operations;
mod rollback;
mod sessions;
mod templates;
mod tokens;
mod trail;
mod types;
mod upgrades;
mod view;
mod volumes;
mod workspaces;

pub use absent::Origin;
pub use error::{ErrorBody, ErrorCode, ServiceError};
pub use feed::{Event, Feed, Subscription};
pub use links::Links;
pub use metrics::Metrics;
pub use types::*;
pub(crate) use upgrades::{Ask, Attempt};

use crate::cluster::{Caches, Cluster, Stored};
use crate::personal::Credential;
use crate::template::source::Source;
use crate::upgrade::{Engine, Proxies};
use nogoo9_model::UnixSeconds;
use nogoo9_model::absent::Absent;
use nogoo9_model::access::{Action, Authors, Caller, Denied, Target, Visibility, may};
use nogoo9_model::limit::PerUser;
use nogoo9_model::record::Record;
use nogoo9_runtime::audit::What;
use std::sync::Arc;

/// What the service works with.
pub struct Parts {
    /// The cluster, for live reads and conditional writes.
    pub cluster: Cluster,
    /// What the watches know.
    pub caches: Arc<Caches>,
    /// To be woken after a command.
    pub engine: Engine,
    /// The proxies, asked why an old pod is still there.
    pub proxies: Proxies,
    /// Templates.
    pub templates: Source,
    /// Addresses of workspaces.
    pub links: Links,
    /// Counts.
    pub metrics: Metrics,
    /// Who looks on.
    pub feed: Feed,
}

/// Commands and queries. Clones share everything.
#[derive(Clone)]
pub struct Service(Arc<Parts>, Option<PerUser>, Arc<Authors>);

type Answer<T> = Result<T, ServiceError>;

impl Service {
    /// A service over these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts), None, Arc::default())
    }

    /// The same service, which lets no user spawn more workspaces than that.
    #[must_use]
    pub fn with_max_workspaces(self, limit: Option<PerUser>) -> Self {
        Self(self.0, limit, self.2)
    }

    /// The same service, which lets these write templates beside admins.
    #[must_use]
    pub fn with_template_authors(self, authors: Authors) -> Self {
        Self(self.0, self.1, Arc::new(authors))
    }

    /// Workspaces that the caller may see.
    ///
    /// # Errors
    /// The token lacks the scope.
    pub async fn list_workspaces(
        &self,
        caller: &Caller,
        args: &ListWorkspaces,
    ) -> Answer<Workspaces> {
        self.count("list_workspaces", workspaces::list(&self.0, caller, args))
    }

    /// One workspace.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        self.count("get_workspace", workspaces::get(&self.0, caller, id).await)
    }

    /// What happened to a workspace, newest first.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_workspace_events(
        &self,
        caller: &Caller,
        args: &GetWorkspaceEvents,
    ) -> Answer<WorkspaceEvents> {
        self.count(
            "get_workspace_events",
            history::events(&self.0, caller, args).await,
        )
    }

    /// The end of what a container of a workspace has written.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_workspace_logs(
        &self,
        caller: &Caller,
        args: &GetWorkspaceLogs,
    ) -> Answer<WorkspaceLogs> {
        self.count(
            "get_workspace_logs",
            logs::logs(&self.0, caller, args).await,
        )
    }

    /// Looks on in the caller's name, until `end` at the latest.
    ///
    /// # Errors
    /// The token lacks the scope, or too many look on already.
    pub async fn subscribe(&self, caller: &Caller, end: UnixSeconds) -> Answer<Subscription> {
        self.count("subscribe", feed::subscribe(&self.0, caller, end).await)
    }

    /// Makes a workspace.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn spawn_workspace(
        &self,
        caller: &Caller,
        args: SpawnWorkspace,
    ) -> Answer<Workspace> {
        let (what, object) = (What::WorkspaceSpawn, args.id.clone());
        let command = self.command(what, "spawn_workspace", caller, object.as_deref());
        let spawned = lifecycle::spawn(&self.0, self.1, caller, args).await;
        command.done_to(spawned, |workspace| Some(workspace.id.clone()))
    }

    /// Starts a stopped workspace; one that runs stays as it is.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn start_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStart, "start_workspace", caller, Some(id));
            command.done(Box::pin(lifecycle::start(&self.0, self.1, caller, id)).await)
        })
        .await
    }

    /// What a workspace without pods is doing, for whoever may open its pages at `origin`.
    ///
    /// # Errors
    /// [`ServiceError`]; the same where it is not theirs and where it is not there.
    pub async fn look_at_absent(
        &self,
        caller: &Caller,
        id: &str,
        origin: Origin,
    ) -> Answer<Absent> {
        let told = absent::look(&self.0, caller, id, origin).await;
        self.count("look_at_absent", told)
    }

    /// Starts a workspace for whoever may open its pages at `origin`, and start it.
    ///
    /// # Errors
    /// As [`Self::look_at_absent`], and [`Self::start_workspace`].
    pub async fn start_absent(&self, caller: &Caller, id: &str, origin: Origin) -> Answer<Absent> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStart, "start_absent", caller, Some(id));
            command.done(absent::start(&self.0, self.1, caller, id, origin).await)
        })
        .await
    }

    /// Addresses of workspaces.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.0.links
    }

    /// Stops a workspace; its record stays.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn stop_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStop, "stop_workspace", caller, Some(id));
            command.done(lifecycle::stop(&self.0, caller, id).await)
        })
        .await
    }

    /// Deletes a workspace, and its volumes if that is asked for.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn delete_workspace(
        &self,
        caller: &Caller,
        args: &DeleteWorkspace,
    ) -> Answer<Deletion> {
        let what = match (args.release, args.delete_data) {
            (true, _) => What::WorkspaceRelease,
            (false, true) => What::WorkspaceDeleteData,
            (false, false) => What::WorkspaceDelete,
        };
        even::evenly(async {
            let command = self.command(what, "delete_workspace", caller, Some(&args.id));
            command.done(lifecycle::delete(&self.0, caller, args).await)
        })
        .await
    }

    /// Begins an upgrade, durably, and returns; or returns the one that is under way.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn upgrade_workspace(&self, caller: &Caller, id: &str) -> Answer<Upgrade> {
        let command = self.command(
            What::WorkspaceUpgrade,
            "upgrade_workspace",
            caller,
            Some(id),
        );
        command.done(upgrades::upgrade(&self.0, caller, id).await)
    }

    /// Begins a rollback to what the workspace was before its newest upgrade, durably, and returns; or
    /// returns the one that is under way.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn rollback_workspace(&self, caller: &Caller, id: &str) -> Answer<Upgrade> {
        let what = What::WorkspaceRollback;
        let command = self.command(what, "rollback_workspace", caller, Some(id));
        command.done(rollback::rollback(&self.0, caller, id).await)
    }

    /// Sets the time before which nobody but its owner upgrades the workspace; `None` lifts it.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn keep_until(
        &self,
        caller: &Caller,
        id: &str,
        args: &KeepUntil,
    ) -> Answer<Workspace> {
        let command = self.command(What::WorkspaceKeep, "keep_until", caller, Some(id));
        command.done(lifecycle::keep_until(&self.0, caller, id, args).await)
    }

    /// Begins an upgrade of all outdated workspaces, durably, and returns; or tells what it would do.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn upgrade_all_workspaces(
        &self,
        caller: &Caller,
        args: &UpgradeAllWorkspaces,
    ) -> Answer<UpgradeAll> {
        if args.dry_run {
            let tried = bulk::upgrade_all(&self.0, caller, args).await;
            return self.count("upgrade_all_workspaces", tried);
        }
        let command = self.command(What::UpgradeAll, "upgrade_all_workspaces", caller, None);
        let begun = bulk::upgrade_all(&self.0, caller, args).await;
        command.done_to(begun, |begun| begun.operation_id.clone())
    }

    /// One operation, with a page of its workspaces.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_operation(&self, caller: &Caller, args: &GetOperation) -> Answer<Operation> {
        self.count(
            "get_operation",
            operations::get(&self.0, caller, args).await,
        )
    }

    /// Takes up no further workspaces of a bulk until it is resumed; what is under way ends by itself.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn pause_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationPause, "pause_operation", caller, Some(id));
        command.done(operations::pause(&self.0, caller, id).await)
    }

    /// Goes on with a bulk that was paused, or whose canary waits for approval.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn resume_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationResume, "resume_operation", caller, Some(id));
        command.done(operations::resume(&self.0, caller, id).await)
    }

    /// Tries again what failed of an operation, as a new one.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn retry_operation(&self, caller: &Caller, id: &str) -> Answer<UpgradeAll> {
        let command = self.command(What::OperationRetry, "retry_operation", caller, Some(id));
        let begun = bulk::retry(&self.0, caller, id).await;
        command.done_to(begun, |begun| begun.operation_id.clone())
    }

    /// Ends a bulk: what has not begun is cancelled, what is under way ends by itself. Takes the
    /// upgrade of one workspace back.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn cancel_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationCancel, "cancel_operation", caller, Some(id));
        command.done(operations::cancel(&self.0, caller, id).await)
    }

    /// One operation, once it ended or moved on, or after the given time.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn wait_for_operation(
        &self,
        caller: &Caller,
        args: &WaitForOperation,
    ) -> Answer<Operation> {
        self.count(
            "wait_for_operation",
            operations::wait(&self.0, caller, args).await,
        )
    }

    /// The newest operations that the caller may see, of those that are asked for.
    ///
    /// # Errors
    /// The token lacks the scope, or no workspace could have that id.
    pub async fn list_operations(
        &self,
        caller: &Caller,
        args: &ListOperations,
    ) -> Answer<Operations> {
        self.count("list_operations", operations::list(&self.0, caller, args))
    }

    /// Templates that the caller may use.
    ///
    /// # Errors
    /// The token lacks the scope.
    pub async fn list_templates(&self, caller: &Caller) -> Answer<Templates> {
        self.count("list_templates", templates::list(&self.0, caller))
    }

    /// One template, with its spec.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_template(&self, caller: &Caller, name: &str) -> Answer<Template> {
        self.count("get_template", templates::get(&self.0, caller, name).await)
    }

    /// Makes a template.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was changed.
    pub async fn create_template(
        &self,
        caller: &Caller,
        args: &CreateTemplate,
    ) -> Answer<Template> {
        let (what, object) = (What::TemplateCreate, Some(&args.name));
        let command = self.command(what, "create_template", caller, object.map(String::as_str));
        command.done(authoring::create(&self.0, &self.2, caller, args).await)
    }

    /// Changes a template; its workspaces are outdated then, and stay as they are.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was changed.
    pub async fn update_template(
        &self,
        caller: &Caller,
        args: &UpdateTemplate,
    ) -> Answer<Template> {
        let (what, object) = (What::TemplateUpdate, Some(&args.name));
        let command = self.command(what, "update_template", caller, object.map(String::as_str));
        command.done(authoring::update(&self.0, &self.2, caller, args).await)
    }

    /// Deletes a template that no workspace was made from.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was changed.
    pub async fn delete_template(&self, caller: &Caller, name: &str) -> Answer<DeletedTemplate> {
        let command = self.command(What::TemplateDelete, "delete_template", caller, Some(name));
        command.done(authoring::delete(&self.0, &self.2, caller, name).await)
    }

    /// The caller's browser sessions; `current` is the `sid` of the one that asks.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn list_sessions(&self, caller: &Caller, current: Option<&str>) -> Answer<Sessions> {
        self.count(
            "list_sessions",
            sessions::list(&self.0, caller, current).await,
        )
    }

    /// Ends one of the caller's browser sessions.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn end_session(
        &self,
        caller: &Caller,
        by: Credential,
        id: &str,
    ) -> Answer<EndedSessions> {
        let command = self.command(What::SessionEnd, "end_session", caller, Some(id));
        command.done(sessions::end_one(&self.0, caller, by, id).await)
    }

    /// Ends all of the caller's browser sessions but the one that asks.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn end_other_sessions(
        &self,
        caller: &Caller,
        by: Credential,
        current: Option<&str>,
    ) -> Answer<EndedSessions> {
        let all = Some("all-others");
        let command = self.command(What::SessionEnd, "end_other_sessions", caller, all);
        command.done(sessions::end_others(&self.0, caller, by, current).await)
    }

    /// Makes a personal access token for the caller, who is known by `by`.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn create_token(
        &self,
        caller: &Caller,
        by: Credential,
        args: &CreateToken,
    ) -> Answer<CreatedToken> {
        let command = self.command(What::TokenCreate, "create_token", caller, None);
        let created = tokens::create(&self.0, caller, by, args).await;
        command.done_to(created, |created| Some(created.kept.id.clone()))
    }

    /// The caller's own personal access tokens, without the tokens themselves.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn list_tokens(
        &self,
        caller: &Caller,
        by: Credential,
    ) -> Answer<PersonalAccessTokens> {
        self.count("list_tokens", tokens::list(&self.0, caller, by).await)
    }

    /// Ends one of the caller's own personal access tokens.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn revoke_token(
        &self,
        caller: &Caller,
        by: Credential,
        id: &str,
    ) -> Answer<RevokedToken> {
        let command = self.command(What::TokenRevoke, "revoke_token", caller, Some(id));
        command.done(tokens::revoke(&self.0, caller, by, id).await)
    }

    /// Who is calling and what they may do.
    #[must_use]
    pub fn get_capabilities(&self, caller: &Caller) -> Capabilities {
        let own = Target::Workspace {
            owner: &caller.sub,
            visibility: &Visibility::Private,
        };
        let role = match caller.role {
            nogoo9_model::access::Role::Viewer => "viewer",
            nogoo9_model::access::Role::User => "user",
            nogoo9_model::access::Role::Admin => "admin",
        };
        Capabilities {
            sub: caller.sub.clone(),
            role: role.to_owned(),
            roles: caller.roles.clone(),
            is_admin: caller.is_admin(),
            can_spawn: may(caller, Action::Spawn, own).is_ok(),
            can_upgrade_all: may(caller, Action::UpgradeAll, Target::Nothing).is_ok(),
            can_write_templates: may(
                caller,
                Action::WriteTemplates,
                Target::Templates { authors: &self.2 },
            )
            .is_ok(),
            scopes: caller
                .scopes
                .as_ref()
                .map(|scopes| scopes.iter().cloned().collect()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// What it works with, for those who carry out what it has promised.
    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// Begins one upgrade of a bulk, exactly as that of one workspace begins.
    pub(crate) async fn begin_upgrade(
        &self,
        stored: &Stored<Record>,
        ask: &Ask<'_>,
    ) -> Answer<Attempt> {
        upgrades::attempt(&self.0, stored, ask).await
    }

    /// Counts a query. Commands go through [`Self::command`].
    fn count<T>(&self, command: &'static str, result: Answer<T>) -> Answer<T> {
        trail::refused_to_look(command, &result);
        self.0.metrics.count(command, result)
    }
}

/// Whether the caller may do this to the workspace. No record is refused in the same words as
/// another's.
fn allow<'a, R: std::borrow::Borrow<Record>>(
    caller: &Caller,
    action: Action,
    record: Option<&'a R>,
) -> Result<&'a R, Denied> {
    let Some(found) = record else {
        // Speaks of a missing scope exactly where it would for another's workspace.
        may(caller, action, Target::Nothing)?;
        return Err(Denied::AccessDenied);
    };
    let owner = &found.borrow().owner;
    may(
        caller,
        action,
        Target::Workspace {
            owner,
            visibility: &Visibility::Private,
        },
    )?;
    Ok(found)
}

/// Whether the caller may read anything at all.
fn allow_reading(caller: &Caller) -> Result<(), Denied> {
    let own = Target::Workspace {
        owner: &caller.sub,
        visibility: &Visibility::Private,
    };
    may(caller, Action::Read, own)
}
