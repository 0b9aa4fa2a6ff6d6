//! Why a command or query failed: one closed set, mapped here, once, to what JSON API, MCP and
//! metrics say.

use crate::cluster::ClusterError;
use crate::template::{RenderError, TemplateError};
use http::StatusCode;
use nogoo9_model::access::Denied;
use nogoo9_model::bulk::NotResumed;
use nogoo9_model::container::Trouble;
use nogoo9_model::id::InvalidName;
use nogoo9_model::limit::Exceeded;
use nogoo9_model::personal_token::Refusal;
use nogoo9_model::record::{NotCancelled, NotUpgraded};
use serde::Serialize;

/// A failed command or query. Its text may be shown to the caller as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Not allowed; the same for what is another's and for what is not there.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// An argument is wrong.
    #[error("{argument}: {problem}")]
    Invalid {
        /// Its name, as the caller wrote it.
        argument: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// What the user set does not fit the template.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// No usable template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The workspace is theirs, its template is for others by now.
    #[error(
        "Forbidden: the template '{name}' is for other roles. The workspace stays as it is; ask an admin to upgrade it"
    )]
    TemplateNotAllowed {
        /// The template.
        name: String,
    },
    /// There is a template, or something else, of that name.
    #[error("the name '{name}' is taken; choose another")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// It is not an object of the cluster.
    #[error(
        "the template '{name}' is a file in control's --templates-dir; it is changed and deleted there"
    )]
    TemplateIsFile {
        /// The template.
        name: String,
    },
    /// Workspaces need it.
    #[error(
        "{workspaces} {} made from the template '{name}'; delete {} first",
        if *workspaces == 1 { "workspace is" } else { "workspaces are" },
        if *workspaces == 1 { "it" } else { "them" }
    )]
    TemplateInUse {
        /// The template.
        name: String,
        /// How many, stopped ones too.
        workspaces: usize,
    },
    /// It is not the one that the caller has read.
    #[error(
        "the template '{name}' has changed: its version is '{version}'. Look at it with get_template, and update that"
    )]
    TemplateChanged {
        /// The template.
        name: String,
        /// Its version now.
        version: String,
    },
    /// There is no log to read.
    #[error("there is no log: {0}")]
    NoLog(String),
    /// Somebody has that id, perhaps the caller; it is not said who.
    #[error("the id '{id}' is taken; choose another, or leave it out")]
    IdTaken {
        /// The id.
        id: String,
    },
    /// It was deleted a moment ago, by somebody else.
    #[error(
        "the id '{id}' was deleted a moment ago and is kept for its owner for another {left} s; choose another, or try again then"
    )]
    IdRemembered {
        /// The id.
        id: String,
        /// Seconds until it is free.
        left: i64,
    },
    /// The workspace is on its way out.
    #[error("the workspace '{id}' is being deleted; wait until it is gone, then spawn it anew")]
    Deleting {
        /// The id.
        id: String,
    },
    /// No upgrade can begin now.
    #[error("{0}")]
    NotUpgraded(NotUpgraded),
    /// The cluster would not take the pod: quota, admission or validation.
    #[error(
        "the cluster refuses the pod ({0}); nothing was changed. Mend the template '{1}' or ask for more quota"
    )]
    Refused(Trouble, String),
    /// The record would not fit its object.
    #[error(
        "the workspace's record would take {size} bytes, more than {limit}; shorten its inputs or its template"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many bulks are under way.
    #[error(
        "{running} upgrades of many workspaces are under way already; wait until one has ended, or cancel one"
    )]
    TooManyBulks {
        /// How many.
        running: usize,
    },
    /// The upgrade cannot be taken back any more.
    #[error(transparent)]
    NotCancelled(#[from] NotCancelled),
    /// There is nothing to go on with yet.
    #[error(transparent)]
    NotResumed(#[from] NotResumed),
    /// One workspace has no others after it whose turn could be put off.
    #[error(
        "only an operation on many workspaces can be paused and resumed; cancel_operation takes the upgrade of one back"
    )]
    NotPausable,
    /// No workspace of the operation failed, so far.
    #[error(
        "nothing has failed in this operation: there is nothing to retry. Use upgrade_all_workspaces for what was skipped or cancelled"
    )]
    NothingFailed,
    /// The owner has as many workspaces as they may.
    #[error(
        "{limit}: {} {}, counting stopped ones; delete one that is not needed any more, and try again once it is gone",
        if *own { "you have" } else { "that user has" },
        limit.have
    )]
    TooManyWorkspaces {
        /// How many, and how many they may have.
        limit: Exceeded,
        /// Whether they are the caller.
        own: bool,
    },
    /// They have as many access tokens as they may.
    #[error("you have {most} access tokens already, which is as many as one may have; revoke one")]
    TooManyTokens {
        /// As many as one may have.
        most: usize,
    },
    /// Asked for by an access token.
    #[error(
        "Forbidden: access tokens are made, listed and revoked by whoever is signed in, never by an access token"
    )]
    NotByToken,
    /// No place is left among the onlookers.
    #[error("too many pages are following what changes; close some, or try again in a moment")]
    TooManyStreams,
    /// Others changed the workspace at the same time, again and again.
    #[error("the workspace is being changed by others at this moment; try again")]
    Contended,
    /// The cluster cannot be asked or did not do what it was asked.
    #[error(
        "the cluster does not answer properly ({reason}); nothing was changed unless a later look shows it; try again"
    )]
    Cluster {
        /// What happened, in words for people.
        reason: String,
    },
}

/// What kind of failure it is: the `code` of every surface, and the label of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Not theirs, or not there.
    AccessDenied,
    /// The caller's role does not reach that far.
    Forbidden,
    /// The token lacks a scope.
    InsufficientScope,
    /// An argument is wrong.
    InvalidArgument,
    /// No such template.
    TemplateNotFound,
    /// The template cannot be used until somebody mends it.
    TemplateBroken,
    /// The id is taken.
    IdTaken,
    /// Its state does not allow it now.
    Conflict,
    /// The cluster refuses it.
    Refused,
    /// More than fits.
    TooLarge,
    /// Try again.
    Unavailable,
}

impl ErrorCode {
    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AccessDenied => "access_denied",
            Self::Forbidden => "forbidden",
            Self::InsufficientScope => "insufficient_scope",
            Self::InvalidArgument => "invalid_argument",
            Self::TemplateNotFound => "template_not_found",
            Self::TemplateBroken => "template_broken",
            Self::IdTaken => "id_taken",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::TooLarge => "too_large",
            Self::Unavailable => "unavailable",
        }
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::AccessDenied | Self::Forbidden | Self::InsufficientScope => StatusCode::FORBIDDEN,
            Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::TemplateNotFound => StatusCode::NOT_FOUND,
            Self::TemplateBroken | Self::Refused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::IdTaken | Self::Conflict => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Whether the same call may succeed a moment later.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        self == Self::Unavailable
    }
}

/// What callers get to read: the body of a failed HTTP request, the text of a failed tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Which kind.
    pub code: ErrorCode,
    /// What happened and what to do.
    pub message: String,
    /// Whether the same call may succeed a moment later.
    pub retryable: bool,
    /// The scope that the token lacks, if that is what keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<&'static str>,
}

impl ServiceError {
    /// Which kind of failure it is.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Denied(Denied::AccessDenied) => ErrorCode::AccessDenied,
            Self::Denied(Denied::UpgradeAll | Denied::WriteTemplates | Denied::Role { .. })
            | Self::TemplateNotAllowed { .. }
            | Self::NotByToken => ErrorCode::Forbidden,
            Self::Denied(Denied::Scope { .. }) => ErrorCode::InsufficientScope,
            Self::Invalid { .. } | Self::Render(RenderError::Input { .. }) => {
                ErrorCode::InvalidArgument
            }
            Self::Render(RenderError::Variable { .. })
            | Self::Template(TemplateError::Broken { .. }) => ErrorCode::TemplateBroken,
            Self::Template(TemplateError::NotFound { .. }) => ErrorCode::TemplateNotFound,
            Self::IdTaken { .. } | Self::IdRemembered { .. } => ErrorCode::IdTaken,
            Self::Deleting { .. }
            | Self::TooManyBulks { .. }
            | Self::TooManyTokens { .. }
            | Self::TooManyWorkspaces { .. }
            | Self::NotCancelled(_)
            | Self::NotResumed(_)
            | Self::NotPausable
            | Self::NameTaken { .. }
            | Self::TemplateIsFile { .. }
            | Self::TemplateInUse { .. }
            | Self::TemplateChanged { .. }
            | Self::NoLog(_)
            | Self::NothingFailed
            | Self::NotUpgraded(_) => ErrorCode::Conflict,
            Self::Refused(..) => ErrorCode::Refused,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Template(TemplateError::Unreadable { .. })
            | Self::Contended
            | Self::TooManyStreams
            | Self::Cluster { .. } => ErrorCode::Unavailable,
        }
    }

    /// What callers get to read.
    #[must_use]
    pub fn body(&self) -> ErrorBody {
        let code = self.code();
        ErrorBody {
            code,
            message: self.to_string(),
            retryable: code.is_retryable(),
            scope: match self {
                Self::Denied(Denied::Scope { needed }) => Some(needed),
                _ => None,
            },
        }
    }
}

impl From<ClusterError> for ServiceError {
    fn from(error: ClusterError) -> Self {
        match error {
            ClusterError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            ClusterError::Conflict { .. } | ClusterError::Exists { .. } => Self::Contended,
            other => Self::Cluster {
                reason: other.to_string(),
            },
        }
    }
}

impl From<InvalidName> for ServiceError {
    fn from(error: InvalidName) -> Self {
        Self::Invalid {
            argument: "id",
            problem: error.to_string(),
        }
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        Self::Invalid {
            argument: refusal.argument,
            problem: refusal.problem,
        }
    }
}

#[cfg(test)]
mod tests;
