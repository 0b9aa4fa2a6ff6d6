//! Opens a WebSocket over our own TCP connection, so that names under `localhost` work
//! everywhere and each step has its deadline.

use ::http::{HeaderName, Response, header};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::Error as WsError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::SocketOptions;
use crate::{LoadError, SocketError};

/// The largest message accepted, in bytes: far beyond a screenful of shell output.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Characters kept of a refusal's body.
const MAX_BODY: usize = 200;

pub(super) struct Opened {
    pub(super) stream: WebSocketStream<TcpStream>,
    pub(super) pod: Option<String>,
}

pub(super) async fn open(options: &SocketOptions) -> Result<Opened, SocketError> {
    let host = options.endpoint.to_string();
    let timeout = || SocketError::Timeout {
        host: host.clone(),
        limit: options.open_timeout,
    };
    let deadline = Instant::now() + options.open_timeout;

    let mut url = options.url.clone();
    url.set_scheme("ws").map_err(|()| LoadError::Target {
        scheme: options.url.scheme().to_owned(),
    })?;
    let mut request = url
        .as_str()
        .into_client_request()
        .map_err(|e| handshake(&host, &e))?;
    if options.headers.contains_key(header::HOST) {
        request.headers_mut().remove(header::HOST);
    }
    for (name, value) in &options.headers {
        request.headers_mut().append(name.clone(), value.clone());
    }

    let stream = timeout_at(deadline, options.endpoint.connect())
        .await
        .map_err(|_| timeout())?
        .map_err(|source| SocketError::Connect {
            host: host.clone(),
            source,
        })?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .read_buffer_size(4096)
        .max_write_buffer_size(MAX_MESSAGE);
    let handshaking = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
    let (stream, response) = timeout_at(deadline, Box::pin(handshaking))
        .await
        .map_err(|_| timeout())?
        .map_err(|e| refused(&host, &e))?;
    let pod = options
        .pod_header
        .as_deref()
        .and_then(|name| named(&response, name));
    Ok(Opened { stream, pod })
}

fn named<B>(response: &Response<B>, name: &str) -> Option<String> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    Some(response.headers().get(name)?.to_str().ok()?.to_owned())
}

fn refused(host: &str, error: &WsError) -> SocketError {
    let WsError::Http(response) = error else {
        return handshake(host, error);
    };
    let body = response.body().as_deref().map(|body| {
        String::from_utf8_lossy(body)
            .chars()
            .take(MAX_BODY)
            .collect::<String>()
    });
    SocketError::Refused {
        host: host.to_owned(),
        status: response.status().as_u16(),
        body: body.filter(|body| !body.is_empty()),
    }
}

fn handshake(host: &str, error: &WsError) -> SocketError {
    SocketError::Handshake {
        host: host.to_owned(),
        message: error.to_string(),
    }
}
