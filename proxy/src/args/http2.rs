//! Flags of HTTP/2.

use crate::accept::head::Bounds;
use crate::http2::Limits;
use crate::http2::meter::Rates;
use clap::Args as Group;
use nogoo9_runtime::config::Problems;

/// What one HTTP/2 connection of a client may cost.
#[derive(Debug, Clone, Default, Group)]
#[command(next_help_heading = "HTTP/2")]
pub struct Http2Args {
    /// Most requests at once on one connection. What is beyond is refused, and browsers wait with it.
    /// [default: 100]
    #[arg(long, env = "NOGOO9_H2_MAX_STREAMS", value_name = "N")]
    pub h2_max_streams: Option<String>,
    /// Most requests that a client may call off on one connection within a minute; and in its life, that
    /// it may have us call off by breaking the rules. One more, and the connection ends
    /// (ENHANCE_YOUR_CALM). A hundred times as many on a connection of --trusted-proxies. [default: 500]
    #[arg(long, env = "NOGOO9_H2_MAX_RESETS", value_name = "N")]
    pub h2_max_resets: Option<String>,
    /// Most frames a second that carry nothing (PING, SETTINGS, PRIORITY, window updates for nothing),
    /// on average over ten; then the same, of --trusted-proxies, too. [default: 1000]
    #[arg(long, env = "NOGOO9_H2_MAX_CONTROL_FRAMES", value_name = "N")]
    pub h2_max_control_frames: Option<String>,
    /// How long a connection may be open without a request. [default: 180]
    #[arg(long, env = "NOGOO9_H2_IDLE_TIMEOUT", value_name = "SECONDS")]
    pub h2_idle_timeout: Option<String>,
    /// Time between two PINGs to a client with open requests; one that does not answer within 20 s is
    /// gone. [default: 30; 0: it is never asked]
    #[arg(long, env = "NOGOO9_H2_PING", value_name = "SECONDS")]
    pub h2_ping: Option<String>,
    /// Bytes of one upload that wait in memory at most, while its workspace takes none; four times that
    /// for all of one connection, and no less than for each of one of --trusted-proxies. [default: 262144]
    #[arg(long, env = "NOGOO9_H2_WINDOW", value_name = "BYTES")]
    pub h2_window: Option<String>,
}

impl Http2Args {
    /// The limits, or what is wrong with them.
    pub(super) fn limits(&self, bounds: Option<Bounds>, problems: &mut Problems) -> Option<Limits> {
        let Self {
            h2_max_streams,
            h2_max_resets,
            h2_max_control_frames,
            h2_idle_timeout,
            h2_ping,
            h2_window,
        } = self;
        let mut number = |flag: &str, value: &Option<String>, default, bounds| {
            let number = problems.number(flag, value.as_deref(), default, bounds);
            number.and_then(|number| u32::try_from(number).ok())
        };
        let streams = number("h2-max-streams", h2_max_streams, 100, (1, 10_000));
        let resets = number("h2-max-resets", h2_max_resets, 500, (1, 1_000_000));
        let frames = (10, 1_000_000);
        let control = number("h2-max-control-frames", h2_max_control_frames, 1000, frames);
        // Below the smallest one that HTTP/2 begins with, requests would be slow for nothing.
        let bytes = (65_535, 64 * 1024 * 1024);
        let window = number("h2-window", h2_window, 262_144, bytes);
        let idle = h2_idle_timeout.as_deref();
        let idle = problems.seconds("h2-idle-timeout", idle, 180, (1, 24 * 3600));
        let ping = problems.seconds("h2-ping", h2_ping.as_deref(), 30, (0, 3600));
        Some(Limits {
            streams: streams?,
            bounds: bounds?,
            rates: Rates {
                resets: resets?,
                control: control?,
            },
            idle: idle?,
            ping: ping?,
            window: window?,
            shared: false,
        })
    }
}
