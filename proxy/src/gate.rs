//! From a request's head to what is done with it: the whole of routing, authentication and access,
//! without waiting and without side effects.

mod asked;
mod cross_origin;
mod decision;
mod extra;
mod prove;
mod sign_in;

use crate::personal::Verdict;
use crate::reply::{Html, Reply};
use crate::route::{Mode, Place, Router, Target};
use crate::strict::Flaw;
use crate::table::{Route, Status, Table};
use crate::tunnel::request::wants_websocket;
use http::header::{ACCEPT, HOST, UPGRADE, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use nogoo9_identity::{Authenticator, challenge};
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::{Action, Caller, Denied, Target as Object, may};
use percent_encoding::{CONTROLS, utf8_percent_encode};
use pingora::http::RequestHeader;
use std::sync::Arc;
use url::Url;

pub use asked::{Asked, Wants};
pub use decision::{Decision, Opened, Session, Stale};
pub use extra::Extra;
pub(crate) use extra::{may_keep, may_open};
use prove::{Proof, Proven};
pub(crate) use sign_in::target;

/// Decides about requests.
#[derive(Debug)]
pub struct Gate {
    /// Our hosts and paths.
    pub router: Router,
    /// What is routed to.
    pub table: Table,
    /// Who is calling.
    pub auth: Arc<Authenticator>,
    /// URL of the console.
    pub console: Url,
    challenge_at: String,
    /// The scope that opening a page needs, if scopes count.
    scope: Option<&'static str>,
}

impl Gate {
    /// Puts the parts together; `audience` names the resource that challenges point to.
    #[must_use]
    pub fn new(router: Router, table: Table, auth: Arc<Authenticator>, console: Url) -> Self {
        let resource = console.join("/mcp").unwrap_or_else(|_| console.clone());
        let challenge_at = challenge::metadata_url(&resource);
        Self {
            router,
            table,
            auth,
            console,
            challenge_at,
            scope: None,
        }
    }

    /// Where scopes count, challenges name the one that opening a page needs.
    #[must_use]
    pub fn with_scopes(self, count: bool) -> Self {
        Self {
            scope: count.then(|| Action::Open.scope()),
            ..self
        }
    }

    /// What is done with `request` at `now`. With `keys_fetched`, an unknown key is final.
    #[must_use]
    pub fn decide(
        &self,
        request: &RequestHeader,
        now: UnixSeconds,
        keys_fetched: bool,
    ) -> Decision {
        let proof = Proof::Headers {
            keys_fetched,
            session: Session::AsSent,
        };
        self.decide_by(request, now, proof)
    }

    /// As [`Self::decide`], once it is known what the session of the cookie comes to.
    #[must_use]
    pub fn decide_session(
        &self,
        request: &RequestHeader,
        now: UnixSeconds,
        session: Session,
    ) -> Decision {
        let proof = Proof::Headers {
            keys_fetched: true,
            session,
        };
        self.decide_by(request, now, proof)
    }

    /// What is done with `request` at `now`, whose personal access token comes to `verdict`.
    #[must_use]
    pub fn decide_for(
        &self,
        request: &RequestHeader,
        now: UnixSeconds,
        verdict: Verdict,
    ) -> Decision {
        self.decide_by(request, now, Proof::Told(verdict))
    }

    fn decide_by(&self, request: &RequestHeader, now: UnixSeconds, proof: Proof) -> Decision {
        let host = host_of(request);
        let path = request.uri.path();
        let target = self.router.target(host, path);
        if self.router.is_ambiguous(host, path, &target) {
            return Decision::Reply(Reply::flawed(Flaw::Path));
        }
        match target {
            Target::Misdirected => {
                Decision::Reply(Reply::misdirected("This host is not served here."))
            }
            Target::Control => Decision::Control {
                host: self.router.public_host(host),
            },
            Target::Login => Decision::Control {
                host: self.router.path_host(),
            },
            Target::Internal | Target::Nothing => {
                Decision::Reply(self.not_found(html_for(request)))
            }
            Target::Slash(id) => Decision::Reply(slash(id, request.uri.query())),
            Target::Workspace(place) => self.workspace(request, &place, now, proof),
        }
    }

    fn workspace(
        &self,
        request: &RequestHeader,
        place: &Place<'_>,
        now: UnixSeconds,
        proof: Proof,
    ) -> Decision {
        let host = self.bound_host(place);
        let reads = matches!(request.method, Method::GET | Method::HEAD);
        let wants = match place.ours {
            Some("login") if place.mode == Mode::Host => return Decision::Control { host },
            None => Wants::Page,
            Some("status") if reads => Wants::Status,
            Some("events") if reads => Wants::Events,
            Some("start") if request.method == Method::POST => Wants::Start,
            Some(_) => return Decision::Reply(self.not_found(html_for(request))),
        };
        if let Some(reply) = self.preflight(request, place) {
            return Decision::Reply(reply);
        }
        if self.auth.holds_token(request.uri.query()) {
            return Decision::Reply(self.token_in_url());
        }
        let html = match wants {
            // It leads back to a page, and may be asked for again.
            Wants::Start if is_document(request) => Html::Page,
            Wants::Start => Html::No,
            Wants::Page | Wants::Status | Wants::Events => html_for(request),
        };
        let nobody = || {
            match html {
                Html::No => return Decision::Reply(self.unauthorized(None, place, &host)),
                Html::Form => return Decision::Reply(self.signed_out(place, &host)),
                Html::Page => {}
            }
            let back = match wants {
                Wants::Start => asked::back(request, place),
                Wants::Page | Wants::Status | Wants::Events => sign_in::target(request).to_owned(),
            };
            Decision::Reply(self.sign_in(request, place.mode, &host, &back))
        };
        let (caller, by_named_origin) = match self.prove(request, place, &host, now, proof) {
            Proven::By {
                caller,
                named_origin,
            } => (caller, named_origin),
            Proven::Nobody => return nobody(),
            Proven::Otherwise(decision) => return decision,
        };
        // Whatever the workspace: what may not look opens none.
        if let Err(Denied::Scope { needed }) = may(&caller.caller, Action::Open, Object::Nothing) {
            return Decision::Reply(self.insufficient_scope(&caller.caller, needed));
        }
        let known = self.table.get(&place.id);
        let websocket = wants_websocket(request);
        let theirs = known.is_none();
        let ask = |caller, host, opened: Option<Opened>| {
            Decision::Ask(Box::new(Asked {
                id: place.id.as_ref().to_owned(),
                port: place.port.as_deref().map(ToOwned::to_owned),
                path: place.path.to_owned(),
                caller,
                mode: place.mode,
                host,
                html,
                websocket,
                wants,
                back: asked::back(request, place),
                theirs: theirs || opened.is_some(),
                opened,
            }))
        };
        let open = known.and_then(|workspace| {
            let route = workspace.route();
            let extra = Extra::find(&route, place.port.as_deref(), place.path).ok()?;
            may_open(&caller, &route, place.mode, extra.as_ref())
                .then_some((workspace, route, extra))
        });
        // Not there and not yours take the same way out, so that they cannot be told apart.
        let Some((workspace, route, extra)) = open else {
            if by_named_origin {
                // It might be opened a moment ago: what let the cookie count is theirs no more.
                return nobody();
            }
            if !self.table.is_complete() {
                return Decision::Reply(Reply::unavailable(
                    html,
                    "The edge has just started and does not know all workspaces yet.",
                ));
            }
            return ask(caller, host, None);
        };
        if let Some(extra) = &extra
            && extra.is_ambiguous(&route, place.path)
        {
            return Decision::Reply(Reply::flawed(Flaw::Path));
        }
        if html.may_reload()
            && let Some(reply) = slash_after(place, extra.as_ref(), request.uri.query())
        {
            return Decision::Reply(reply);
        }
        let opened = Opened {
            workspace,
            extra,
            caller,
            mode: place.mode,
            host,
            html,
            websocket,
            said: None,
        };
        match wants {
            Wants::Page if route.status != Status::Away => Decision::Open(opened),
            // Whoever is held already was told to wait; the next one need not ask again. A page
            // follows what control says, so it does.
            Wants::Page if !html.may_reload() && opened.workspace.is_awaited() => {
                Decision::Open(opened)
            }
            Wants::Status if !matches!(route.status, Status::Away | Status::Serving) => {
                Decision::Reply(opened.status())
            }
            // Its last pod is going: whether one comes, control knows. Or there is one, which may take no
            // connections.
            Wants::Page | Wants::Status | Wants::Events | Wants::Start => {
                ask(opened.caller.clone(), opened.host.clone(), Some(opened))
            }
        }
    }

    /// The host that sessions at `place` are bound to.
    fn bound_host(&self, place: &Place<'_>) -> String {
        match (place.mode, &place.port) {
            (Mode::Host, None) => self.router.workspace_host(&place.id),
            (Mode::Host, Some(port)) => self.router.port_host(port, &place.id),
            (Mode::Path, _) => self.router.path_host(),
        }
    }

    /// The workspace that a request is for, and the host that sessions for it are bound to.
    #[must_use]
    pub fn addressed(&self, request: &RequestHeader) -> Option<(String, String)> {
        match self.router.target(host_of(request), request.uri.path()) {
            Target::Workspace(place) => {
                let host = self.bound_host(&place);
                Some((place.id.into_owned(), host))
            }
            _ => None,
        }
    }

    /// The path inside of the workspace that a request is for, as control is asked by it.
    pub(crate) fn inside<'a>(&self, request: &'a RequestHeader) -> &'a str {
        match self.router.target(host_of(request), request.uri.path()) {
            Target::Workspace(place) => place.path,
            _ => "/",
        }
    }

    /// Which port of a workspace that is routed so a request is for; `None`: one that there is not, or that
    /// cannot be told.
    pub(crate) fn extra(&self, request: &RequestHeader, route: &Route) -> Option<Option<Extra>> {
        let Target::Workspace(place) = self.router.target(host_of(request), request.uri.path())
        else {
            return None;
        };
        Extra::find_plain(route, place.port.as_deref(), place.path)
    }

    /// What a workspace that has come to the table meanwhile is to whoever asked for it.
    #[must_use]
    pub fn admit(&self, asked: &Asked) -> Option<Opened> {
        let workspace = self.table.get(&asked.id)?;
        let route = workspace.route();
        let extra = Extra::find_plain(&route, asked.port.as_deref(), &asked.path)?;
        let open = may_open(&asked.caller, &route, asked.mode, extra.as_ref());
        open.then(|| Opened {
            workspace,
            extra,
            caller: asked.caller.clone(),
            mode: asked.mode,
            host: asked.host.clone(),
            html: asked.html,
            websocket: asked.websocket,
            said: None,
        })
    }

    /// The one answer for what is not there and what is not theirs.
    #[must_use]
    pub fn not_found(&self, html: Html) -> Reply {
        Reply::not_found(html, self.console.as_str())
    }

    /// A token of ours is where it must not be, and where the pod would get to see it.
    fn token_in_url(&self) -> Reply {
        let message = challenge::TOKEN_IN_URL;
        Reply::error(StatusCode::BAD_REQUEST, "invalid_request", message).with(
            WWW_AUTHENTICATE.as_str(),
            challenge::token_in_url(&self.challenge_at),
        )
    }

    /// The token counts and does not reach that far (RFC 6750, section 3.1).
    fn insufficient_scope(&self, caller: &Caller, needed: &'static str) -> Reply {
        let message = Denied::Scope { needed }.to_string();
        let granted = caller.scopes.as_ref();
        Reply::error(StatusCode::FORBIDDEN, "insufficient_scope", &message).with(
            WWW_AUTHENTICATE.as_str(),
            challenge::insufficient_scope(&self.challenge_at, granted, needed),
        )
    }
}

/// What path mode puts before a workspace's own paths.
fn prefix(mode: Mode, id: &str) -> Option<String> {
    (mode == Mode::Path).then(|| format!("/route/{id}"))
}

/// Where in a workspace the edge answers itself.
fn ours(mode: Mode, id: &str, name: &str) -> String {
    format!("{}/.nogoo9/{name}", prefix(mode, id).unwrap_or_default())
}

fn slash(id: &str, query: Option<&str>) -> Reply {
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    // As it is, but for what a header cannot hold.
    let id = utf8_percent_encode(id, CONTROLS);
    Reply::redirect(
        StatusCode::PERMANENT_REDIRECT,
        format!("/route/{id}/{query}"),
    )
}

/// The path of an extra port without its final slash, as `/route/{id}` is: relative links of the page would
/// miss the path. Only for pages: whatever calls an API asks for what it means.
fn slash_after(place: &Place<'_>, extra: Option<&Extra>, query: Option<&str>) -> Option<Reply> {
    extra?.path.as_deref().filter(|path| *path == place.path)?;
    let before = prefix(place.mode, &place.id).unwrap_or_default();
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let to = format!("{before}{}/{query}", place.path);
    Some(Reply::redirect(StatusCode::TEMPORARY_REDIRECT, to))
}

/// The host as the client asked for it: `:authority` of HTTP/2, else the `Host` header.
pub(crate) fn host_of(request: &RequestHeader) -> &str {
    if let Some(authority) = request.uri.authority() {
        return authority.as_str();
    }
    request
        .headers
        .get(HOST)
        .and_then(|host| host.to_str().ok())
        .unwrap_or_default()
}

/// How a request may be answered by us in its workspace's place.
pub(crate) fn html_for(request: &RequestHeader) -> Html {
    match request.method {
        _ if !is_document(request) => Html::No,
        Method::GET | Method::HEAD => Html::Page,
        Method::POST => Html::Form,
        _ => Html::No,
    }
}

/// Whether a browser loads a document: says so itself, or, being an old one, wants HTML. What a script
/// sends, and what asks for another protocol, is none.
fn is_document(request: &RequestHeader) -> bool {
    if request.headers.contains_key(UPGRADE) {
        return false;
    }
    let header = |name: &str| {
        request
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    match header("sec-fetch-mode") {
        Some(mode) => mode.eq_ignore_ascii_case("navigate"),
        None => {
            let by_script = header("x-requested-with") == Some("XMLHttpRequest");
            !by_script && header(ACCEPT.as_str()).is_some_and(|accept| accept.contains("text/html"))
        }
    }
}

#[cfg(test)]
mod tests;
