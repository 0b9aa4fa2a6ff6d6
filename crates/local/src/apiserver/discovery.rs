//! Discovery, version and the part of OpenAPI v3 that kubectl reads.

use serde_json::{Value, json};

use super::registry::Resource;
use super::registry::{self, Served, api_version};

/// The Kubernetes version whose rules this server follows.
const VERSION: (&str, &str, &str) = ("1", "34", "v1.34.0");

pub(crate) fn version() -> Value {
    let (major, minor, git) = VERSION;
    json!({
        "major": major, "minor": minor, "gitVersion": format!("{git}+nogoo9"),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": "linux/local",
    })
}

pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

pub(crate) fn group_list() -> Value {
    let groups: Vec<Value> = registry::groups()
        .into_iter()
        .map(|(group, version)| entry(group, version))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// One group; `None` when it is not served.
pub(crate) fn group(name: &str) -> Option<Value> {
    let (group, version) = registry::groups()
        .into_iter()
        .find(|(group, _)| *group == name)?;
    let mut found = entry(group, version);
    super::object::set(&mut found, &["kind"], "APIGroup");
    super::object::set(&mut found, &["apiVersion"], "v1");
    Some(found)
}

fn entry(group: &str, version: &str) -> Value {
    let version = json!({"groupVersion": api_version(group, version), "version": version});
    json!({"name": group, "versions": [version], "preferredVersion": version})
}

/// The kinds of a group version; `None` when it is not served.
pub(crate) fn resources(group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    for served in in_group(group, version) {
        let info = served.resource.info();
        let mut whole = json!({
            "name": info.plural, "singularName": info.singular, "namespaced": info.namespaced,
            "kind": info.kind,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        if !info.short.is_empty() {
            super::object::set(&mut whole, &["shortNames"], json!(info.short));
        }
        if !info.categories.is_empty() {
            super::object::set(&mut whole, &["categories"], json!(info.categories));
        }
        list.push(whole);
        for (part, kind, verbs) in subresources(served.resource) {
            let mut entry = json!({
                "name": format!("{}/{part}", info.plural), "singularName": "",
                "namespaced": info.namespaced, "kind": kind, "verbs": verbs,
            });
            if part == "eviction" {
                // What a client has to send is of another group; drains look for this.
                entry["group"] = "policy".into();
                entry["version"] = "v1".into();
            }
            list.push(entry);
        }
    }
    (!list.is_empty()).then(|| {
        json!({
            "kind": "APIResourceList", "apiVersion": "v1",
            "groupVersion": api_version(group, version), "resources": list,
        })
    })
}

fn in_group(group: &str, version: &str) -> impl Iterator<Item = Served> {
    registry::served().filter(move |s| s.group == group && s.version == version)
}

fn subresources(resource: Resource) -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let info = resource.info();
    let mut parts = Vec::new();
    if info.status {
        parts.push(("status", info.kind, vec!["get", "patch", "update"]));
    }
    if resource == Resource::Pods {
        parts.push(("binding", "Binding", vec!["create"]));
        parts.push(("eviction", "Eviction", vec!["create"]));
        parts.push(("log", "Pod", vec!["get"]));
    }
    parts
}

/// The index of OpenAPI v3 documents.
pub(crate) fn openapi_index() -> Value {
    let mut paths = serde_json::Map::new();
    let core = [("", "v1")];
    for (group, version) in core.into_iter().chain(registry::groups()) {
        let path = group_path(group, version);
        paths.insert(
            path.clone(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=1")}),
        );
    }
    json!({"paths": paths})
}

/// `api/v1`, `apis/coordination.k8s.io/v1`.
fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The OpenAPI v3 document of a group version. kubectl looks up here which kinds have a PATCH
/// that takes `fieldValidation` and `dryRun`; then it leaves validation to the server. Schemas of
/// the kinds are not offered: it knows the built-in ones itself.
pub(crate) fn openapi_document(path: &str) -> Option<Value> {
    let core = [("", "v1")];
    let (group, version) = core
        .into_iter()
        .chain(registry::groups())
        .find(|(g, v)| group_path(g, v) == path)?;
    let mut paths = serde_json::Map::new();
    for served in in_group(group, version) {
        let info = served.resource.info();
        let scope = if info.namespaced {
            "namespaces/{namespace}/"
        } else {
            ""
        };
        paths.insert(
            format!("/{path}/{scope}{}/{{name}}", info.plural),
            validated_patch(group, version, info.kind),
        );
    }
    Some(json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": VERSION.2}, "paths": paths,
    }))
}

/// The OpenAPI v2 document as JSON. It describes no kind.
pub(crate) fn openapi_v2() -> Value {
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": VERSION.2}, "paths": {},
    })
}

/// The same as protobuf (`openapi.v2.Document` with only `swagger` set), in which kubectl asks for
/// it when it is given a `List`. A kind that is not described is validated by the server alone.
pub(crate) const OPENAPI_V2_PROTOBUF: &[u8] = b"\x0a\x032.0";

/// The media type by which clients ask for [`OPENAPI_V2_PROTOBUF`].
pub(crate) const OPENAPI_V2_ACCEPT: &str =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The media type under which it is sent: `@` is no character of a media type.
pub(crate) const OPENAPI_V2_CONTENT_TYPE: &str =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

fn validated_patch(group: &str, version: &str, kind: &str) -> Value {
    let query = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    json!({"patch": {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
        "parameters": [query("dryRun"), query("fieldManager"), query("fieldValidation")],
        "responses": {"200": {"description": "OK"}},
    }})
}
