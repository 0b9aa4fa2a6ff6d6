//! `/shell`: a real shell behind a WebSocket.
//!
//! Binary frames are terminal bytes, both ways. Text frames are control messages:
//! `{"resize": {"cols": 80, "rows": 24}}`; what else they hold is ignored. The first
//! size may come with the query (`?cols=&rows=`). The shell gets `SIGHUP` when its
//! socket closes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Query, State};
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::timeout;

use super::config::Config;
use super::{Sample, sockets};

const READ: usize = 16 * 1024;
/// Largest frame taken from a client; a paste is far smaller.
const MAX_FRAME: usize = 1024 * 1024;
/// How long a shell may take to end after its terminal hung up.
const HANG_UP_BOUND: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Dimensions {
    #[serde(default = "default_cols")]
    cols: u16,
    #[serde(default = "default_rows")]
    rows: u16,
}

fn default_cols() -> u16 {
    80
}

fn default_rows() -> u16 {
    24
}

impl Dimensions {
    /// Never zero, which programs divide by.
    fn size(self) -> Size {
        Size::new(self.rows.max(1), self.cols.max(1))
    }
}

#[derive(Debug, Deserialize)]
struct Control {
    resize: Option<Dimensions>,
}

pub(super) async fn connect(
    State(sample): State<Arc<Sample>>,
    Query(dimensions): Query<Dimensions>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade
        .max_message_size(MAX_FRAME)
        .on_upgrade(move |socket| {
            let tracked = sample.sockets.clone();
            tracked.track_future(async move { relay(socket, &sample, dimensions).await })
        })
}

fn start(
    config: &Config,
    dimensions: Dimensions,
) -> pty_process::Result<(OwnedReadPty, OwnedWritePty, Child)> {
    let (pty, pts) = pty_process::open()?;
    pty.resize(dimensions.size())?;
    let bash = config.shell.file_name().is_some_and(|name| name == "bash");
    let home = config.home.as_deref().unwrap_or(Path::new("/"));
    let who = if config.workspace.is_empty() {
        &config.pod
    } else {
        &config.workspace
    };
    let prompt = if bash {
        format!("{who}:\\w\\$ ")
    } else {
        format!("{who}$ ")
    };
    let mut command = Command::new(&config.shell);
    if bash {
        // The machine's own start-up files are not the workspace's.
        command = command.args(["--noprofile", "--norc"]);
    }
    let child = command
        .env_clear()
        .env("PATH", &config.path)
        .env("HOME", home)
        .env("SHELL", &config.shell)
        .env("TERM", "xterm-256color")
        .env("LANG", "C.UTF-8")
        .env("PS1", prompt)
        .env("POD_NAME", &config.pod)
        .env("POD_IP", config.ip.to_string())
        .env("WORKSPACE_ID", &config.workspace)
        .env("VERSION", &config.version)
        .current_dir(home)
        .kill_on_drop(true)
        .spawn(pts)?;
    let (reader, writer) = pty.into_split();
    Ok((reader, writer, child))
}

async fn relay(socket: WebSocket, sample: &Sample, dimensions: Dimensions) {
    let (mut sink, mut stream) = socket.split();
    let (mut reader, mut writer, mut child) = match start(&sample.config, dimensions) {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(%error, "a shell could not be started");
            return sockets::close(
                &mut sink,
                &mut stream,
                close_code::ERROR,
                "the shell could not be started",
            )
            .await;
        }
    };
    // Each way in its own future: a full pipe one way must not block the other.
    let outward = async {
        let mut buffer = vec![0_u8; READ];
        // The end of a terminal reads as an error on Linux.
        while let Ok(count) = reader.read(&mut buffer).await {
            let bytes = buffer.get(..count).unwrap_or_default();
            if bytes.is_empty()
                || sink
                    .send(Message::Binary(Bytes::copy_from_slice(bytes)))
                    .await
                    .is_err()
            {
                return;
            }
        }
    };
    let inward = async {
        while let Some(Ok(message)) = stream.next().await {
            match message {
                Message::Binary(bytes) => {
                    if writer.write_all(&bytes).await.is_err() {
                        // The shell has ended; what it said last is still on its way out.
                        return std::future::pending().await;
                    }
                }
                Message::Text(text) => {
                    let control: Option<Control> = serde_json::from_str(&text).ok();
                    if let Some(dimensions) = control.and_then(|control| control.resize) {
                        let _ = writer.resize(dimensions.size());
                    }
                }
                // Reading on is what answers a close; then comes the end.
                Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
            }
        }
    };
    enum End {
        Shell,
        Socket,
        Closing,
    }
    let end = tokio::select! {
        () = outward => End::Shell,
        () = inward => End::Socket,
        () = sample.closing.cancelled() => End::Closing,
    };
    match end {
        End::Shell => {
            sockets::close(
                &mut sink,
                &mut stream,
                close_code::NORMAL,
                "the shell has ended",
            )
            .await;
        }
        End::Closing => sockets::restarting(&mut sink, &mut stream).await,
        End::Socket => {}
    }
    // Closing the terminal hangs up on the shell and what runs in it.
    drop((reader, writer));
    if timeout(HANG_UP_BOUND, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages() {
        let resize = |text: &str| {
            serde_json::from_str::<Control>(text)
                .ok()
                .and_then(|c| c.resize)
        };
        assert_eq!(
            resize(r#"{"resize":{"cols":100,"rows":30}}"#),
            Some(Dimensions {
                cols: 100,
                rows: 30
            })
        );
        assert_eq!(
            resize(r#"{"resize":{"cols":100}}"#),
            Some(Dimensions {
                cols: 100,
                rows: 24
            })
        );
        assert_eq!(resize(r#"{"other":1}"#), None);
        assert_eq!(resize("ls"), None);
    }
}
