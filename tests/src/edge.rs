//! Requests to the edge as browsers and scripts send them, down to the bytes.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

/// Longest time for one answer: more than the longest that the edge holds a request, in a recreate.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A client of the edge with one bearer token, or none. It follows no redirect and keeps no cookie.
#[derive(Clone)]
pub struct Edge {
    http: reqwest::Client,
    /// Its port in hosts.
    port: u16,
    /// Where it listens.
    at: SocketAddr,
    token: Option<String>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, of an answer that is 200.
    ///
    /// # Errors
    /// Another status, or no JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        if self.status != StatusCode::OK {
            bail!("answered {}: {}", self.status, self.text());
        }
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }

    /// A header's value, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edge")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Edge {
    /// For the edge at `url`.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(url: &Url, token: Option<String>) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        let port = url.port().context("the public URL names no port")?;
        Ok(Self {
            http,
            port,
            at: (Ipv4Addr::LOCALHOST, port).into(),
            token,
        })
    }

    /// The same hosts by way of another proxy, which listens there.
    #[must_use]
    pub fn through(&self, at: SocketAddr) -> Self {
        Self { at, ..self.clone() }
    }

    /// The same with another token.
    #[must_use]
    pub fn with_token(&self, token: Option<String>) -> Self {
        Self {
            token,
            ..self.clone()
        }
    }

    /// The bearer token.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Host of a workspace.
    #[must_use]
    pub fn host(&self, id: &str) -> String {
        format!("{id}.localhost:{}", self.port)
    }

    /// Host of the console.
    #[must_use]
    pub fn console(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Address to connect to, with this path. The host goes into the `Host` header.
    ///
    /// # Errors
    /// The path is none.
    pub fn address(&self, path: &str) -> anyhow::Result<Url> {
        Ok(Url::parse(&format!("http://{}", self.at))?.join(path)?)
    }

    /// A request to build upon: method, `Host`, path, token.
    ///
    /// # Errors
    /// The path is none.
    pub fn request(
        &self,
        method: Method,
        host: &str,
        path: &str,
    ) -> anyhow::Result<reqwest::RequestBuilder> {
        let request = self
            .http
            .request(method, self.address(path)?)
            .header("host", host);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    /// No whole answer.
    pub async fn send(request: reqwest::RequestBuilder) -> anyhow::Result<Answer> {
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Answer {
            status,
            headers,
            body: response.bytes().await?,
        })
    }

    /// `GET` from a workspace, by its host.
    ///
    /// # Errors
    /// No whole answer.
    pub async fn get(&self, id: &str, path: &str) -> anyhow::Result<Answer> {
        Self::send(self.request(Method::GET, &self.host(id), path)?).await
    }

    /// `GET` from the console's host: console, API, and workspaces by path.
    ///
    /// # Errors
    /// No whole answer.
    pub async fn get_console(&self, path: &str) -> anyhow::Result<Answer> {
        Self::send(self.request(Method::GET, &self.console(), path)?).await
    }

    /// Sends these lines as a request head on a connection of its own, with `Connection: close`, and
    /// returns every byte of the answer but the value of its `Date`.
    ///
    /// # Errors
    /// No answer.
    pub async fn raw(&self, head: &[String], body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let exchange = async {
            let mut stream = TcpStream::connect(self.at).await?;
            let mut request = head.join("\r\n");
            request += "\r\nConnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).await?;
            stream.write_all(body).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = tokio::time::timeout(TIMEOUT, exchange)
            .await
            .context("no answer")??;
        Ok(without_date(&answer))
    }

    /// [`Self::raw`] for a plain request with the token and more headers.
    ///
    /// # Errors
    /// No answer.
    pub async fn raw_request(
        &self,
        method: &str,
        host: &str,
        path: &str,
        more: &[&str],
    ) -> anyhow::Result<Vec<u8>> {
        let mut head = vec![format!("{method} {path} HTTP/1.1"), format!("Host: {host}")];
        if let Some(token) = &self.token {
            head.push(format!("Authorization: Bearer {token}"));
        }
        head.extend(more.iter().map(|line| (*line).to_owned()));
        self.raw(&head, b"").await
    }
}

fn without_date(answer: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(answer.len());
    let mut in_head = true;
    for line in answer.split_inclusive(|byte| *byte == b'\n') {
        in_head &= line != b"\r\n";
        if in_head
            && line
                .get(..5)
                .is_some_and(|name| name.eq_ignore_ascii_case(b"date:"))
        {
            kept.extend_from_slice(b"date: -\r\n");
        } else {
            kept.extend_from_slice(line);
        }
    }
    kept
}
