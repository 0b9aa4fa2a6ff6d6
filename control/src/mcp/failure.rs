//! Failed tools: `isError` with one text, which is JSON. No structured content: clients check that
//! against the schema of the good answer, and would report a schema error in place of ours.

use crate::service::ServiceError;
use rmcp::ErrorData;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};

/// What a tool ends with if it does not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// For the model and its user to read.
    Tool(ServiceError),
    /// A mistake in how the request reached us.
    Protocol(ErrorData),
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Tool(error)
    }
}

impl From<ErrorData> for Failure {
    fn from(error: ErrorData) -> Self {
        Self::Protocol(error)
    }
}

impl IntoCallToolResult for Failure {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        let error = match self {
            Self::Tool(error) => error,
            Self::Protocol(error) => return Err(error),
        };
        let text = serde_json::to_string(&error.body()).map_err(|_| {
            ErrorData::internal_error("the error could not be written as JSON", None)
        })?;
        Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
    }
}
