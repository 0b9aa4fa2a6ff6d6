//! Looking at templates. One that the caller may not use is as good as absent.

use super::even::evenly;
use super::types::{Template as Shown, Templates};
use super::{Answer, Parts, ServiceError, allow_reading, view};
use crate::template::{Template, TemplateError};
use nogoo9_model::access::{Action, AllowedRoles, Caller, Target, may};
use std::sync::Arc;

pub(super) fn list(parts: &Parts, caller: &Caller) -> Answer<Templates> {
    allow_reading(caller)?;
    let templates = parts
        .templates
        .seen()
        .iter()
        // Of a broken one it is not known whom it is for: admins see it, to mend it.
        .filter(|(_, template)| match template {
            Ok(template) => template.settings.may_use(caller).is_ok(),
            Err(_) => caller.is_admin(),
        })
        .map(|(name, template)| view::template(name, template.as_deref(), false))
        .collect();
    Ok(Templates { templates })
}

pub(super) async fn get(parts: &Parts, caller: &Caller, name: &str) -> Answer<Shown> {
    let template = usable(parts, caller, name).await?;
    Ok(view::template(name, Ok(&template), true))
}

/// The template, read live, if the caller may use it.
pub(super) async fn usable(parts: &Parts, caller: &Caller, name: &str) -> Answer<Arc<Template>> {
    // The scope first, so that its absence does not depend on what is there.
    may(
        caller,
        Action::ReadTemplate,
        Target::Template {
            allowed_roles: &AllowedRoles::Everyone,
        },
    )?;
    evenly(async {
        match parts.templates.read(name).await {
            Ok(template) if template.settings.may_use(caller).is_ok() => Ok(template),
            Err(error) if error.may_be_told(caller) => Err(error.into()),
            Ok(_) | Err(_) => Err(TemplateError::not_found(name).into()),
        }
    })
    .await
}

/// The template of a workspace, read live, for its upgrade by `caller`; `None`: by an admin. That there
/// is one they know: their workspace was made from it.
pub(super) async fn of_workspace(
    parts: &Parts,
    caller: Option<&Caller>,
    name: &str,
) -> Answer<Arc<Template>> {
    let read = parts.templates.read(name).await;
    let allowed = caller.is_none_or(|caller| match &read {
        Ok(template) => template.settings.may_use(caller).is_ok(),
        Err(error) => error.may_be_told(caller),
    });
    if !allowed {
        return Err(ServiceError::TemplateNotAllowed {
            name: name.to_owned(),
        });
    }
    Ok(read?)
}
