//! Tools that tell why a workspace does what it does.

use super::{Failure, Tools, caller};
use crate::service::{GetWorkspaceEvents, GetWorkspaceLogs, WorkspaceEvents, WorkspaceLogs};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};

#[tool_router(router = look_router, vis = "pub(super)")]
impl Tools {
    /// What happened to a workspace, newest first: what the cluster and nogoo9 did to its pods, what
    /// went wrong with them, and its upgrades.
    #[tool(
        title = "Get workspace events",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_workspace_events(
        &self,
        Parameters(args): Parameters<GetWorkspaceEvents>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<WorkspaceEvents>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(
            self.service.get_workspace_events(&caller, &args).await?,
        ))
    }

    /// The last lines that a container of a workspace wrote; with previous, those before it was
    /// restarted, which tell why.
    #[tool(
        title = "Get workspace logs",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_workspace_logs(
        &self,
        Parameters(args): Parameters<GetWorkspaceLogs>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<WorkspaceLogs>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.get_workspace_logs(&caller, &args).await?))
    }
}
