//! Every command and query of nogoo9, once. JSON API, MCP and the page are thin adapters over it.
//!
//! Each takes the [`Caller`] as an argument and asks [`nogoo9_model::access::may`] first. Commands
//! change the workspace's record, by compare-and-swap, and wake the engine; they touch no pod. What
//! is another's and what is not there give the same answer, field by field.

mod absent;
mod authoring;
mod bulk;
mod commands;
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

pub use absent::{Origin, Page};
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
pub struct Service {
    parts: Arc<Parts>,
    /// How many workspaces one user may have.
    most: Option<PerUser>,
    /// Who besides admins writes templates.
    authors: Arc<Authors>,
}

type Answer<T> = Result<T, ServiceError>;

impl Service {
    /// A service over these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            parts: Arc::new(parts),
            most: None,
            authors: Arc::default(),
        }
    }

    /// The same service, which lets no user spawn more workspaces than that.
    #[must_use]
    pub fn with_max_workspaces(self, limit: Option<PerUser>) -> Self {
        Self {
            most: limit,
            ..self
        }
    }

    /// The same service, which lets these write templates beside admins.
    #[must_use]
    pub fn with_template_authors(self, authors: Authors) -> Self {
        Self {
            authors: Arc::new(authors),
            ..self
        }
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
        self.count(
            "list_workspaces",
            workspaces::list(&self.parts, caller, args),
        )
    }

    /// One workspace.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_workspace(&self, caller: &Caller, id: &str) -> Answer<Workspace> {
        self.count(
            "get_workspace",
            workspaces::get(&self.parts, caller, id).await,
        )
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
            history::events(&self.parts, caller, args).await,
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
            logs::logs(&self.parts, caller, args).await,
        )
    }

    /// Looks on in the caller's name, until `end` at the latest.
    ///
    /// # Errors
    /// The token lacks the scope, or too many look on already.
    pub async fn subscribe(&self, caller: &Caller, end: UnixSeconds) -> Answer<Subscription> {
        self.count("subscribe", feed::subscribe(&self.parts, caller, end).await)
    }

    /// What a workspace without pods is doing, for whoever may open `page`.
    ///
    /// # Errors
    /// [`ServiceError`]; the same where it is not theirs and where it is not there.
    pub async fn look_at_absent(&self, caller: &Caller, id: &str, page: &Page) -> Answer<Absent> {
        let told = absent::look(&self.parts, caller, id, page).await;
        self.count("look_at_absent", told)
    }

    /// Addresses of workspaces.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.parts.links
    }

    /// One operation, with a page of its workspaces.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_operation(&self, caller: &Caller, args: &GetOperation) -> Answer<Operation> {
        self.count(
            "get_operation",
            operations::get(&self.parts, caller, args).await,
        )
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
            operations::wait(&self.parts, caller, args).await,
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
        self.count(
            "list_operations",
            operations::list(&self.parts, caller, args),
        )
    }

    /// Templates that the caller may use.
    ///
    /// # Errors
    /// The token lacks the scope.
    pub async fn list_templates(&self, caller: &Caller) -> Answer<Templates> {
        self.count("list_templates", templates::list(&self.parts, caller))
    }

    /// One template, with its spec.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn get_template(&self, caller: &Caller, name: &str) -> Answer<Template> {
        self.count(
            "get_template",
            templates::get(&self.parts, caller, name).await,
        )
    }

    /// The caller's browser sessions; `current` is the `sid` of the one that asks.
    ///
    /// # Errors
    /// [`ServiceError`].
    pub async fn list_sessions(&self, caller: &Caller, current: Option<&str>) -> Answer<Sessions> {
        self.count(
            "list_sessions",
            sessions::list(&self.parts, caller, current).await,
        )
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
        self.count("list_tokens", tokens::list(&self.parts, caller, by).await)
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
                Target::Templates {
                    authors: &self.authors,
                },
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
        &self.parts
    }

    /// Begins one upgrade of a bulk, exactly as that of one workspace begins.
    pub(crate) async fn begin_upgrade(
        &self,
        stored: &Stored<Record>,
        ask: &Ask<'_>,
    ) -> Answer<Attempt> {
        upgrades::attempt(&self.parts, stored, ask).await
    }

    /// Counts a query. Commands go through [`Self::command`].
    fn count<T>(&self, command: &'static str, result: Answer<T>) -> Answer<T> {
        trail::refused_to_look(command, &result);
        self.parts.metrics.count(command, result)
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
