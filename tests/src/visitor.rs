//! A person's browser, without a browser: cookies kept by host, redirects followed step by step.

use crate::{Answer, Edge};
use anyhow::{Context as _, bail};
use http::{Method, StatusCode};
use std::collections::BTreeMap;
use url::Url;

/// More redirects than any login takes.
const MAX_HOPS: usize = 12;

/// Somebody who is signed in at the console.
#[derive(Debug, Clone)]
pub struct Visitor {
    edge: Edge,
    http: reqwest::Client,
    /// Cookies by host (with port) and name.
    jar: BTreeMap<(String, String), String>,
}

/// How a browser sends a navigation.
pub const NAVIGATION: [(&str, &str); 4] = [
    ("accept", "text/html,application/xhtml+xml"),
    ("sec-fetch-site", "none"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];

impl Visitor {
    /// Somebody who is not signed in yet; `edge` without a token.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(edge: Edge) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            edge,
            http,
            jar: BTreeMap::new(),
        })
    }

    /// The `Cookie` header for a host.
    #[must_use]
    pub fn cookies(&self, host: &str) -> String {
        let mine = self.jar.iter().filter(|((of, _), _)| of == host);
        mine.map(|((_, name), value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Puts a cookie into the jar.
    pub fn set_cookie(&mut self, host: &str, name: &str, value: &str) {
        self.jar
            .insert((host.to_owned(), name.to_owned()), value.to_owned());
    }

    /// One request with the host's cookies; those of the answer are kept.
    ///
    /// # Errors
    /// No whole answer.
    pub async fn send(
        &mut self,
        method: Method,
        url: &Url,
        headers: &[(&str, &str)],
        form: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        let host = url.host_str().context("no host")?;
        let authority = url
            .port()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        // Every name of a site means this machine, whatever its resolver thinks of *.localhost.
        let mut address = url.clone();
        address.set_host(Some("127.0.0.1"))?;
        let mut request = self
            .http
            .request(method.clone(), address)
            .header("host", &authority);
        let cookies = self.cookies(&authority);
        if !cookies.is_empty() {
            request = request.header("cookie", cookies);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if method == Method::POST {
            let mut body = url::form_urlencoded::Serializer::new(String::new());
            body.extend_pairs(form);
            request = request
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body.finish());
        }
        let answer = Edge::send(request).await?;
        for value in answer.headers.get_all("set-cookie") {
            self.keep(&authority, value.to_str().context("Set-Cookie")?);
        }
        Ok(answer)
    }

    fn keep(&mut self, host: &str, set_cookie: &str) {
        let mut parts = set_cookie.split(';').map(str::trim);
        let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let key = (host.to_owned(), name.to_owned());
        if parts.any(|part| part.eq_ignore_ascii_case("max-age=0")) {
            self.jar.remove(&key);
        } else {
            self.jar.insert(key, value.to_owned());
        }
    }

    /// Opens a page as a person does who types its address: follows every redirect, and signs in as
    /// `user` where the provider asks who it is. Returns the answer and where it came from.
    ///
    /// # Errors
    /// It leads nowhere.
    pub async fn open(&mut self, url: &Url, user: &str) -> anyhow::Result<(Url, Answer)> {
        let stop = |_: &Url| false;
        match self.walk(url, user, stop).await? {
            (url, Some(answer)) => Ok((url, answer)),
            (url, None) => bail!("stopped at {url}"),
        }
    }

    /// As [`Self::open`], but does not take the last step, to an address with that path: returns the
    /// address.
    ///
    /// # Errors
    /// The way does not lead there.
    pub async fn walk_to(&mut self, url: &Url, user: &str, path: &str) -> anyhow::Result<Url> {
        match self.walk(url, user, |url| url.path() == path).await? {
            (url, None) => Ok(url),
            (url, Some(answer)) => bail!("ended at {url} with {}", answer.status),
        }
    }

    async fn walk(
        &mut self,
        url: &Url,
        user: &str,
        stop: impl Fn(&Url) -> bool,
    ) -> anyhow::Result<(Url, Option<Answer>)> {
        let mut url = url.clone();
        let mut answer = self.send(Method::GET, &url, &NAVIGATION, &[]).await?;
        for _ in 0..MAX_HOPS {
            let text = answer.text();
            if answer.status.is_redirection() {
                url = url.join(answer.header("location").context("no Location")?)?;
                if stop(&url) {
                    return Ok((url, None));
                }
                answer = self.send(Method::GET, &url, &NAVIGATION, &[]).await?;
            } else if let Some(request) = attribute(&text, "name=\"request\"", "value") {
                let action = attribute(&text, "<form", "action").unwrap_or_default();
                url = url.join(&action)?;
                let form = [("request", request.as_str()), ("user", user)];
                let same_origin = [("sec-fetch-site", "same-origin")];
                answer = self.send(Method::POST, &url, &same_origin, &form).await?;
            } else {
                return Ok((url, Some(answer)));
            }
        }
        bail!("more than {MAX_HOPS} redirects, the last to {url}")
    }

    /// Forgets the cookies of a host.
    pub fn forget(&mut self, host: &str) {
        self.jar.retain(|(of, _), _| of != host);
    }

    /// Signs in at the console.
    ///
    /// # Errors
    /// It does not end on the console, signed in.
    pub async fn sign_in(&mut self, user: &str) -> anyhow::Result<()> {
        let console = self.url(&self.edge.console(), "/auth/login?return=/")?;
        let (url, answer) = self.open(&console, user).await?;
        if answer.status != StatusCode::OK
            || url.path() != "/"
            || self.cookies(&self.edge.console()).is_empty()
        {
            bail!(
                "signing in ended at {} with {}: {}",
                url.path(),
                answer.status,
                answer.text()
            );
        }
        Ok(())
    }

    /// Address of a path on a host of the site.
    ///
    /// # Errors
    /// The path is none.
    pub fn url(&self, host: &str, path: &str) -> anyhow::Result<Url> {
        Ok(Url::parse(&format!("http://{host}/"))?.join(path)?)
    }
}

/// Value of an attribute of the first element that contains `marker`.
fn attribute(html: &str, marker: &str, name: &str) -> Option<String> {
    let (before, after) = html.split_once(marker)?;
    let element = before.rsplit_once('<').map_or("", |(_, start)| start);
    let element = format!("{element}{marker}{}", after.split_once('>')?.0);
    let value = element
        .split_once(&format!("{name}=\""))?
        .1
        .split_once('"')?
        .0;
    Some(value.replace("&amp;", "&"))
}
