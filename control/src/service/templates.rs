//! Looking at templates. One that the caller may not use is as good as absent.

use super::types::{Template as Shown, Templates};
use super::{Answer, Parts, allow_reading, view};
use crate::template::{Template, TemplateError};
use nogoo9_model::access::{Action, Caller, Target, may};
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
        Target::Template { allowed_roles: &[] },
    )?;
    let template = parts.templates.read(name).await?;
    if template.settings.may_use(caller).is_err() {
        return Err(TemplateError::NotFound {
            name: name.to_owned(),
        }
        .into());
    }
    Ok(template)
}
