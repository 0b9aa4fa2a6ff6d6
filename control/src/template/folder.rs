//! Templates from files: `NAME.yaml`, `.yml` or `.json`, each a bare pod spec, or a ConfigMap
//! manifest as one would `kubectl apply` it.

use super::parse::yaml;
use super::{Document, TemplateError};
use nogoo9_model::access::AllowedRoles;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Most files that are looked at: a wrong folder must not be read for minutes.
const MAX_FILES: usize = 500;
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 512 * 1024;

/// Reads every template of the folder, by name. A file that cannot be used is an error beside the
/// others, not instead of them.
///
/// # Errors
/// The folder itself cannot be read.
pub fn read(
    folder: &Path,
) -> Result<BTreeMap<String, Result<Document, TemplateError>>, std::io::Error> {
    let mut templates = BTreeMap::new();
    for entry in std::fs::read_dir(folder)?.take(MAX_FILES) {
        let path = entry?.path();
        let extension = path
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default();
        let Some(stem) = path.file_stem().and_then(|s| s.to_str()) else {
            continue;
        };
        // A mounted ConfigMap has hidden folders beside the files.
        if stem.starts_with('.') || !matches!(extension, "yaml" | "yml" | "json") {
            continue;
        }
        let document = file(&path, stem);
        let name = document
            .as_ref()
            .map_or_else(|_| stem.to_owned(), |document| document.name.clone());
        templates.insert(name, document);
    }
    Ok(templates)
}

fn file(path: &Path, stem: &str) -> Result<Document, TemplateError> {
    let unreadable = |reason: String| TemplateError::Unreadable {
        name: stem.to_owned(),
        reason,
    };
    let length = std::fs::metadata(path)
        .map_err(|e| unreadable(e.to_string()))?
        .len();
    if length > MAX_BYTES {
        return Err(TemplateError::Broken {
            name: stem.to_owned(),
            problem: format!("the file is over {} KiB; shorten it", MAX_BYTES / 1024),
            roles: unknown(),
        });
    }
    let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
    document(stem, text)
}

/// Whom a file is for that cannot be read: admins, who mend it.
fn unknown() -> AllowedRoles {
    AllowedRoles::Unclear(String::new())
}

fn document(stem: &str, text: String) -> Result<Document, TemplateError> {
    let broken = |problem: String| TemplateError::Broken {
        name: stem.to_owned(),
        problem,
        roles: unknown(),
    };
    let parsed = yaml(&text).map_err(|problem| broken(format!("the file {problem}")))?;
    if parsed.get("kind").and_then(Value::as_str) != Some("ConfigMap") {
        let data = BTreeMap::from([("spec".to_owned(), text)]);
        return Ok(Document {
            name: stem.to_owned(),
            annotations: BTreeMap::new(),
            data,
        });
    }
    let map: k8s_openapi::api::core::v1::ConfigMap = serde_json::from_value(parsed)
        .map_err(|e| broken(format!("the file is no ConfigMap: {e}")))?;
    Ok(Document {
        name: map
            .metadata
            .name
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| stem.to_owned()),
        annotations: map.metadata.annotations.unwrap_or_default(),
        data: map.data.unwrap_or_default(),
    })
}
