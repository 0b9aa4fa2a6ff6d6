//! Commands: what changes something. Each leaves a record in the audit trail, refused ones too.

use super::types::*;
use super::{
    Answer, Page, Service, absent, authoring, bulk, even, lifecycle, operations, rollback,
    sessions, tokens, upgrades,
};
use crate::personal::Credential;
use nogoo9_model::absent::Absent;
use nogoo9_model::access::Caller;
use nogoo9_runtime::audit::What;

impl Service {
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
        let spawned = lifecycle::spawn(&self.parts, self.most, caller, args).await;
        command.done_to(spawned, |workspace| Some(workspace.id.clone()))
    }

    /// Starts a stopped workspace; one that runs stays as it is.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn start_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStart, "start_workspace", caller, Some(id));
            command.done(Box::pin(lifecycle::start(&self.parts, self.most, caller, id)).await)
        })
        .await
    }

    /// Starts a workspace for whoever may open `page`, and start it.
    ///
    /// # Errors
    /// As [`Self::look_at_absent`], and [`Self::start_workspace`].
    pub async fn start_absent(&self, caller: &Caller, id: &str, page: &Page) -> Answer<Absent> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStart, "start_absent", caller, Some(id));
            command.done(absent::start(&self.parts, self.most, caller, id, page).await)
        })
        .await
    }

    /// Stops a workspace; its record stays.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn stop_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        even::evenly(async {
            let command = self.command(What::WorkspaceStop, "stop_workspace", caller, Some(id));
            command.done(lifecycle::stop(&self.parts, caller, id).await)
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
            command.done(lifecycle::delete(&self.parts, caller, args).await)
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
        command.done(upgrades::upgrade(&self.parts, caller, id).await)
    }

    /// Begins a rollback to what the workspace was before its newest upgrade, durably, and returns; or
    /// returns the one that is under way.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn rollback_workspace(&self, caller: &Caller, id: &str) -> Answer<Upgrade> {
        let what = What::WorkspaceRollback;
        let command = self.command(what, "rollback_workspace", caller, Some(id));
        command.done(rollback::rollback(&self.parts, caller, id).await)
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
        command.done(lifecycle::keep_until(&self.parts, caller, id, args).await)
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
            let tried = bulk::upgrade_all(&self.parts, caller, args).await;
            return self.count("upgrade_all_workspaces", tried);
        }
        let command = self.command(What::UpgradeAll, "upgrade_all_workspaces", caller, None);
        let begun = bulk::upgrade_all(&self.parts, caller, args).await;
        command.done_to(begun, |begun| begun.operation_id.clone())
    }

    /// Takes up no further workspaces of a bulk until it is resumed; what is under way ends by itself.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn pause_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationPause, "pause_operation", caller, Some(id));
        command.done(operations::pause(&self.parts, caller, id).await)
    }

    /// Goes on with a bulk that was paused, or whose canary waits for approval.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn resume_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationResume, "resume_operation", caller, Some(id));
        command.done(operations::resume(&self.parts, caller, id).await)
    }

    /// Tries again what failed of an operation, as a new one.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was touched.
    pub async fn retry_operation(&self, caller: &Caller, id: &str) -> Answer<UpgradeAll> {
        let command = self.command(What::OperationRetry, "retry_operation", caller, Some(id));
        let begun = bulk::retry(&self.parts, caller, id).await;
        command.done_to(begun, |begun| begun.operation_id.clone())
    }

    /// Ends a bulk: what has not begun is cancelled, what is under way ends by itself. Takes the
    /// upgrade of one workspace back.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn cancel_operation(&self, caller: &Caller, id: &str) -> Answer<Operation> {
        let command = self.command(What::OperationCancel, "cancel_operation", caller, Some(id));
        command.done(operations::cancel(&self.parts, caller, id).await)
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
        command.done(authoring::create(&self.parts, &self.authors, caller, args).await)
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
        command.done(authoring::update(&self.parts, &self.authors, caller, args).await)
    }

    /// Deletes a template that no workspace was made from.
    ///
    /// # Errors
    /// [`ServiceError`]; then nothing was changed.
    pub async fn delete_template(&self, caller: &Caller, name: &str) -> Answer<DeletedTemplate> {
        let command = self.command(What::TemplateDelete, "delete_template", caller, Some(name));
        command.done(authoring::delete(&self.parts, &self.authors, caller, name).await)
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
        command.done(sessions::end_one(&self.parts, caller, by, id).await)
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
        command.done(sessions::end_others(&self.parts, caller, by, current).await)
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
        let created = tokens::create(&self.parts, caller, by, args).await;
        command.done_to(created, |created| Some(created.kept.id.clone()))
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
        command.done(tokens::revoke(&self.parts, caller, by, id).await)
    }
}
