//! The tools.

mod look;
mod operations;
mod templates;

use super::failure::Failure;
use crate::audit::{Seen, within};
use crate::service::{
    Capabilities, DeleteWorkspace, Deletion, ListWorkspaces, Service, SpawnWorkspace, Upgrade,
    Workspace, WorkspaceId, Workspaces,
};
use http::request::Parts;
use nogoo9_model::access::Caller;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult,
    PaginatedRequestParams, ProtocolVersion, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use std::sync::Arc;

/// The tools of nogoo9.
#[derive(Clone)]
pub struct Tools {
    service: Service,
    tool_router: ToolRouter<Self>,
}

/// The caller whom the middleware verified. Without one nothing is done: a mistake in how the routes
/// are put together must not become an open door.
fn caller(context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
    context
        .extensions
        .get::<Parts>()
        .and_then(|parts| parts.extensions.get::<Caller>())
        .cloned()
        .ok_or_else(|| ErrorData::internal_error("the request was not authenticated", None))
}

#[tool_router]
impl Tools {
    /// Tools over this service.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self {
            service,
            tool_router: Self::tool_router()
                + Self::look_router()
                + Self::operations_router()
                + Self::templates_router(),
        }
    }

    /// All of them, as clients see them.
    pub(super) fn list(&self) -> Vec<rmcp::model::Tool> {
        self.tool_router.list_all()
    }

    /// List workspaces with their status, address and version, and whether their template has moved
    /// on. One's own; admins see everyone's unless mine is true.
    #[tool(
        title = "List workspaces",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn list_workspaces(
        &self,
        Parameters(args): Parameters<ListWorkspaces>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Workspaces>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.list_workspaces(&caller, &args).await?))
    }

    /// Look at one workspace: status in a sentence, address, version, the newest version of its
    /// template, and why its last upgrade failed.
    #[tool(
        title = "Get workspace",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_workspace(
        &self,
        Parameters(args): Parameters<WorkspaceId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Workspace>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.get_workspace(&caller, &args.id).await?))
    }

    /// Make a new workspace from a template. Returns at once; get_workspace tells when it runs.
    #[tool(
        title = "Spawn workspace",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn spawn_workspace(
        &self,
        Parameters(args): Parameters<SpawnWorkspace>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Workspace>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.spawn_workspace(&caller, args).await?))
    }

    /// Start a stopped workspace. Does nothing to one that runs.
    #[tool(
        title = "Start workspace",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn start_workspace(
        &self,
        Parameters(args): Parameters<WorkspaceId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Workspace>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.start_workspace(&caller, &args.id).await?))
    }

    /// Stop a workspace: what runs in it ends, its id and settings stay. start_workspace brings it
    /// back.
    #[tool(
        title = "Stop workspace",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn stop_workspace(
        &self,
        Parameters(args): Parameters<WorkspaceId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Workspace>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.stop_workspace(&caller, &args.id).await?))
    }

    /// Delete a workspace for good. Its volumes stay, and come back with a workspace of the same id
    /// and template, unless deleteData is true: then everything in them is gone. The id of one that an
    /// admin deletes stays its owner's, unless release is true.
    #[tool(
        title = "Delete workspace",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn delete_workspace(
        &self,
        Parameters(args): Parameters<DeleteWorkspace>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Deletion>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.delete_workspace(&caller, &args).await?))
    }

    /// Move a workspace to the newest version of its template without interrupting those who work in
    /// it. Returns at once with the operation and the name of the new pod; asked again meanwhile, it
    /// returns the same. Follow it with wait_for_operation.
    #[tool(
        title = "Upgrade workspace",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn upgrade_workspace(
        &self,
        Parameters(args): Parameters<WorkspaceId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Upgrade>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(
            self.service.upgrade_workspace(&caller, &args.id).await?,
        ))
    }

    /// Take a workspace back to what it was before its newest upgrade: template version, image, settings.
    /// Files stay as they are. Returns at once; follow it with wait_for_operation.
    #[tool(
        title = "Roll workspace back",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn rollback_workspace(
        &self,
        Parameters(args): Parameters<WorkspaceId>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Upgrade>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(
            self.service.rollback_workspace(&caller, &args.id).await?,
        ))
    }

    /// Tell who is calling and what they may do.
    #[tool(
        title = "Get capabilities",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_capabilities(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Capabilities>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.get_capabilities(&caller)))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Tools {
    /// In a task of its own, which the audit trail follows it into.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let seen = parts.and_then(|parts| parts.extensions.get::<Arc<Seen>>());
        let seen = seen.cloned().unwrap_or_default();
        let call = ToolCallContext::new(self, request, context);
        within(seen, self.tool_router.call(call)).await
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult::with_all_items(self.tool_router.list_all());
        // The newest protocol demands cache hints, and clients drop all tools without them; older
        // ones know no such fields. Private, since what is listed may come to depend on the caller.
        if context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
        {
            list = list.with_ttl_ms(0).with_cache_scope(CacheScope::Private);
        }
        Ok(list)
    }

    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("nogoo9", env!("CARGO_PKG_VERSION")).with_title("nogoo9 workspaces"))
            .with_instructions(
                "Workspaces are personal machines in the cloud, one pod each. Find them with list_workspaces; one whose \
                 `outdated` is true can be moved to the newest version of its template with upgrade_workspace, which \
                 returns at once and interrupts nobody: follow it with wait_for_operation until `done` is true. Admins move everyone's \
                 with upgrade_all_workspaces: ask with dryRun first, then with a canary and a failureBudget, and follow it in the \
                 same way; while it waits for approval, a person decides. Why one does not run is told by get_workspace_events and \
                 get_workspace_logs.",
            )
    }
}
