//! Tables (`meta.k8s.io/v1`), in which kubectl asks for what it prints.

pub(crate) mod cells;
pub(crate) mod pod_status;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object;
use super::registry::Served;

/// How much of each object a row carries (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table of stored objects.
pub(crate) fn render<'a>(
    served: Served,
    objects: impl IntoIterator<Item = &'a Value>,
    include: IncludeObject,
    now: Timestamp,
    metadata: &Value,
) -> Value {
    let columns: Vec<Value> = cells::columns(served.resource)
        .iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "priority": column.priority,
                "format": if column.name == "Name" { "name" } else { "" },
                "description": column.name,
            })
        })
        .collect();
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|stored| {
            let mut row = json!({"cells": cells::row(served.resource, stored, now)});
            match include {
                IncludeObject::None => {}
                IncludeObject::Metadata => object::set(&mut row, &["object"], partial(stored)),
                IncludeObject::Object => object::set(
                    &mut row,
                    &["object"],
                    super::events::to_served(served, stored),
                ),
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows,
    })
}

/// Only the metadata of an object.
pub(crate) fn partial(stored: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": stored.get("metadata"),
    })
}

/// How long ago something was, as kubectl prints it (`duration.HumanDuration`).
pub(crate) fn age(since: &str, now: Timestamp) -> String {
    let Ok(since) = since.parse::<Timestamp>() else {
        return "<unknown>".into();
    };
    human_duration(now.as_second() - since.as_second())
}

fn human_duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let pair = |big: i64, unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit}{small}{small_unit}")
        }
    };
    match () {
        () if seconds < -1 => "<invalid>".into(),
        () if seconds < 0 => "0s".into(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => pair(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => pair(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => pair(hours / 24, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{}d", hours / 24),
        () if hours < 24 * 365 * 8 => pair(hours / 24 / 365, "y", (hours / 24) % 365, "d"),
        () => format!("{}y", hours / 24 / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn durations_read_as_kubectl_prints_them() {
        for (seconds, expected) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_100, "3h5m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (8 * 86_400, "8d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ] {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
