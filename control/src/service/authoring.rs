//! Writing templates: by admins and those whom `--template-author` names.
//!
//! A template is one ConfigMap. It is read by the same reader as any other, and refused as a whole if it
//! could not be used. Nothing but templates is ever changed or deleted here, whatever the name.

use super::even::evenly;
use super::lifecycle::TRIES;
use super::types::{CreateTemplate, DeletedTemplate, Template as Shown, UpdateTemplate};
use super::{Answer, Parts, ServiceError, view};
use crate::cluster::ClusterError;
use crate::template::source::{Parsed, is_object_name};
use crate::template::{Document, TemplateError, parse, settings};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nogoo9_model::access::{Action, AllowedRoles, Authors, Caller, Target, may};
use nogoo9_model::keys;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Longest name of a new template: it is the value of no label, but part of many a line.
const MAX_NAME: usize = 63;
/// Beginnings of names that are taken by other objects of control's namespace.
const RESERVED: [&str; 2] = ["nogoo9-", "kube-"];

pub(super) async fn create(
    parts: &Parts,
    authors: &Authors,
    caller: &Caller,
    args: &CreateTemplate,
) -> Answer<Shown> {
    allow(caller, authors)?;
    let name = args.name.as_str();
    check_name(name)?;
    if parts.templates.read_file(name).await.is_some() {
        return Err(taken(name));
    }
    let mut map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(parts.cluster.namespace().to_owned()),
            labels: Some([(keys::POD_TEMPLATE.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let content = Content {
        spec: Some(&args.spec),
        claims: Some(&args.claims),
        parameters: args.parameters.as_ref(),
        settings: Some(&args.settings),
    };
    content.put_into(&mut map)?;
    let template = checked(&map)?;
    match parts.cluster.create_template(&map).await {
        Ok(()) => {}
        Err(ClusterError::Exists { .. }) => return Err(taken(name)),
        Err(error) => return Err(refused(error)),
    }
    tracing::info!(
        template = name,
        version = template.version,
        actor = caller.sub,
        "template created"
    );
    seen(parts, &template).await;
    Ok(view::template(name, Ok(&template), true))
}

pub(super) async fn update(
    parts: &Parts,
    authors: &Authors,
    caller: &Caller,
    args: &UpdateTemplate,
) -> Answer<Shown> {
    allow(caller, authors)?;
    let name = args.name.as_str();
    for _ in 0..TRIES {
        let mut map = theirs(parts, caller, name).await?;
        let version = parse(&document(&map)).map_or_else(|_| String::new(), |now| now.version);
        if let Some(expected) = &args.expected_version
            && *expected != version
        {
            return Err(ServiceError::TemplateChanged {
                name: name.to_owned(),
                version,
            });
        }
        let content = Content {
            spec: args.spec.as_ref(),
            claims: args.claims.as_deref(),
            parameters: args.parameters.as_ref(),
            settings: args.settings.as_ref(),
        };
        content.put_into(&mut map)?;
        let template = checked(&map)?;
        match parts.cluster.put_template(&map).await {
            Ok(()) => {}
            // Somebody was faster; what they wrote is read again.
            Err(ClusterError::Conflict { .. }) => continue,
            Err(error) => return Err(refused(error)),
        }
        tracing::info!(
            template = name,
            from = version,
            version = template.version,
            actor = caller.sub,
            "template changed"
        );
        seen(parts, &template).await;
        return Ok(view::template(name, Ok(&template), true));
    }
    Err(ServiceError::Contended)
}

/// Workspaces that were made from it would run on, and could never be upgraded again; so not while
/// there are any.
pub(super) async fn delete(
    parts: &Parts,
    authors: &Authors,
    caller: &Caller,
    name: &str,
) -> Answer<DeletedTemplate> {
    allow(caller, authors)?;
    for _ in 0..TRIES {
        let map = theirs(parts, caller, name).await?;
        if !parts.caches.is_synced() {
            return Err(ServiceError::Cluster {
                reason: "control has just started and is still listing workspaces".into(),
            });
        }
        let records = parts.caches.records();
        let users = records.iter().filter(|it| it.value.template.name == name);
        let workspaces = users.count();
        if workspaces > 0 {
            return Err(ServiceError::TemplateInUse {
                name: name.to_owned(),
                workspaces,
            });
        }
        match parts.cluster.delete_template(&map).await {
            Ok(()) => {}
            Err(ClusterError::Conflict { .. }) => continue,
            Err(error) => return Err(refused(error)),
        }
        tracing::info!(template = name, actor = caller.sub, "template deleted");
        parts.templates.shown(name, |seen| seen.is_none()).await;
        return Ok(DeletedTemplate {
            name: name.to_owned(),
            message: "Deleted: no workspace can be spawned from it any more".to_owned(),
        });
    }
    Err(ServiceError::Contended)
}

fn allow(caller: &Caller, authors: &Authors) -> Answer<()> {
    Ok(may(
        caller,
        Action::WriteTemplates,
        Target::Templates { authors },
    )?)
}

/// The ConfigMap of a template that the caller may use; one that they may not use is not there.
async fn theirs(parts: &Parts, caller: &Caller, name: &str) -> Answer<ConfigMap> {
    evenly(find(parts, caller, name)).await
}

async fn find(parts: &Parts, caller: &Caller, name: &str) -> Answer<ConfigMap> {
    let uses = |allowed_roles: &AllowedRoles| {
        let template = Target::Template { allowed_roles };
        may(caller, Action::ReadTemplate, template).is_ok()
    };
    if let Some(file) = parts.templates.read_file(name).await {
        let told = match &file {
            Ok(template) => uses(&template.settings.allowed_roles),
            Err(error) => error.may_be_told(caller),
        };
        if told {
            return Err(ServiceError::TemplateIsFile {
                name: name.to_owned(),
            });
        }
        return Err(TemplateError::not_found(name).into());
    }
    // Nothing else gets into the path of a request.
    let map = if is_object_name(name) {
        parts.cluster.template(name).await?
    } else {
        None
    };
    let map = map.filter(|map| {
        let annotations = map.metadata.annotations.as_ref();
        let roles = annotations.and_then(|all| all.get(keys::ALLOWED_ROLES));
        uses(&AllowedRoles::parse(roles.map(String::as_str)))
    });
    map.ok_or_else(|| TemplateError::not_found(name).into())
}

fn check_name(name: &str) -> Answer<()> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let good = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !RESERVED.iter().any(|taken| name.starts_with(taken));
    if good {
        return Ok(());
    }
    Err(ServiceError::Invalid {
        argument: "name",
        problem: format!(
            "use 1 to {MAX_NAME} lower-case letters, digits and '-', with a letter or digit at both ends, and \
             neither {} at the beginning",
            RESERVED.join(" nor ")
        ),
    })
}

fn taken(name: &str) -> ServiceError {
    ServiceError::NameTaken {
        name: name.to_owned(),
    }
}

/// What somebody wants to be in a template; `None`: as it is.
struct Content<'a> {
    spec: Option<&'a Map<String, Value>>,
    claims: Option<&'a [Map<String, Value>]>,
    parameters: Option<&'a Map<String, Value>>,
    settings: Option<&'a BTreeMap<String, String>>,
}

impl Content<'_> {
    fn put_into(&self, map: &mut ConfigMap) -> Answer<()> {
        let data = map.data.get_or_insert_default();
        if let Some(spec) = self.spec {
            data.insert("spec".to_owned(), pretty(spec));
        }
        match self.claims {
            None => {}
            Some([]) => {
                data.remove("claims");
            }
            Some(claims) => {
                data.insert("claims".to_owned(), pretty(&claims));
            }
        }
        let annotations = map.metadata.annotations.get_or_insert_default();
        match self.parameters {
            None => {}
            Some(schema) if schema.is_empty() => {
                annotations.remove(keys::PARAMETERS);
            }
            Some(schema) => {
                let schema = Value::Object(schema.clone()).to_string();
                annotations.insert(keys::PARAMETERS.to_owned(), schema);
            }
        }
        if let Some(wanted) = self.settings {
            let wanted = settings::declared(wanted).map_err(|problem| ServiceError::Invalid {
                argument: "settings",
                problem,
            })?;
            annotations.retain(|key, _| !settings::is_known(key));
            annotations.extend(wanted);
        }
        Ok(())
    }
}

/// As people like to read it in the ConfigMap.
fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn document(map: &ConfigMap) -> Document {
    Document {
        name: map.metadata.name.clone().unwrap_or_default(),
        annotations: map.metadata.annotations.clone().unwrap_or_default(),
        data: map.data.clone().unwrap_or_default(),
    }
}

fn checked(map: &ConfigMap) -> Answer<crate::template::Template> {
    settings::check(&document(map))
        .map_err(|(argument, problem)| ServiceError::Invalid { argument, problem })
}

/// What the API server refuses of a template: too large, immutable, or not ours to write.
fn refused(error: ClusterError) -> ServiceError {
    match error {
        ClusterError::Rejected { trouble, .. } => ServiceError::Invalid {
            argument: "name",
            problem: format!("the cluster refuses the template ({trouble}); nothing was changed"),
        },
        other => other.into(),
    }
}

/// Waits until lists show it.
async fn seen(parts: &Parts, template: &crate::template::Template) {
    let is = |seen: Option<&Parsed>| {
        seen.is_some_and(|seen| {
            seen.as_ref().is_ok_and(|seen| {
                seen.version == template.version && seen.declared == template.declared
            })
        })
    };
    parts.templates.shown(&template.name, is).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_new_templates() {
        for name in ["a", "notebook", "a-1", &"a".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            "A",
            "a.b",
            "a/b",
            "../a",
            "a_b",
            "nogoo9-session-jwks",
            "kube-root-ca.crt",
            "kube-x",
            &"a".repeat(64),
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
