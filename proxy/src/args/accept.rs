//! Flags of what clients may do before there is a request.

use crate::accept::Limits;
use crate::accept::connection::Deadlines;
use crate::accept::head::Bounds;
use crate::busy;
use clap::Args as Group;
use nogoo9_runtime::client::TrustedProxies;
use nogoo9_runtime::config::Problems;
use std::num::{NonZeroU64, NonZeroUsize};

/// Bounds of connections and of the heads of requests.
#[derive(Debug, Clone, Default, Group)]
#[command(next_help_heading = "Connections")]
pub struct AcceptArgs {
    /// Connections from --trusted-proxies begin with a header of the PROXY protocol, version 1 or 2,
    /// that names the client. One that does not is closed; from elsewhere the header is not
    /// understood. [default: false]
    #[arg(long, env = "NOGOO9_PROXY_PROTOCOL", value_name = "true|false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub proxy_protocol: Option<String>,
    /// Another process of the same user may listen on the same address (SO_REUSEPORT): a second proxy
    /// on this host then starts before the first one stops. [default: false]
    #[arg(long, env = "NOGOO9_REUSE_PORT", value_name = "true|false",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub reuse_port: Option<String>,
    /// Most open connections of clients, in all; 0: any number. [default: 20000]
    #[arg(long, env = "NOGOO9_MAX_CONNECTIONS", value_name = "N")]
    pub max_connections: Option<String>,
    /// Most open connections of one client, an IPv4 address or the /64 network of an IPv6 one; 0: any
    /// number. Those of --trusted-proxies are not counted, unless --proxy-protocol tells whose they
    /// are. [default: 2000]
    #[arg(long, env = "NOGOO9_MAX_CONNECTIONS_PER_CLIENT", value_name = "N")]
    pub max_connections_per_client: Option<String>,
    /// Time to the first byte on a new connection, and to the first one of a request once TLS is set up.
    /// [default: 15]
    #[arg(long, env = "NOGOO9_FIRST_BYTE_TIMEOUT", value_name = "SECONDS")]
    pub first_byte_timeout: Option<String>,
    /// Time from the first byte of a request to the end of its headers, and from that of a TLS handshake
    /// to its end. [default: 15]
    #[arg(long, env = "NOGOO9_HEADER_TIMEOUT", value_name = "SECONDS")]
    pub header_timeout: Option<String>,
    /// Time that an HTTP/1 connection is kept between two requests. Longer than the load balancer in
    /// front keeps its own. [default: 75]
    #[arg(long, env = "NOGOO9_KEEPALIVE_TIMEOUT", value_name = "SECONDS")]
    pub keepalive_timeout: Option<String>,
    /// Longest target (path with query) of an HTTP/1 request, in bytes. [default: 16384]
    #[arg(long, env = "NOGOO9_MAX_TARGET_BYTES", value_name = "BYTES")]
    pub max_target_bytes: Option<String>,
    /// Largest headers of an HTTP/1 request, all lines together, in bytes. [default: 32768]
    #[arg(long, env = "NOGOO9_MAX_HEADER_BYTES", value_name = "BYTES")]
    pub max_header_bytes: Option<String>,
    /// Most header lines of an HTTP/1 request. [default: 200]
    #[arg(long, env = "NOGOO9_MAX_HEADERS", value_name = "N")]
    pub max_headers: Option<String>,
    /// Largest body of a request, in bytes; 0: any. WebSockets have no bound. [default: 0]
    #[arg(long, env = "NOGOO9_MAX_BODY_BYTES", value_name = "BYTES")]
    pub max_body_bytes: Option<String>,
    /// Most requests, streams among them, that go on in one workspace at once; one more gets 503.
    /// [default: 2000]
    #[arg(long, env = "NOGOO9_MAX_REQUESTS_PER_WORKSPACE", value_name = "N")]
    pub max_requests_per_workspace: Option<String>,
    /// Most WebSockets that are open in one workspace at once; one more gets 503. [default: 5000]
    #[arg(long, env = "NOGOO9_MAX_SOCKETS_PER_WORKSPACE", value_name = "N")]
    pub max_sockets_per_workspace: Option<String>,
    /// Most requests towards control (console, API, MCP, signing in), streams among them, that go on at
    /// once; one more gets 503. 0: any number. [default: 2000]
    #[arg(long, env = "NOGOO9_MAX_CONTROL_REQUESTS", value_name = "N")]
    pub max_control_requests: Option<String>,
    /// Most of them of one client, an IPv4 address or the /64 network of an IPv6 one, so that one address
    /// keeps nobody else out; 0: any number. [default: 256]
    #[arg(long, env = "NOGOO9_MAX_CONTROL_REQUESTS_PER_CLIENT", value_name = "N")]
    pub max_control_requests_per_client: Option<String>,
}

impl AcceptArgs {
    pub(super) fn settings(
        &self,
        trusted: Option<&TrustedProxies>,
        problems: &mut Problems,
    ) -> Option<Limits> {
        let Self {
            proxy_protocol,
            reuse_port,
            max_connections,
            max_connections_per_client,
            first_byte_timeout,
            header_timeout,
            keepalive_timeout,
            max_target_bytes,
            max_header_bytes,
            max_headers,
            max_body_bytes,
            max_requests_per_workspace,
            max_sockets_per_workspace,
            max_control_requests,
            max_control_requests_per_client,
        } = self;
        let proxy_protocol = problems.switch("proxy-protocol", proxy_protocol.as_deref(), false);
        if proxy_protocol == Some(true)
            && trusted.is_some_and(|all| *all == TrustedProxies::default())
        {
            problems.add(
                "proxy-protocol",
                "needs --trusted-proxies: nobody else's word about clients counts",
            );
        }
        let reuse_port = problems.switch("reuse-port", reuse_port.as_deref(), false);
        let body = problems.number(
            "max-body-bytes",
            max_body_bytes.as_deref(),
            0,
            (0, u64::MAX),
        );
        let mut number = |flag: &str, value: &Option<String>, default, range| {
            problems
                .number(flag, value.as_deref(), default, range)
                .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        let most = number("max-connections", max_connections, 20_000, (0, 10_000_000));
        let most_each = number(
            "max-connections-per-client",
            max_connections_per_client,
            2000,
            (0, 10_000_000),
        );
        // Pingora's own bounds, which cannot be moved, are 256 lines and 1 MiB.
        let target = number("max-target-bytes", max_target_bytes, 16_384, (256, 262_144));
        let section = number(
            "max-header-bytes",
            max_header_bytes,
            32_768,
            (1024, 524_288),
        );
        let fields = number("max-headers", max_headers, 200, (8, 256));
        let requests = number(
            "max-requests-per-workspace",
            max_requests_per_workspace,
            2000,
            (1, 1_000_000),
        );
        let sockets = number(
            "max-sockets-per-workspace",
            max_sockets_per_workspace,
            5000,
            (1, 1_000_000),
        );
        let control = number(
            "max-control-requests",
            max_control_requests,
            2000,
            (0, 1_000_000),
        );
        let control_each = number(
            "max-control-requests-per-client",
            max_control_requests_per_client,
            256,
            (0, 1_000_000),
        );
        let mut seconds = |flag: &str, value: &Option<String>, default| {
            problems.seconds(flag, value.as_deref(), default, (1, 3600))
        };
        let first = seconds("first-byte-timeout", first_byte_timeout, 15);
        let head = seconds("header-timeout", header_timeout, 15);
        let idle = seconds("keepalive-timeout", keepalive_timeout, 75);
        Some(Limits {
            proxy_protocol: proxy_protocol?,
            reuse_port: reuse_port?,
            connections: NonZeroUsize::new(most?),
            connections_each: NonZeroUsize::new(most_each?),
            deadlines: Deadlines {
                first: first?,
                head: head?,
                idle: idle?,
            },
            bounds: Bounds {
                target: target?,
                section: section?,
                fields: fields?,
            },
            busy: busy::Bounds {
                requests: requests?,
                sockets: sockets?,
                control: NonZeroUsize::new(control?),
                control_each: NonZeroUsize::new(control_each?),
            },
            max_body: NonZeroU64::new(body?),
        })
    }
}
