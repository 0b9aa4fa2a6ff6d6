//! Carries out probes and hooks.

use std::ffi::OsString;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use super::probe::Check;
use super::process::{self, Surroundings, find_program};

/// What a check needs to know of its container.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) pod_ip: String,
    pub(crate) shim: Vec<OsString>,
    pub(crate) around: Surroundings,
    /// Awaits the ends of commands whose check was dropped.
    pub(crate) reapers: TaskTracker,
}

/// Runs a check once, within `timeout`.
///
/// # Errors
/// A sentence for the event, as the kubelet words it.
pub(crate) async fn run(check: &Check, target: &Target, timeout: Duration) -> Result<(), String> {
    let attempt = async {
        match check {
            Check::Http {
                host,
                port,
                path,
                headers,
            } => {
                let host = host.as_deref().unwrap_or(&target.pod_ip);
                get(host, *port, path, headers).await
            }
            Check::Tcp { host, port } => {
                let host = host.as_deref().unwrap_or(&target.pod_ip);
                connect(host, *port).await.map(drop)
            }
            Check::Exec(command) => exec(command, target).await,
            Check::Unsupported(problem) => Err(problem.clone()),
        }
    };
    tokio::time::timeout(timeout, attempt)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {}s", timeout.as_secs())))
}

async fn connect(host: &str, port: u16) -> Result<TcpStream, String> {
    TcpStream::connect((host, port))
        .await
        .map_err(|error| format!("dial tcp {host}:{port}: {error}"))
}

async fn get(
    host: &str,
    port: u16,
    path: &str,
    headers: &[(String, String)],
) -> Result<(), String> {
    let url = format!("http://{host}:{port}{path}");
    let failed = |error: &dyn std::fmt::Display| format!("Get \"{url}\": {error}");
    let stream = connect(host, port).await.map_err(|error| failed(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| failed(&e))?;
    let mut request = Request::get(path)
        .body(Empty::<Bytes>::new())
        .map_err(|e| failed(&e))?;
    let map = request.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&format!("{host}:{port}")) {
        map.insert(http::header::HOST, value);
    }
    map.insert(
        http::header::USER_AGENT,
        HeaderValue::from_static("kube-probe/1.34"),
    );
    map.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    for (name, value) in headers {
        let name = HeaderName::try_from(name).map_err(|e| failed(&e))?;
        map.insert(name, HeaderValue::try_from(value).map_err(|e| failed(&e))?);
    }
    // The connection is driven here, so that it ends with this function.
    let answer = tokio::select! {
        answer = sender.send_request(request) => answer.map_err(|e| failed(&e))?,
        Err(error) = connection => return Err(failed(&error)),
    };
    match answer.status().as_u16() {
        200..=399 => Ok(()),
        status => Err(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// Runs a command in a container's surroundings; killed if this is dropped.
async fn exec(command: &[String], target: &Target) -> Result<(), String> {
    let Some((program, args)) = command.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let path = target.around.env.get("PATH").map_or("", String::as_str);
    let file = find_program(program, path, &target.around.cwd)
        .ok_or_else(|| format!("exec: \"{program}\": executable file not found in $PATH"))?;
    let (process, running) = process::spawn(&target.shim, &file, args, &target.around, None)
        .map_err(|error| format!("exec: {error}"))?;
    // A task of its own reaps the shim even when this future is dropped, which
    // drops `process` and so kills what runs.
    let exit = target.reapers.spawn(running.exit_code());
    let code = exit.await.map_err(|error| error.to_string())?;
    drop(process);
    match code {
        0 => Ok(()),
        code => Err(format!("command {command:?} exited with {code}")),
    }
}
