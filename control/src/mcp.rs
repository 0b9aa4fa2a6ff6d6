//! MCP over streamable HTTP at `/mcp`: a thin adapter over the service.
//!
//! Stateless in both eras of the protocol (2026-07-28, and 2025-11-25 with its `initialize`): no
//! session is kept, so any replica answers any request and a restart loses nothing. Who is calling
//! is decided by the middleware in front, from the bearer token alone, and handed to each tool with
//! its request.

mod failure;
mod scopes;
mod tools;

use crate::http::authority;
use crate::service::Service;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use url::Url;

pub use scopes::{MAX_REFUSAL, ToolScopes, lacking};
pub use tools::Tools;

/// Largest request, in bytes: a spawn with all its inputs is far smaller.
pub const MAX_BODY: usize = 256 * 1024;

/// The endpoint, and which scopes its tools need. Requests that reach it must carry a verified
/// [`Caller`](nogoo9_model::access::Caller) among their extensions.
///
/// Only requests for the public host and for loopback are answered, and only pages of these may send
/// them: a page elsewhere that rebinds its name to this address gets nowhere.
pub fn endpoint(
    service: Service,
    public: &Url,
    stop: CancellationToken,
) -> (
    StreamableHttpService<Tools, NeverSessionManager>,
    ToolScopes,
) {
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).into();
    hosts.push(authority(public));
    let mut origins: Vec<String> = ["localhost", "127.0.0.1", "[::1]"]
        .map(|host| format!("http://{host}:*"))
        .into();
    origins.push(public.origin().ascii_serialization());
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_allowed_hosts(hosts)
        .with_allowed_origins(origins)
        .enforce_origin_validation()
        .with_max_request_body_bytes(MAX_BODY)
        .with_cancellation_token(stop);
    let tools = Tools::new(service);
    let scopes = ToolScopes::of(&tools);
    let endpoint = StreamableHttpService::new(
        move || Ok(tools.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    (endpoint, scopes)
}
