//! What a request is for: path, query and `Accept`, read into types.

use http::HeaderMap;
use http::header::ACCEPT;

use super::failure::Failure;
use super::registry::{self, Served};
use super::selectors::{Fields, Labels, Selector};
use super::service::{FieldValidation, WriteOptions};

/// The part of an object that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sub {
    Whole,
    Status,
    Binding,
    Eviction,
    Log,
}

/// A path to objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectPath {
    pub(crate) served: Served,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) sub: Sub,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    Version,
    CoreVersions,
    Groups,
    Group(String),
    Resources { group: String, version: String },
    OpenapiV2,
    OpenapiIndex,
    OpenapiDocument(String),
    Objects(ObjectPath),
    Unknown,
}

/// Reads a path.
pub(crate) fn route(path: &str) -> Route {
    if let Some(document) = path.strip_prefix("/openapi/v3/") {
        return Route::OpenapiDocument(document.trim_end_matches('/').to_owned());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["livez" | "readyz" | "healthz", ..] => Route::Health,
        ["version"] => Route::Version,
        ["openapi", "v2"] => Route::OpenapiV2,
        ["openapi", "v3"] => Route::OpenapiIndex,
        ["api"] => Route::CoreVersions,
        ["apis"] => Route::Groups,
        ["apis", group] => Route::Group((*group).to_owned()),
        ["api", version] => resources("", version),
        ["apis", group, version] => resources(group, version),
        ["api", version, rest @ ..] => objects("", version, rest),
        ["apis", group, version, rest @ ..] => objects(group, version, rest),
        _ => Route::Unknown,
    }
}

fn resources(group: &str, version: &str) -> Route {
    Route::Resources {
        group: group.to_owned(),
        version: version.to_owned(),
    }
}

fn objects(group: &str, version: &str, rest: &[&str]) -> Route {
    let (namespace, rest) = match rest {
        // The subresources of a namespace look like kinds in it.
        ["namespaces", _, "status"] => (None, rest),
        ["namespaces", namespace, inner @ ..] if !inner.is_empty() => (Some(*namespace), inner),
        _ => (None, rest),
    };
    let (plural, name, sub) = match rest {
        [plural] => (plural, None, Sub::Whole),
        [plural, name] => (plural, Some(*name), Sub::Whole),
        [plural, name, "status"] => (plural, Some(*name), Sub::Status),
        ["pods", name, "binding"] => (&"pods", Some(*name), Sub::Binding),
        ["pods", name, "eviction"] => (&"pods", Some(*name), Sub::Eviction),
        ["pods", name, "log"] => (&"pods", Some(*name), Sub::Log),
        _ => return Route::Unknown,
    };
    let Some(served) = registry::find(group, version, plural) else {
        return Route::Unknown;
    };
    let info = served.resource.info();
    let placed = info.namespaced == namespace.is_some() || (info.namespaced && name.is_none());
    if !placed || (sub == Sub::Status && !info.status) {
        return Route::Unknown;
    }
    Route::Objects(ObjectPath {
        served,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        sub,
    })
}

/// The parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The value of a parameter; `None` when it is absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, v)| v.as_str())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| matches!(value, "true" | "1"))
    }

    /// A whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    Failure::bad_request(format!("{name}: {text:?} is not a whole number"))
                })
            })
            .transpose()
    }

    /// The resource version, 0 meaning any.
    pub(crate) fn version(&self) -> Result<Option<u64>, Failure> {
        self.number("resourceVersion")
    }

    pub(crate) fn selector(&self, served: Served) -> Result<Selector, Failure> {
        Ok(Selector {
            labels: Labels::parse(self.get("labelSelector").unwrap_or_default())?,
            fields: Fields::parse(served, self.get("fieldSelector").unwrap_or_default())?,
        })
    }

    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => Err(Failure::bad_request(format!(
                "dryRun: Unsupported value: {other:?}: supported values: \"All\""
            ))),
        }
    }

    pub(crate) fn write_options(&self) -> Result<WriteOptions, Failure> {
        let field_validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                return Err(Failure::bad_request(format!(
                    "fieldValidation: Unsupported value: {other:?}: supported values: \"Ignore\", \
                     \"Strict\", \"Warn\""
                )));
            }
        };
        Ok(WriteOptions {
            dry_run: self.dry_run()?,
            field_validation,
        })
    }
}

/// The form in which a client wants objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Table,
    Metadata,
}

/// Chooses the first form of `Accept` that is known here.
pub(crate) fn form(headers: &HeaderMap) -> Result<Form, Failure> {
    let accept = headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    accept
        .split(',')
        .find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*" | "") {
                return None;
            }
            match parts.find_map(|parameter| parameter.strip_prefix("as=")) {
                None => Some(Form::Whole),
                Some("Table") => Some(Form::Table),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Form::Metadata),
                Some(_) => None,
            }
        })
        .ok_or_else(|| {
            Failure::not_acceptable("only the following media types are accepted: application/json")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> String {
        match route(path) {
            Route::Objects(p) => format!(
                "{} ns={} name={} {:?}",
                p.served.resource.info().plural,
                p.namespace.unwrap_or_default(),
                p.name.unwrap_or_default(),
                p.sub
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn paths() {
        for (path, expected) in [
            ("/api/v1/pods", "pods ns= name= Whole"),
            ("/api/v1/namespaces/a/pods", "pods ns=a name= Whole"),
            ("/api/v1/namespaces/a/pods/p", "pods ns=a name=p Whole"),
            (
                "/api/v1/namespaces/a/pods/p/status",
                "pods ns=a name=p Status",
            ),
            (
                "/api/v1/namespaces/a/pods/p/binding",
                "pods ns=a name=p Binding",
            ),
            (
                "/api/v1/namespaces/a/pods/p/eviction",
                "pods ns=a name=p Eviction",
            ),
            ("/api/v1/namespaces/a/pods/p/log", "pods ns=a name=p Log"),
            ("/api/v1/namespaces", "namespaces ns= name= Whole"),
            ("/api/v1/namespaces/a", "namespaces ns= name=a Whole"),
            (
                "/api/v1/namespaces/a/status",
                "namespaces ns= name=a Status",
            ),
            ("/api/v1/nodes/n/status", "nodes ns= name=n Status"),
            (
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
                "leases ns=a name=l Whole",
            ),
            ("/api/v1/pods/p", "Unknown"),
            ("/api/v1/namespaces/a/nodes", "Unknown"),
            ("/api/v1/namespaces/a/configmaps/c/status", "Unknown"),
            ("/api/v1/namespaces/a/pods/p/exec", "Unknown"),
            ("/apis/apps/v1/deployments", "Unknown"),
            ("/livez", "Health"),
            ("/", "Unknown"),
        ] {
            assert_eq!(place(path), expected, "{path}");
        }
    }

    #[test]
    fn forms() {
        for (accept, expected) in [
            ("application/json", Some(Form::Whole)),
            ("*/*", Some(Form::Whole)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
                Some(Form::Table),
            ),
            (
                "application/vnd.kubernetes.protobuf;as=Table,application/json;as=Table",
                Some(Form::Table),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                Some(Form::Whole),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io",
                Some(Form::Metadata),
            ),
            (
                "application/json;as=Other,application/json",
                Some(Form::Whole),
            ),
            ("application/yaml", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(form(&headers).ok(), expected, "{accept}");
        }
    }
}
