//! Flags about WebSockets.

use clap::Args as Group;
use nogoo9_runtime::config::Problems;
use std::time::Duration;

/// How WebSockets are kept and ended.
#[derive(Debug, Clone, Default, Group)]
#[command(next_help_heading = "WebSockets")]
pub struct SocketArgs {
    /// Time over which a proxy that stops closes its WebSockets, one by one (Close 1001), once its
    /// listener is closed: so that not all clients come back at the same instant. [default: 10; 0 with
    /// a loopback URL]
    #[arg(long, env = "NOGOO9_CLOSE_WINDOW", value_name = "SECONDS")]
    pub close_window: Option<String>,
    /// Longest time that nothing may flow over a WebSocket, in either direction, before it is closed
    /// (Close 1001). Pings and pongs of either side count as flow. [default: 0, which is none]
    #[arg(long, env = "NOGOO9_SOCKET_IDLE_TIMEOUT", value_name = "SECONDS")]
    pub socket_idle_timeout: Option<String>,
}

/// Checked settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketSettings {
    /// Time over which a proxy that stops closes them.
    pub close_window: Duration,
    /// How long nothing may flow; `None`: as long as it likes.
    pub idle: Option<Duration>,
}

impl SocketArgs {
    /// `alone`: no load balancer leads to other proxies.
    pub(super) fn resolve(&self, alone: bool, problems: &mut Problems) -> Option<SocketSettings> {
        let Self {
            close_window,
            socket_idle_timeout,
        } = self;
        let window = problems.seconds(
            "close-window",
            close_window.as_deref(),
            if alone { 0 } else { 10 },
            (0, 3600),
        );
        let idle = problems.seconds(
            "socket-idle-timeout",
            socket_idle_timeout.as_deref(),
            0,
            (0, 7 * 24 * 3600),
        );
        Some(SocketSettings {
            close_window: window?,
            idle: Some(idle?).filter(|idle| !idle.is_zero()),
        })
    }
}
