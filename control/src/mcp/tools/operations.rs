//! Tools about operations: following them, and those on many workspaces.

use super::{Failure, Tools, caller};
use crate::service::{
    GetOperation, ListOperations, MAX_WAIT, Operation, OperationId, Operations, UpgradeAll,
    UpgradeAllWorkspaces, WaitForOperation,
};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};
use std::time::Duration;
use tokio::time::Instant;

/// How often progress is told while an operation is waited for, in seconds.
const PROGRESS_EVERY: u8 = 3;

#[tool_router(router = operations_router, vis = "pub(super)")]
impl Tools {
    /// Admins only: move everyone's outdated workspaces to the newest version of their templates,
    /// some at a time, with nobody noticing; where a volume lets only one pod run, requests wait while
    /// it is replaced. With dryRun it touches nothing and tells what would happen to each, and which
    /// data would be lost: do that first. With canary it tries some, then waits for resume_operation;
    /// with failureBudget it stops by itself. Returns at once with the operation; follow it with
    /// wait_for_operation, page through the results with get_operation. Workspaces that are stopped,
    /// whose owner wants no upgrade yet, or that another operation upgrades already (underWay), are
    /// skipped; one that fails stays on its old version.
    #[tool(
        title = "Upgrade all workspaces",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn upgrade_all_workspaces(
        &self,
        Parameters(args): Parameters<UpgradeAllWorkspaces>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<UpgradeAll>, Failure> {
        let caller = caller(&context)?;
        let answer = self.service.upgrade_all_workspaces(&caller, &args).await?;
        Ok(Json(answer))
    }

    /// Look at an operation: how far it is and what became of each workspace, a page at a time
    /// (offset, limit; counts tells of all). Reading one that failed is no error: see its state.
    #[tool(
        title = "Get operation",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_operation(
        &self,
        Parameters(args): Parameters<GetOperation>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.get_operation(&caller, &args).await?))
    }

    /// Wait, 25 seconds at most, until an operation ends or moves on, and return how far it is. Call
    /// it again, with the revision it returned, until done is true. One on many workspaces is waited
    /// for until it ends, is paused or waits for approval, or the time is up; its counts tell how far
    /// it is, and its next what to do.
    #[tool(
        title = "Wait for operation",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn wait_for_operation(
        &self,
        Parameters(args): Parameters<WaitForOperation>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        match context.meta.get_progress_token() {
            None => {
                let caller = caller(&context)?;
                Ok(Json(self.service.wait_for_operation(&caller, &args).await?))
            }
            Some(token) => self.wait_and_tell(args, token, &context).await,
        }
    }

    /// Pause an operation on many workspaces: no more are taken up until resume_operation; those under
    /// way are finished. It stays paused whatever restarts.
    #[tool(
        title = "Pause operation",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn pause_operation(
        &self,
        Parameters(args): Parameters<OperationId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        let caller = caller(&context)?;
        let id = &args.operation_id;
        Ok(Json(self.service.pause_operation(&caller, id).await?))
    }

    /// Let an operation on many workspaces go on: one that was paused, or one whose canary has been
    /// tried and that waits for approval. Look at the canary's results first (get_operation): this
    /// lets all the others follow.
    #[tool(
        title = "Resume operation",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn resume_operation(
        &self,
        Parameters(args): Parameters<OperationId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        let caller = caller(&context)?;
        let id = &args.operation_id;
        Ok(Json(self.service.resume_operation(&caller, id).await?))
    }

    /// Try again what failed in an operation, to the newest version of the templates, as a new
    /// operation over those workspaces alone. Mend what made them fail first: see their errors in
    /// get_operation. Returns at once; follow it with wait_for_operation.
    #[tool(
        title = "Retry operation",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn retry_operation(
        &self,
        Parameters(args): Parameters<OperationId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<UpgradeAll>, Failure> {
        let caller = caller(&context)?;
        let id = &args.operation_id;
        Ok(Json(self.service.retry_operation(&caller, id).await?))
    }

    /// Cancel an operation. On many workspaces: those whose turn has not come are cancelled, those
    /// under way are finished. On one: the new pod is taken back and the workspace stays on its
    /// version, as long as the old pod is there; after that, use rollback_workspace. Follow it with
    /// wait_for_operation.
    #[tool(
        title = "Cancel operation",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn cancel_operation(
        &self,
        Parameters(args): Parameters<OperationId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        let caller = caller(&context)?;
        let id = &args.operation_id;
        Ok(Json(self.service.cancel_operation(&caller, id).await?))
    }

    /// List the newest operations on one's own workspaces; admins see everyone's, and those on many
    /// workspaces. With workspaceId: what was done to that one, also as one of many.
    #[tool(
        title = "List operations",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn list_operations(
        &self,
        Parameters(args): Parameters<ListOperations>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Operations>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.list_operations(&caller, &args).await?))
    }
}

impl Tools {
    /// The same wait in short steps, telling between them what goes on.
    async fn wait_and_tell(
        &self,
        mut args: WaitForOperation,
        token: ProgressToken,
        context: &RequestContext<RoleServer>,
    ) -> Result<Json<Operation>, Failure> {
        let caller = caller(context)?;
        let first = GetOperation::first(args.operation_id.clone());
        let first = self.service.get_operation(&caller, &first).await?;
        // Who waits on although a person is asked for gets what they ask for.
        let knew = asks(&first);
        if args.since_revision.is_none() {
            args.since_revision = Some(first.revision);
        }
        let end = Instant::now() + Duration::from_secs(args.seconds.min(MAX_WAIT).into());
        let mut step: u32 = 0;
        loop {
            let left = end
                .saturating_duration_since(Instant::now())
                .as_secs_f64()
                .ceil();
            // At most MAX_WAIT, so it fits.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let left = left as u8;
            let wait = WaitForOperation {
                seconds: left.min(PROGRESS_EVERY),
                ..args.clone()
            };
            let answer = self.service.wait_for_operation(&caller, &wait).await?;
            let moved = answer.counts.is_none()
                && args
                    .since_revision
                    .as_ref()
                    .is_some_and(|since| *since != answer.revision);
            let progress = progress(&answer, step, token.clone());
            // A client that went away is no reason to fail; the next step ends with its request.
            let _gone = context.peer.notify_progress(progress).await;
            let moved = moved || (asks(&answer) && !knew);
            if answer.done || moved || left <= PROGRESS_EVERY || context.ct.is_cancelled() {
                return Ok(Json(answer));
            }
            step = step.saturating_add(1);
        }
    }
}

/// Whether the operation does not go on before somebody says so.
fn asks(operation: &Operation) -> bool {
    operation.paused || operation.waiting.is_some()
}

/// How far the operation is. Clients demand that progress grows with every notification, and
/// workspaces take their time: between two of them it creeps towards the next.
fn progress(answer: &Operation, step: u32, token: ProgressToken) -> ProgressNotificationParam {
    let progress = match answer.counts {
        None => ProgressNotificationParam::new(token, step.into()),
        Some(counts) if answer.done => ProgressNotificationParam::new(token, counts.total.into())
            .with_total(counts.total.into()),
        Some(counts) => {
            let creep = 1.0 - 1.0 / (f64::from(step) + 2.0);
            ProgressNotificationParam::new(token, f64::from(counts.done()) + creep)
                .with_total(counts.total.into())
        }
    };
    progress.with_message(answer.message.clone())
}
