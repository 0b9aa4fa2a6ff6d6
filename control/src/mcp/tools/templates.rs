//! Tools about templates: finding one to spawn from, and writing them.

use super::{Failure, Tools, caller};
use crate::service::{
    CreateTemplate, DeletedTemplate, Template, TemplateName, Templates, UpdateTemplate,
};
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, tool, tool_router};

#[tool_router(router = templates_router, vis = "pub(super)")]
impl Tools {
    /// List the templates that one may spawn from, with their parameters.
    #[tool(
        title = "List templates",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn list_templates(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Templates>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.list_templates(&caller).await?))
    }

    /// Look at one template: its version, its parameters, its settings and its pod spec.
    #[tool(
        title = "Get template",
        annotations(
            read_only_hint = true,
            destructive_hint = false,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn get_template(
        &self,
        Parameters(args): Parameters<TemplateName>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Template>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.get_template(&caller, &args.name).await?))
    }

    /// Admins and template authors only: make a new template, from which workspaces can be spawned at
    /// once. It is refused as a whole if it could not be used.
    #[tool(
        title = "Create template",
        annotations(
            read_only_hint = false,
            destructive_hint = false,
            idempotent_hint = false,
            open_world_hint = false
        )
    )]
    async fn create_template(
        &self,
        Parameters(args): Parameters<CreateTemplate>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Template>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.create_template(&caller, &args).await?))
    }

    /// Admins and template authors only: change a template. What is left out stays. Its workspaces run
    /// on as they are and become outdated, if what they would be made of has changed; upgrade_workspace
    /// moves one of them, so that a new version can be tried.
    #[tool(
        title = "Update template",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn update_template(
        &self,
        Parameters(args): Parameters<UpdateTemplate>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<Template>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(self.service.update_template(&caller, &args).await?))
    }

    /// Admins and template authors only: delete a template. Refused while there are workspaces that
    /// were made from it.
    #[tool(
        title = "Delete template",
        annotations(
            read_only_hint = false,
            destructive_hint = true,
            idempotent_hint = true,
            open_world_hint = false
        )
    )]
    async fn delete_template(
        &self,
        Parameters(args): Parameters<TemplateName>,
        context: RequestContext<RoleServer>,
    ) -> Result<Json<DeletedTemplate>, Failure> {
        let caller = caller(&context)?;
        Ok(Json(
            self.service.delete_template(&caller, &args.name).await?,
        ))
    }
}
