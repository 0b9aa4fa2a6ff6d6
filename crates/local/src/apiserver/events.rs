//! Events are stored as `v1` and served as `events.k8s.io/v1` too; these are the conversions.

use serde_json::Value;

use super::object;
use super::registry::{Served, api_version};

/// Name in `v1`, name in `events.k8s.io/v1`.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The stored form of an object that came in under `served`.
pub(crate) fn to_stored(served: Served, mut event: Value) -> Value {
    if served.converted() {
        let info = served.resource.info();
        rename(&mut event, |(stored, outer)| (*outer, *stored));
        object::set(&mut event, &["apiVersion"], info.api_version());
    }
    event
}

/// The form in which `served` shows a stored object.
pub(crate) fn to_served(served: Served, stored: &Value) -> Value {
    let mut event = stored.clone();
    if served.converted() {
        rename(&mut event, |(stored, outer)| (*stored, *outer));
        object::set(
            &mut event,
            &["apiVersion"],
            api_version(served.group, served.version),
        );
    }
    event
}

fn rename(
    event: &mut Value,
    direction: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Value::Object(map) = event else { return };
    for pair in RENAMED {
        let (from, to) = direction(pair);
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}
