//! LIST: selection, consistent paging, and the form asked for.

use data_encoding::BASE64URL_NOPAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::events::to_served;
use super::failure::Failure;
use super::object;
use super::request::{Form, ObjectPath, Query};
use super::store::{Object, Store};
use super::table::{self, IncludeObject};

/// Where the next page starts; opaque to clients.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    /// Version of the first page: all pages show the state of that moment.
    #[serde(rename = "rv")]
    version: u64,
    /// Last object given out.
    #[serde(rename = "ns")]
    namespace: String,
    #[serde(rename = "n")]
    name: String,
}

/// Answers a LIST.
pub(crate) fn list(
    store: &Store,
    path: &ObjectPath,
    query: &Query,
    form: Form,
) -> Result<Value, Failure> {
    let served = path.served;
    let namespace = path.namespace.as_deref();
    let selector = query.selector(served)?;
    let limit = query.number("limit")?.filter(|limit| *limit > 0);
    let asked = query.version()?.filter(|version| *version > 0);
    let from: Option<Continue> = query.get("continue").map(read_continue).transpose()?;

    let exact = match (&from, query.get("resourceVersionMatch"), asked) {
        (Some(from), _, _) => Some(from.version),
        (None, Some("Exact"), Some(version)) => Some(version),
        (None, Some("Exact"), None) => {
            return Err(Failure::bad_request(
                "resourceVersionMatch: Exact needs a resourceVersion other than 0",
            ));
        }
        _ => None,
    };
    let current = store.version();
    if let Some(version) = exact.or(asked).filter(|version| *version > current) {
        return Err(Failure::future_version(version, current));
    }
    let (all, version) = match exact {
        Some(version) => (store.list_at(served.resource, namespace, version)?, version),
        None => store.list(served.resource, namespace),
    };
    let start = from.map(|from| (from.namespace, from.name));
    let mut rest = all.into_iter().filter(|object| {
        selector.matches(object)
            && start.as_ref().is_none_or(|(ns, name)| {
                (object::namespace(object), object::name(object)) > (ns, name)
            })
    });
    let page: Vec<Object> = match limit {
        Some(limit) => rest
            .by_ref()
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .collect(),
        None => rest.by_ref().collect(),
    };
    let remaining = rest.count();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let (true, Some(last)) = (remaining > 0, page.last()) {
        metadata["continue"] = write_continue(version, last).into();
        if selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Ok(shown(path, query, form, &page, &metadata))
}

fn shown(path: &ObjectPath, query: &Query, form: Form, page: &[Object], metadata: &Value) -> Value {
    let served = path.served;
    let (kind, api_version, items): (String, String, Vec<Value>) = match form {
        Form::Table => {
            let include = IncludeObject::parse(query.get("includeObject").unwrap_or_default());
            let objects = page.iter().map(AsRef::as_ref);
            return table::render(served, objects, include, Timestamp::now(), metadata);
        }
        Form::Metadata => (
            "PartialObjectMetadataList".into(),
            "meta.k8s.io/v1".into(),
            page.iter().map(|object| table::partial(object)).collect(),
        ),
        Form::Whole => (
            format!("{}List", served.resource.info().kind),
            served.api_version(),
            page.iter()
                .map(|object| to_served(served, object))
                .collect(),
        ),
    };
    json!({"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items})
}

fn write_continue(version: u64, last: &Value) -> String {
    let token = Continue {
        version,
        namespace: object::namespace(last).to_owned(),
        name: object::name(last).to_owned(),
    };
    BASE64URL_NOPAD.encode(&serde_json::to_vec(&token).unwrap_or_default())
}

fn read_continue(token: &str) -> Result<Continue, Failure> {
    BASE64URL_NOPAD
        .decode(token.as_bytes())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| Failure::bad_request("continue key is not valid"))
}
