//! A browser on the page of a workspace, through one of the proxies.

use crate::PATIENCE;
use crate::provider::Provider;
use crate::world::{CONSOLE, WORKSPACE};
use futures::{SinkExt as _, StreamExt as _};
use reqwest::header::{COOKIE, HOST, LOCATION, SET_COOKIE};
use reqwest::{Method, Response};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use url::{Position, Url};

type Headers<'a> = &'a [(&'static str, &'static str)];

/// How a browser navigates.
const NAVIGATION: Headers<'static> = &[
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
    ("sec-fetch-site", "same-site"),
];
/// How a page of its own asks.
const OWN: Headers<'static> = &[("sec-fetch-site", "same-origin")];

#[derive(Clone)]
pub(crate) struct Page {
    /// The proxy that the browser reaches.
    proxy: SocketAddr,
    http: reqwest::Client,
    /// By host, then by name.
    cookies: BTreeMap<String, BTreeMap<String, String>>,
}

/// An open socket.
pub(crate) struct Socket(WebSocketStream<TcpStream>);

/// An open stream of events.
pub(crate) struct Stream(Response);

impl Page {
    /// Signs alice in, and opens the workspace as a link does.
    pub(crate) async fn open(proxy: SocketAddr, provider: &Provider) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none());
        let mut page = Self {
            proxy,
            http: http.build().unwrap(),
            cookies: BTreeMap::new(),
        };
        let away = page.navigate(CONSOLE, "/auth/login").await;
        let back = provider.sign_in(&away.unwrap());
        assert_eq!(page.follow(&back).await.as_deref(), Some("/"));
        let mut at = page.navigate(WORKSPACE, "/").await;
        while let Some(to) = at.filter(|to| to != "/") {
            at = page.follow(&Url::parse(&to).unwrap()).await;
        }
        assert_eq!(page.poll().await, 200);
        page
    }

    /// The same browser, where it reaches another proxy.
    pub(crate) fn by(&self, proxy: SocketAddr) -> Self {
        Self {
            proxy,
            ..self.clone()
        }
    }

    /// What a navigation to a URL leads to.
    async fn follow(&mut self, to: &Url) -> Option<String> {
        let host = to[Position::BeforeHost..Position::AfterPort].to_owned();
        self.navigate(&host, &to[Position::BeforePath..]).await
    }

    /// Where a navigation leads; `None`: here.
    pub(crate) async fn navigate(&mut self, host: &str, path: &str) -> Option<String> {
        let answer = self.send(Method::GET, host, path, NAVIGATION).await;
        let to = answer.headers().get(LOCATION);
        to.map(|to| to.to_str().unwrap().to_owned())
    }

    /// What the page asks of its workspace now and then; the status.
    pub(crate) async fn poll(&mut self) -> u16 {
        let answer = self.send(Method::GET, WORKSPACE, "/", OWN).await;
        answer.status().as_u16()
    }

    /// Presses "Sign out" on the console.
    pub(crate) async fn sign_out(&mut self) {
        let answer = self.send(Method::POST, CONSOLE, "/auth/logout", OWN).await;
        assert_eq!(answer.status().as_u16(), 303);
    }

    /// Whether the browser has a session cookie there.
    pub(crate) fn has_session(&self, host: &str) -> bool {
        let jar = self.cookies.get(host);
        jar.is_some_and(|jar| jar.contains_key("nogoo9"))
    }

    pub(crate) async fn stream(&mut self) -> Stream {
        let mut answer = self.send(Method::GET, WORKSPACE, "/events", OWN).await;
        assert_eq!(answer.status().as_u16(), 200);
        let first = answer.chunk().await.unwrap();
        assert_eq!(first.as_deref(), Some(&b"data: one\n\n"[..]));
        Stream(answer)
    }

    pub(crate) async fn socket(&self) -> Socket {
        Socket(self.handshake().await.unwrap())
    }

    /// The status by which a socket is refused.
    pub(crate) async fn refused_socket(&self) -> u16 {
        match self.handshake().await {
            Err(Error::Http(answer)) => answer.status().as_u16(),
            other => panic!("{other:?}"),
        }
    }

    async fn handshake(&self) -> Result<WebSocketStream<TcpStream>, Error> {
        let mut request = format!("ws://{WORKSPACE}/socket").into_client_request()?;
        let headers = request.headers_mut();
        headers.insert(COOKIE, self.jar(WORKSPACE).parse().unwrap());
        for (name, value) in OWN {
            headers.insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.proxy).await?;
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(socket)
    }

    fn jar(&self, host: &str) -> String {
        let jar = self.cookies.get(host).into_iter().flatten();
        let pairs: Vec<String> = jar.map(|(name, value)| format!("{name}={value}")).collect();
        pairs.join("; ")
    }

    async fn send(
        &mut self,
        method: Method,
        host: &str,
        path: &str,
        headers: Headers<'_>,
    ) -> Response {
        let mut request = self
            .http
            .request(method, format!("http://{}{path}", self.proxy))
            .header(HOST, host)
            .header(COOKIE, self.jar(host));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = tokio::time::timeout(PATIENCE, request.send()).await;
        let answer = answer.expect("an answer in time").unwrap();
        let jar = self.cookies.entry(host.to_owned()).or_default();
        for set in answer.headers().get_all(SET_COOKIE) {
            let set = set.to_str().unwrap();
            let pair = set.split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            if set.contains("Max-Age=0;") {
                jar.remove(name);
            } else {
                jar.insert(name.to_owned(), value.to_owned());
            }
        }
        answer
    }
}

impl Socket {
    /// Says something, and hears it.
    pub(crate) async fn echo(&mut self, word: &str) {
        self.0.send(Message::text(word)).await.unwrap();
        let heard = tokio::time::timeout(PATIENCE, self.0.next()).await;
        let heard = heard.expect("an echo in time").expect("it is open");
        assert_eq!(heard.unwrap(), Message::text(word));
    }

    /// The code that it is closed with.
    pub(crate) async fn closed(mut self) -> u16 {
        let heard = tokio::time::timeout(PATIENCE, self.0.next()).await;
        match heard.expect("an end in time") {
            Some(Ok(Message::Close(Some(frame)))) => frame.code.into(),
            other => panic!("{other:?}"),
        }
    }
}

impl Stream {
    /// Returns once it is broken off, without another word.
    pub(crate) async fn broken_off(mut self) {
        let rest = tokio::time::timeout(PATIENCE, self.0.chunk()).await;
        let rest = rest.expect("an end in time");
        assert!(rest.is_err(), "{rest:?}");
    }
}
