//! Spawning: choose a template, fill in what it takes.

use super::super::App;
use super::{done, failed, layout, page, signed_in};
use crate::service::{ServiceError, SpawnWorkspace, Template, Templates};
use axum::extract::{Form, Query, State};
use axum::response::Response;
use http::{HeaderMap, Method, StatusCode};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Prefix of the form fields that are inputs of the template.
const INPUT: &str = "input.";

/// The templates to spawn from.
pub(super) fn choose(templates: &Templates) -> Markup {
    html! {
        section.card aria-labelledby="new" {
            h2 #new { "New workspace" }
            @if templates.templates.is_empty() {
                p.empty { "There is no template to make one from. An admin can add one." }
            }
            ul.templates {
                @for template in &templates.templates {
                    li {
                        @if template.usable {
                            form method="get" action="/ui/new" {
                                input type="hidden" name="template" value=(template.name);
                                button type="submit" { "From " strong { (template.name) } }
                            }
                        }
                        @if let Some(problem) = &template.problem { p.error { (problem) } }
                    }
                }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct Chosen {
    template: String,
}

/// The form of one template.
pub(super) async fn form(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    Query(chosen): Query<Chosen>,
) -> Response {
    let caller = match signed_in(&app, &method, &headers).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    let template = match app.service.get_template(&caller, &chosen.template).await {
        Ok(template) => template,
        Err(error) => return failed(&caller, &error),
    };
    let body = html! {
        form.card.fields method="post" action="/ui/new" {
            input type="hidden" name="template" value=(template.name);
            label { "Name" input name="name" maxlength="100" autocomplete="off" autofocus; small { "Shown to you; may be left empty." } }
            label { "Id" input name="id" maxlength="40" pattern="[a-z0-9](-?[a-z0-9])*" autocomplete="off"; small { "Part of its address: a-z, 0-9 and -. Made up if left empty." } }
            @for (name, schema) in parameters(&template) { (field(&name, &schema, required(&template, &name))) }
            div.buttons { button.primary type="submit" { "Spawn" } a.button href="/" { "Cancel" } }
        }
    };
    page(
        StatusCode::OK,
        layout::signed_in(
            &caller,
            &format!("New workspace from {}", template.name),
            &body,
        ),
    )
}

fn parameters(template: &Template) -> Map<String, Value> {
    let schema = template.parameters.as_ref();
    schema
        .and_then(|s| s.get("properties"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn required(template: &Template, name: &str) -> bool {
    let all = template
        .parameters
        .as_ref()
        .and_then(|s| s.get("required"))
        .and_then(Value::as_array);
    all.is_some_and(|all| all.iter().any(|required| required == name))
}

fn field(name: &str, schema: &Value, required: bool) -> Markup {
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    let default = schema.get("default");
    let plain = default.map(|value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), ToOwned::to_owned)
    });
    let field = format!("{INPUT}{name}");
    let choices = match schema.get("enum").and_then(Value::as_array) {
        Some(values) => values.clone(),
        None if text("type") == Some("boolean") => vec![Value::Bool(true), Value::Bool(false)],
        None => Vec::new(),
    };
    // What a default stands for need not be filled in.
    let required = required && default.is_none();
    html! {
        label {
            (text("title").unwrap_or(name))
            @if choices.is_empty() {
                input name=(field) placeholder=[plain] required[required]
                    type=(if text("type") == Some("integer") { "number" } else { "text" });
            } @else {
                select name=(field) required[required] {
                    option value="" { @match &plain { Some(value) => { (value) " (default)" }, None => "" } }
                    @for value in &choices {
                        @let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
                        option value=(value) { (value) }
                    }
                }
            }
            @if let Some(help) = text("description") { small { (help) } }
        }
    }
}

/// Spawns what the form says. Empty fields are fields that were left out.
pub(super) async fn spawn(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    Form(mut fields): Form<BTreeMap<String, String>>,
) -> Response {
    let caller = match signed_in(&app, &method, &headers).await {
        Ok(caller) => caller,
        Err(response) => return response,
    };
    fields.retain(|_, value| !value.trim().is_empty());
    let mut take = |name: &str| fields.remove(name).map(|value| value.trim().to_owned());
    let (template, id, name) = (
        take("template").unwrap_or_default(),
        take("id"),
        take("name"),
    );
    let spawned = async {
        let inputs = typed(
            &app.service.get_template(&caller, &template).await?,
            &fields,
        )?;
        let args = SpawnWorkspace {
            template,
            id,
            name,
            port: None,
            inputs,
            user_sub: None,
        };
        app.service.spawn_workspace(&caller, args).await
    };
    match spawned.await {
        Ok(_) => done(),
        Err(error) => failed(&caller, &error),
    }
}

/// Form fields are text; numbers and booleans become such, as the template's schema says.
fn typed(
    template: &Template,
    fields: &BTreeMap<String, String>,
) -> Result<Map<String, Value>, ServiceError> {
    let schemas = parameters(template);
    let inputs = fields
        .iter()
        .filter_map(|(field, text)| Some((field.strip_prefix(INPUT)?, text)));
    let value = |(name, text): (&str, &String)| {
        let kind = schemas
            .get(name)
            .and_then(|schema| schema.get("type"))
            .and_then(Value::as_str);
        let value = match kind {
            Some("integer") => text
                .trim()
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| "is no whole number"),
            Some("boolean") => text
                .trim()
                .parse::<bool>()
                .map(Value::from)
                .map_err(|_| "is neither true nor false"),
            _ => Ok(Value::from(text.as_str())),
        };
        value
            .map(|value| (name.to_owned(), value))
            .map_err(|problem| ServiceError::Invalid {
                argument: "inputs",
                problem: format!("'{name}' {problem}"),
            })
    };
    inputs.map(value).collect()
}
