//! Reading and changing parts of objects, which are kept as JSON values.

use serde_json::{Map, Value};

/// The text at a JSON pointer; empty when absent.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a JSON pointer; empty when absent.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// An annotation; empty when absent.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotations = object.pointer("/metadata/annotations");
    annotations
        .and_then(|all| all.get(key)?.as_str())
        .unwrap_or_default()
}

/// The stored resource version; 0 when absent.
pub(crate) fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or(0)
}

/// Whether graceful deletion has begun.
pub(crate) fn terminating(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|v| !v.is_null())
}

/// The map at `key` of `object`, made when absent; `object` becomes a map if it is none.
pub(crate) fn child<'a>(object: &'a mut Value, key: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else {
        return object;
    };
    map.entry(key.to_owned())
        .or_insert_with(|| Value::Object(Map::new()))
}

/// Sets the value at a path of keys, making the maps on the way.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut at = object;
    for key in path {
        at = child(at, key);
    }
    *at = value.into();
}

/// Sets the value at a path unless something other than null is there.
pub(crate) fn default(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let mut at = object;
    for key in path {
        at = child(at, key);
    }
    if at.is_null() || at.as_object().is_some_and(Map::is_empty) {
        *at = value.into();
    }
}

/// Removes the value at a path, if the way to it exists.
pub(crate) fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, way) = path.split_last()?;
    let mut at = object;
    for key in way {
        at = at.get_mut(*key)?;
    }
    at.as_object_mut()?.remove(*last)
}

/// Copies the value at a path from another object, or removes it where that has none.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    let source = path.iter().try_fold(from, |at, key| at.get(*key));
    match source {
        Some(value) => set(to, path, value.clone()),
        None => {
            remove(to, path);
        }
    }
}

/// The mutable list at a path; `None` when there is none.
pub(crate) fn list_mut<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    let mut at = object;
    for key in path {
        at = at.get_mut(*key)?;
    }
    at.as_array_mut()
}

/// The condition of a type in `status.conditions`.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|c| text(c, "/type") == kind)
}

/// A quantity that counts things or bytes ("5", "2k", "1Gi"), as a whole number; `None` when it is
/// none.
pub(crate) fn count(quantity: &Value) -> Option<i64> {
    if let Some(number) = quantity.as_i64() {
        return Some(number);
    }
    let text = quantity.as_str()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text.get(digits.len()..)? {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(scale)
}

/// A number of bytes as a quantity, in the largest unit that takes no fraction.
pub(crate) fn bytes(count: i64) -> String {
    for (unit, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        let scale = 1_i64 << shift;
        if count != 0 && count % scale == 0 {
            return format!("{}{unit}", count / scale);
        }
    }
    count.to_string()
}

/// Copies one field of a map to another of it.
pub(crate) fn copy_within(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = object.get(from).cloned() {
        set(object, &[to], value);
    }
}
