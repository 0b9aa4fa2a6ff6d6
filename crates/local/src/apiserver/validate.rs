//! Rules for names, labels and annotations (`k8s.io/apimachinery/pkg/util/validation`).

use serde_json::Value;

use super::failure::Cause;
use super::object;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
    characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
    'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]\
    ([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
    or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
    regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, \
    '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
    'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?\
    [A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and \
    must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
    '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Annotations of one object, keys and values, in bytes.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

fn framed(text: &str, inner: fn(char) -> bool, edge: fn(char) -> bool) -> bool {
    text.chars().all(inner) && text.starts_with(edge) && text.ends_with(edge)
}

fn lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// What is wrong with a DNS-1123 label (63 characters); `None` when it is good.
pub(crate) fn dns_label(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters".into());
    }
    (!framed(text, |c| lower(c) || c == '-', lower)).then(|| LABEL.into())
}

/// What is wrong with a DNS-1123 subdomain (253 characters); `None` when it is good.
pub(crate) fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > 253 {
        return Some("must be no more than 253 characters".into());
    }
    let good = text
        .split('.')
        .all(|part| framed(part, |c| lower(c) || c == '-', lower));
    (!good).then(|| SUBDOMAIN.into())
}

/// What is wrong with a label value; `None` when it is good.
pub(crate) fn label_value(text: &str) -> Option<String> {
    if text.len() > 63 {
        return Some("must be no more than 63 characters".into());
    }
    (!text.is_empty() && !framed(text, word, alphanumeric)).then(|| VALUE.into())
}

/// What is wrong with a `[prefix/]name` key; `None` when it is good.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    let name = match text.split_once('/') {
        None => text,
        Some(("", _)) => return Some("prefix part must be non-empty".into()),
        Some((prefix, name)) => {
            if let Some(why) = dns_subdomain(prefix) {
                return Some(format!("prefix part {why}"));
            }
            name
        }
    };
    if name.is_empty() {
        return Some("name part must be non-empty".into());
    }
    if name.len() > 63 {
        return Some("name part must be no more than 63 characters".into());
    }
    (!framed(name, word, alphanumeric)).then(|| QUALIFIED.into())
}

/// What is wrong with the metadata of an object.
pub(crate) fn metadata(object: &Value, namespace_like: bool, causes: &mut Vec<Cause>) {
    let name = object::name(object);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(why) = if namespace_like {
        dns_label(name)
    } else {
        dns_subdomain(name)
    } {
        causes.push(Cause::invalid("metadata.name", &name.into(), &why));
    }
    if let Some(Value::Object(labels)) = object.pointer("/metadata/labels") {
        for (key, value) in labels {
            if let Some(why) = qualified_name(key) {
                causes.push(Cause::invalid(
                    "metadata.labels",
                    &key.as_str().into(),
                    &why,
                ));
            }
            if let Some(why) = label_value(value.as_str().unwrap_or_default()) {
                causes.push(Cause::invalid("metadata.labels", value, &why));
            }
        }
    }
    if let Some(Value::Object(annotations)) = object.pointer("/metadata/annotations") {
        let mut bytes = 0;
        for (key, value) in annotations {
            bytes += key.len() + value.as_str().map_or(0, str::len);
            if let Some(why) = qualified_name(&key.to_lowercase()) {
                causes.push(Cause::invalid(
                    "metadata.annotations",
                    &key.as_str().into(),
                    &why,
                ));
            }
        }
        if bytes > ANNOTATIONS_LIMIT {
            causes.push(Cause {
                reason: "FieldValueTooLong",
                field: "metadata.annotations".into(),
                message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
            });
        }
    }
    for finalizer in object::list(object, "/metadata/finalizers") {
        if let Some(why) = qualified_name(finalizer.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.finalizers", finalizer, &why));
        }
    }
}

/// Data keys of ConfigMaps and Secrets.
pub(crate) fn data_keys(object: &Value, fields: &[&str], causes: &mut Vec<Cause>) {
    for field in fields {
        let Some(Value::Object(data)) = object.get(*field) else {
            continue;
        };
        for key in data.keys() {
            let good = !key.is_empty()
                && key.len() <= 253
                && key.chars().all(word)
                && key != "."
                && !key.starts_with("..");
            if !good {
                causes.push(Cause::invalid(
                    format!("{field}[{key}]"),
                    &key.as_str().into(),
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                     (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation \
                     is '[-._a-zA-Z0-9]+')",
                ));
            }
        }
    }
}
