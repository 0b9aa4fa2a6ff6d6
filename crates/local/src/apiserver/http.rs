//! From an HTTP request to a verb, and back to a response.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::auth::{self, Tokens, User};
use super::discovery;
use super::events::to_served;
use super::failure::Failure;
use super::listing;
use super::logs;
use super::object;
use super::request::{self, Form, ObjectPath, Query, Route, Sub};
use super::service::Target;
use super::store::Store;
use super::table::{self, IncludeObject};
use super::watch::{self, WatchOptions};
use super::writing;

/// Watches that ask for no end get this one; clients start the next where it left off.
const WATCH_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest watch that is granted.
const WATCH_LONGEST: Duration = Duration::from_secs(6 * 3600);

/// What requests work on.
pub(crate) struct Api {
    pub(crate) store: Arc<Store>,
    pub(crate) data_dir: PathBuf,
    pub(crate) tokens: Tokens,
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
}

pub(super) type Reply = Result<Response<Body>, Failure>;

/// Answers a request. Every failure becomes a `Status`.
pub(crate) async fn handle(api: Arc<Api>, request: Request<Incoming>) -> Response<Body> {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let reply = Box::pin(answer(&api, request)).await;
    reply.unwrap_or_else(|failure| {
        tracing::debug!(%method, path, code = failure.code(), "request refused");
        refusal(&failure)
    })
}

fn refusal(failure: &Failure) -> Response<Body> {
    let status = StatusCode::from_u16(failure.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_reply(status, &failure.status());
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if failure.code() == 504 {
        response
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

pub(super) fn json_reply(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(
        "cache-control",
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

pub(super) fn ok(value: &Value) -> Response<Body> {
    json_reply(StatusCode::OK, value)
}

async fn answer(api: &Api, request: Request<Incoming>) -> Reply {
    let route = request::route(request.uri().path());
    if route == Route::Health {
        return Ok(Response::new(Body::from("ok")));
    }
    let user =
        auth::authenticate(&api.tokens, request.headers()).ok_or_else(Failure::unauthorized)?;
    let found = match route {
        Route::Objects(path) => return objects(api, user, path, request).await,
        Route::Version => Some(discovery::version()),
        Route::CoreVersions => Some(discovery::core_versions(&api.address.to_string())),
        Route::Groups => Some(discovery::group_list()),
        Route::Group(name) => discovery::group(&name),
        Route::Resources { group, version } => discovery::resources(&group, &version),
        Route::OpenapiV2 if wants_protobuf(request.headers()) => return Ok(openapi_protobuf()),
        Route::OpenapiV2 => Some(discovery::openapi_v2()),
        Route::OpenapiIndex => Some(discovery::openapi_index()),
        Route::OpenapiDocument(path) => discovery::openapi_document(&path),
        Route::Health | Route::Unknown => None,
    };
    if user == User::Proxy && found.is_none() {
        return Err(Failure::denied_path(
            user.name(),
            "get",
            request.uri().path(),
        ));
    }
    let found = found.ok_or_else(Failure::no_resource)?;
    if request.method() != Method::GET {
        return Err(Failure::method_not_allowed());
    }
    Ok(ok(&found))
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.starts_with(discovery::OPENAPI_V2_ACCEPT))
}

fn openapi_protobuf() -> Response<Body> {
    let mut response = Response::new(Body::from(discovery::OPENAPI_V2_PROTOBUF));
    let media = HeaderValue::from_static(discovery::OPENAPI_V2_CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, media);
    response
}

fn verb(method: &Method, path: &ObjectPath, query: &Query) -> Result<&'static str, Failure> {
    let named = path.name.is_some();
    Ok(match (method.as_str(), named) {
        ("GET", _) if query.flag("watch") && path.sub == Sub::Whole => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", false) => "create",
        ("POST", true) if matches!(path.sub, Sub::Binding | Sub::Eviction) => "create",
        ("PUT", true) => "update",
        ("PATCH", true) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => return Err(Failure::method_not_allowed()),
    })
}

async fn objects(api: &Api, user: User, path: ObjectPath, request: Request<Incoming>) -> Reply {
    let query = Query::parse(request.uri().query());
    let verb = verb(request.method(), &path, &query)?;
    let plural = path.served.resource.info().plural;
    let resource = match path.sub {
        Sub::Whole => plural.to_owned(),
        Sub::Status => format!("{plural}/status"),
        Sub::Binding => format!("{plural}/binding"),
        Sub::Eviction => format!("{plural}/eviction"),
        Sub::Log => format!("{plural}/log"),
    };
    if !user.may(verb, path.served.group, &resource) {
        let scope = match &path.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let name = path.name.as_deref().unwrap_or_default();
        return Err(Failure::denied(
            user.name(),
            verb,
            path.served.group,
            &resource,
            name,
            &scope,
        ));
    }
    let form = request::form(request.headers())?;
    match (verb, path.sub) {
        ("get", Sub::Log) => log(api, &path, &query).await,
        ("get", Sub::Whole | Sub::Status) => get(api, &path, &query, form),
        ("list", _) => listing::list(&api.store, &path, &query, form).map(|list| ok(&list)),
        ("watch", _) => start_watch(api, path, &query, form),
        ("create" | "update" | "patch", _) => {
            writing::write(api, verb, &path, &query, form, request).await
        }
        ("delete", Sub::Whole) => writing::delete(api, &path, &query, request).await,
        ("deletecollection", Sub::Whole) => {
            writing::delete_collection(api, &path, &query, form, request).await
        }
        _ => Err(Failure::method_not_allowed()),
    }
}

pub(super) fn target(path: &ObjectPath) -> Target {
    Target {
        served: path.served,
        namespace: path.namespace.clone().unwrap_or_default(),
        name: path.name.clone().unwrap_or_default(),
    }
}

fn get(api: &Api, path: &ObjectPath, query: &Query, form: Form) -> Reply {
    let target = target(path);
    let object = api
        .store
        .get(target.resource(), &target.key())
        .ok_or_else(|| Failure::not_found(target.resource(), &target.name))?;
    Ok(ok(&show(path, query, form, &object)))
}

/// One object in the form asked for.
pub(super) fn show(path: &ObjectPath, query: &Query, form: Form, object: &Value) -> Value {
    match form {
        Form::Whole => to_served(path.served, object),
        Form::Metadata => table::partial(object),
        Form::Table => {
            let include = IncludeObject::parse(query.get("includeObject").unwrap_or_default());
            let metadata =
                json!({"resourceVersion": object::text(object, "/metadata/resourceVersion")});
            table::render(
                path.served,
                [object],
                include,
                jiff::Timestamp::now(),
                &metadata,
            )
        }
    }
}

fn start_watch(api: &Api, path: ObjectPath, query: &Query, form: Form) -> Reply {
    let mut selector = query.selector(path.served)?;
    if let Some(name) = &path.name {
        if selector.pinned_name().is_some_and(|pinned| pinned != name) {
            return Err(Failure::bad_request(
                "field selector metadata.name doesn't match the name of the path",
            ));
        }
        selector = selector.with_name(name);
    }
    let initial_events = query.flag("sendInitialEvents");
    if initial_events && query.get("resourceVersionMatch") != Some("NotOlderThan") {
        return Err(Failure::bad_request(
            "sendInitialEvents is set: resourceVersionMatch must be NotOlderThan",
        ));
    }
    let timeout = query
        .number("timeoutSeconds")?
        .filter(|seconds| *seconds > 0)
        .map_or(WATCH_TIMEOUT, Duration::from_secs);
    let options = WatchOptions {
        served: path.served,
        namespace: path.namespace,
        selector,
        form,
        include: IncludeObject::parse(query.get("includeObject").unwrap_or_default()),
        version: query.version()?,
        bookmarks: query.flag("allowWatchBookmarks"),
        initial_events,
        timeout: timeout.min(WATCH_LONGEST),
    };
    let stream = watch::stream(Arc::clone(&api.store), options, api.shutdown.clone());
    let mut response = Response::new(Body::from_stream(stream));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

async fn log(api: &Api, path: &ObjectPath, query: &Query) -> Reply {
    let key = target(path).key();
    let store = Arc::clone(&api.store);
    let stream = logs::stream(store, &api.data_dir, key, query, api.shutdown.clone()).await?;
    let mut response = Response::new(Body::from_stream(stream));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}
