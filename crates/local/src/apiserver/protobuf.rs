//! Reads bodies in Kubernetes' protobuf, which `kubectl create namespace|configmap|secret|
//! serviceaccount|quota` and `kubectl drain` send. Field numbers: `k8s.io/api/core/v1/generated.proto`.
//!
//! Only the kinds and fields that these commands write are known; a body with anything else is
//! refused rather than stored without it.

use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::failure::Failure;

/// The media type.
pub(crate) const MEDIA: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// How a field is read.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Texts,
    Bytes,
    Number,
    Bool,
    Message(Schema),
    Messages(Schema),
    /// Of texts.
    Map,
    /// Of bytes, base64 in JSON.
    BytesMap,
    /// Of quantities: messages with one text.
    Quantities,
}

/// Number, JSON name and kind of each field.
type Schema = &'static [(u64, &'static str, Kind)];

const ENVELOPE: Schema = &[
    (1, "type", Kind::Message(TYPE)),
    (2, "raw", Kind::Bytes),
    (3, "", Kind::Text),
    (4, "", Kind::Text),
];
const TYPE: Schema = &[(1, "apiVersion", Kind::Text), (2, "kind", Kind::Text)];
/// A zero time is an empty message; a client sets none.
const TIME: Schema = &[];
const METADATA: Schema = &[
    (1, "name", Kind::Text),
    (2, "generateName", Kind::Text),
    (3, "namespace", Kind::Text),
    (4, "selfLink", Kind::Text),
    (5, "uid", Kind::Text),
    (6, "resourceVersion", Kind::Text),
    (7, "generation", Kind::Number),
    (8, "creationTimestamp", Kind::Message(TIME)),
    (11, "labels", Kind::Map),
    (12, "annotations", Kind::Map),
    (14, "finalizers", Kind::Texts),
];
const NAMESPACE: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (2, "spec", Kind::Message(&[(1, "finalizers", Kind::Texts)])),
    (3, "status", Kind::Message(&[(1, "phase", Kind::Text)])),
];
const CONFIG_MAP: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (2, "data", Kind::Map),
    (3, "binaryData", Kind::BytesMap),
    (4, "immutable", Kind::Bool),
];
const SECRET: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (2, "data", Kind::BytesMap),
    (3, "type", Kind::Text),
    (4, "stringData", Kind::Map),
    (5, "immutable", Kind::Bool),
];
const SERVICE_ACCOUNT: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (
        3,
        "imagePullSecrets",
        Kind::Messages(&[(1, "name", Kind::Text)]),
    ),
    (4, "automountServiceAccountToken", Kind::Bool),
];
const QUOTA: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (
        2,
        "spec",
        Kind::Message(&[(1, "hard", Kind::Quantities), (2, "scopes", Kind::Texts)]),
    ),
    (3, "status", Kind::Message(&[])),
];

const DELETE_OPTIONS: Schema = &[
    (1, "gracePeriodSeconds", Kind::Number),
    (
        2,
        "preconditions",
        Kind::Message(&[(1, "uid", Kind::Text), (2, "resourceVersion", Kind::Text)]),
    ),
    (3, "orphanDependents", Kind::Bool),
    (4, "propagationPolicy", Kind::Text),
    (5, "dryRun", Kind::Texts),
];
const EVICTION: Schema = &[
    (1, "metadata", Kind::Message(METADATA)),
    (2, "deleteOptions", Kind::Message(DELETE_OPTIONS)),
];

/// Reads a body as the JSON that stands for the same.
pub(crate) fn decode(body: &[u8]) -> Result<Value, Failure> {
    let broken = || Failure::bad_request("couldn't parse the body: it is no Kubernetes protobuf");
    let envelope = body.strip_prefix(MAGIC).ok_or_else(broken)?;
    let envelope = message(ENVELOPE, envelope).ok_or_else(broken)?;
    let kind = envelope
        .pointer("/type/kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let schema = match kind {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "ServiceAccount" => SERVICE_ACCOUNT,
        "ResourceQuota" => QUOTA,
        "DeleteOptions" => DELETE_OPTIONS,
        "Eviction" => EVICTION,
        other => return Err(unsupported(other)),
    };
    let raw = envelope
        .get("raw")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let raw = BASE64.decode(raw.as_bytes()).map_err(|_| broken())?;
    let mut object = message(schema, &raw).ok_or_else(|| unsupported(kind))?;
    for field in ["apiVersion", "kind"] {
        object[field] = envelope["type"][field].clone();
    }
    // Filled by the server; the zero values of these are messages all the same.
    super::object::remove(&mut object, &["metadata", "creationTimestamp"]);
    super::object::remove(&mut object, &["status"]);
    Ok(object)
}

fn unsupported(kind: &str) -> Failure {
    Failure::unsupported_media_type(format!(
        "the body of the request was in an unknown format ({MEDIA}, {kind}) - accepted media types \
         include: application/json, application/yaml"
    ))
}

/// Reads a message; `None` when it is malformed or has a field that the schema does not know.
fn message(schema: Schema, mut bytes: &[u8]) -> Option<Value> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let (_, name, kind) = schema.iter().find(|(number, ..)| *number == tag >> 3)?;
        let (number, inner): (u64, &[u8]) = match tag & 7 {
            0 => (varint(&mut bytes)?, &[]),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (inner, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                (0, inner)
            }
            _ => return None,
        };
        field(&mut object, name, *kind, number, inner)?;
    }
    Some(Value::Object(object))
}

fn field(
    object: &mut Map<String, Value>,
    name: &str,
    kind: Kind,
    number: u64,
    inner: &[u8],
) -> Option<()> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(Value::from);
    let value = match kind {
        // Go writes empty texts and zeros of fields that are not set.
        Kind::Text if inner.is_empty() => return Some(()),
        Kind::Number if number == 0 => return Some(()),
        Kind::Text => text(inner)?,
        Kind::Bytes => BASE64.encode(inner).into(),
        Kind::Number => number.into(),
        Kind::Bool => (number != 0).into(),
        Kind::Message(schema) => message(schema, inner)?,
        Kind::Texts | Kind::Messages(_) => {
            let item = match kind {
                Kind::Messages(schema) => message(schema, inner)?,
                _ => text(inner)?,
            };
            let list = object.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut()?.push(item);
            return Some(());
        }
        Kind::Map | Kind::BytesMap | Kind::Quantities => {
            let entry: Schema = match kind {
                Kind::Map => &[(1, "key", Kind::Text), (2, "value", Kind::Text)],
                Kind::BytesMap => &[(1, "key", Kind::Text), (2, "value", Kind::Bytes)],
                _ => &[
                    (1, "key", Kind::Text),
                    (2, "value", Kind::Message(&[(1, "string", Kind::Text)])),
                ],
            };
            let entry = message(entry, inner)?;
            let value = entry.get("value").cloned().unwrap_or_else(|| "".into());
            let value = value.get("string").cloned().unwrap_or(value);
            let key = entry.get("key").and_then(Value::as_str).unwrap_or_default();
            let map = object.entry(name).or_insert_with(|| json!({}));
            map.as_object_mut()?.insert(key.to_owned(), value);
            return Some(());
        }
    };
    object.insert(name.to_owned(), value);
    Some(())
}

/// A number of up to ten bytes, seven bits each, lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f).checked_shl(shift)?;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Field `number` with the given content.
    fn part(number: u8, content: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
        out.extend_from_slice(content);
        out
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [part(1, b"v1"), part(2, kind.as_bytes())].concat();
        [
            MAGIC.to_vec(),
            part(1, &types),
            part(2, raw),
            part(3, b""),
            part(4, b""),
        ]
        .concat()
    }

    #[test]
    fn a_secret() {
        let metadata = [part(1, b"s"), part(2, b""), part(8, b"")].concat();
        let data = [part(1, b"k"), part(2, b"v")].concat();
        let raw = [
            part(1, &metadata),
            part(2, &data),
            part(3, b"Opaque"),
            vec![5 << 3, 1],
        ]
        .concat();
        assert_eq!(
            decode(&envelope("Secret", &raw)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
                "data": {"k": "dg=="}, "type": "Opaque", "immutable": true,
            })
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let owner = part(1, &part(13, &part(3, b"x")));
        for (body, code) in [
            (b"nothing".to_vec(), 400),
            (envelope("Pod", b""), 415),
            (envelope("ConfigMap", &owner), 415),
            (envelope("ConfigMap", &[0x0a, 0x7f]), 415),
        ] {
            assert_eq!(decode(&body).unwrap_err().code(), code, "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let refused = decode(&envelope("ConfigMap", &raw)).err().map(|f| f.code());
            prop_assert!(matches!(refused, None | Some(415)));
        }
    }
}
