//! Requests that change something: bodies, and what is answered.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, WARNING};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::binding::bind_in;
use super::events::to_served;
use super::eviction::evict_in;
use super::failure::Failure;
use super::http::{Api, Reply, json_reply, ok, show, target};
use super::listing;
use super::object;
use super::patch::PatchType;
use super::protobuf;
use super::registry::Resource;
use super::removal;
use super::request::{Form, ObjectPath, Query, Sub};
use super::service::{self, Written};
use super::store::{Key, Store};
use super::strategy::Part;

/// Bodies above this are refused unread.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// A client that sends its body more slowly than this is let go.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Reads a body within its limits.
async fn body(request: Request<Incoming>) -> Result<(http::request::Parts, Bytes), Failure> {
    let (parts, body) = request.into_parts();
    let read = Limited::new(body, BODY_LIMIT).collect();
    let collected = tokio::time::timeout(BODY_TIMEOUT, read)
        .await
        .map_err(|_| Failure::bad_request("the request body took too long to arrive"))?
        .map_err(|error| {
            if error.downcast_ref::<LengthLimitError>().is_some() {
                Failure::too_large(format!("Request entity too large: limit is {BODY_LIMIT}"))
            } else {
                Failure::bad_request("the request body could not be read")
            }
        })?;
    Ok((parts, collected.to_bytes()))
}

/// Parses a body: JSON, YAML, or the protobuf of a few kinds.
fn json_body(parts: &http::request::Parts, bytes: &[u8]) -> Result<Value, Failure> {
    let content_type = parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    match media {
        "" | "application/json" => serde_json::from_slice(bytes)
            .map_err(|error| Failure::bad_request(format!("couldn't parse the body: {error}"))),
        "application/yaml" => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| serde_saphyr::from_str(text).ok())
            .ok_or_else(|| Failure::bad_request("couldn't parse the body: it is not YAML")),
        protobuf::MEDIA => protobuf::decode(bytes),
        other => Err(Failure::unsupported_media_type(format!(
            "the body of the request was in an unknown format ({other}) - accepted media types \
             include: application/json, application/yaml"
        ))),
    }
}

/// Answers POST, PUT and PATCH.
pub(super) async fn write(
    api: &Api,
    verb: &str,
    path: &ObjectPath,
    query: &Query,
    form: Form,
    request: Request<Incoming>,
) -> Reply {
    let options = query.write_options()?;
    let (parts, bytes) = body(request).await?;
    let target = target(path);
    let part = if path.sub == Sub::Status {
        Part::Status
    } else {
        Part::Main
    };
    let store = &api.store;
    let written = match (verb, path.sub) {
        ("create", Sub::Binding) => {
            let binding = json_body(&parts, &bytes)?;
            return bind(store, target.key(), binding, options.dry_run).await;
        }
        ("create", Sub::Eviction) => {
            let eviction = json_body(&parts, &bytes)?;
            return evict(store, target.key(), &eviction, options.dry_run).await;
        }
        ("create", Sub::Whole) => {
            if path.served.resource.info().namespaced && path.namespace.is_none() {
                return Err(Failure::method_not_allowed());
            }
            service::create(store, target, json_body(&parts, &bytes)?, options).await?
        }
        ("update", Sub::Whole | Sub::Status) => {
            service::update(store, target, part, json_body(&parts, &bytes)?, options).await?
        }
        ("patch", Sub::Whole | Sub::Status) => {
            let content_type = parts
                .headers
                .get(CONTENT_TYPE)
                .and_then(|v| v.to_str().ok())
                .unwrap_or_default();
            let kind = PatchType::from_content_type(content_type)?;
            let patch = serde_json::from_slice(&bytes)
                .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
            service::patch(store, target, part, kind, patch, options).await?
        }
        _ => return Err(Failure::method_not_allowed()),
    };
    Ok(written_reply(path, query, form, &written))
}

fn written_reply(
    path: &ObjectPath,
    query: &Query,
    form: Form,
    written: &Written,
) -> Response<Body> {
    let status = if written.created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let mut response = json_reply(status, &show(path, query, form, &written.object));
    for warning in &written.warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

async fn bind(store: &Store, key: Key, binding: Value, dry_run: bool) -> Reply {
    let node = object::text(&binding, "/target/name").to_owned();
    if node.is_empty() || !matches!(object::text(&binding, "/target/kind"), "" | "Node") {
        return Err(Failure::bad_request(
            "a binding needs a target of kind Node with a name",
        ));
    }
    service::transact(store, dry_run, move |tx| bind_in(tx, &key, &node, &binding)).await?;
    Ok(json_reply(StatusCode::CREATED, &service::success(None)))
}

async fn evict(store: &Store, key: Key, eviction: &Value, dry_run: bool) -> Reply {
    let named = object::name(eviction);
    if !named.is_empty() && named != key.name {
        return Err(Failure::bad_request(format!(
            "name in URL ({}) does not match name in Eviction object ({named})",
            key.name
        )));
    }
    let options = removal::options(eviction.get("deleteOptions"), None, dry_run)?;
    let dry_run = options.dry_run;
    service::transact(store, dry_run, move |tx| evict_in(tx, &key, &options)).await?;
    Ok(json_reply(StatusCode::CREATED, &service::success(None)))
}

async fn delete_options(
    query: &Query,
    request: Request<Incoming>,
) -> Result<removal::DeleteOptions, Failure> {
    let (parts, bytes) = body(request).await?;
    let sent = if bytes.is_empty() {
        None
    } else {
        Some(json_body(&parts, &bytes)?)
    };
    removal::options(
        sent.as_ref(),
        query.get("gracePeriodSeconds"),
        query.dry_run()?,
    )
}

/// Answers DELETE of one object.
pub(super) async fn delete(
    api: &Api,
    path: &ObjectPath,
    query: &Query,
    request: Request<Incoming>,
) -> Reply {
    let options = delete_options(query, request).await?;
    let target = target(path);
    let resource = target.resource();
    let deleted = removal::delete(&api.store, target, options).await?;
    // Pods answer with the pod; other kinds only while something still holds the object.
    if resource == Resource::Pods || !deleted.gone {
        return Ok(ok(&to_served(path.served, &deleted.object)));
    }
    let info = resource.info();
    let mut details = json!({
        "name": object::name(&deleted.object), "kind": info.plural,
        "uid": object::uid(&deleted.object),
    });
    if !path.served.group.is_empty() {
        details["group"] = path.served.group.into();
    }
    Ok(ok(&service::success(Some(details))))
}

/// Answers DELETE of all objects that are selected.
pub(super) async fn delete_collection(
    api: &Api,
    path: &ObjectPath,
    query: &Query,
    form: Form,
    request: Request<Incoming>,
) -> Reply {
    let info = path.served.resource.info();
    if info.namespaced && path.namespace.is_none() {
        return Err(Failure::method_not_allowed());
    }
    let options = delete_options(query, request).await?;
    let list = listing::list(&api.store, path, query, form)?;
    let selector = query.selector(path.served)?;
    let (all, _) = api
        .store
        .list(path.served.resource, path.namespace.as_deref());
    for object in all.iter().filter(|object| selector.matches(object)) {
        let mut target = target(path);
        object::name(object).clone_into(&mut target.name);
        // The uid keeps a successor of the same name safe.
        let one = removal::DeleteOptions {
            uid: Some(object::uid(object).to_owned()),
            ..options.clone()
        };
        match removal::delete(&api.store, target, one).await {
            Err(failure) if failure.code() != 404 && failure.code() != 409 => return Err(failure),
            _ => {}
        }
    }
    Ok(ok(&list))
}
