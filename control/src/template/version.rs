//! A template's version: a hash that is the same however the template is written.

use super::claims::ClaimTemplate;
use nogoo9_model::label::base32_sha256;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Characters of a version: 60 bits, enough for the handful of versions a template ever has.
const LENGTH: usize = 12;

/// The version of a template with this parsed spec, these claims and these annotations.
pub(super) fn version(
    spec: &Value,
    claims: &[ClaimTemplate],
    annotations: &BTreeMap<String, String>,
) -> String {
    let mut text = String::new();
    canonical(spec, &mut text);
    // Nothing is written where there are none: templates keep the version they had before there
    // could be any.
    for claim in claims {
        let _ = write!(text, "\nclaim {}:", Value::from(claim.name.as_str()));
        canonical(&claim.spec, &mut text);
    }
    for (key, value) in annotations {
        // Quoted as JSON, so that no two sets of annotations are written alike.
        let _ = write!(
            text,
            "\n{}:{}",
            Value::from(key.as_str()),
            Value::from(value.as_str())
        );
    }
    base32_sha256(text.as_bytes(), LENGTH)
}

/// Writes JSON without spaces and with sorted keys, whatever order the map type keeps.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            out.push('{');
            let sorted: BTreeMap<_, _> = map.iter().collect();
            for (i, (key, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        // Writing to a String cannot fail.
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}
