//! Patch tables.

use serde_json::json;

use super::*;

fn strategic(resource: Resource, object: &Value, patch: &Value) -> Value {
    apply(resource, PatchType::Strategic, patch, object).unwrap()
}

#[test]
fn strategic_maps_merge_and_null_deletes() {
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "annotations": {"x": "y"}}});
    let patch = json!({"metadata": {"labels": {"a": null, "c": "3"}, "annotations": null}});
    assert_eq!(
        strategic(Resource::ConfigMaps, &object, &patch),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}}})
    );
}

#[test]
fn strategic_lists_merge_by_key() {
    let object = json!({"spec": {
        "containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "K", "value": "1"}, {"name": "L", "value": "2"}]},
            {"name": "b", "image": "y:1"},
        ],
        "tolerations": [{"key": "k"}],
    }});
    let patch = json!({"spec": {
        "containers": [
            {"name": "a", "image": "x:2", "env": [{"name": "K", "$patch": "delete"}, {"name": "M", "value": "3"}]},
        ],
        "tolerations": [{"key": "j"}],
    }});
    assert_eq!(
        strategic(Resource::Pods, &object, &patch),
        json!({"spec": {
            "containers": [
                {"name": "a", "image": "x:2", "env": [{"name": "L", "value": "2"}, {"name": "M", "value": "3"}]},
                {"name": "b", "image": "y:1"},
            ],
            "tolerations": [{"key": "j"}],
        }})
    );
}

#[test]
fn strategic_directives() {
    let pod = || {
        json!({"metadata": {"finalizers": ["a/x", "b/x"]}, "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
            "schedulingGates": [{"name": "g/1"}, {"name": "g/2"}],
            "nodeSelector": {"a": "1"},
        }})
    };
    for (patch, pointer, expected) in [
        (
            json!({"spec": {"schedulingGates": [{"name": "g/1", "$patch": "delete"}]}}),
            "/spec/schedulingGates",
            json!([{"name": "g/2"}]),
        ),
        (
            json!({"spec": {"schedulingGates": [{"$patch": "replace"}, {"name": "g/3"}]}}),
            "/spec/schedulingGates",
            json!([{"name": "g/3"}]),
        ),
        (
            json!({"spec": {"schedulingGates": null}}),
            "/spec/schedulingGates",
            Value::Null,
        ),
        (
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}]}}),
            "/spec/volumes",
            json!([{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]),
        ),
        (
            json!({"spec": {"$setElementOrder/volumes": [{"name": "w"}, {"name": "v"}]}}),
            "/spec/volumes/0/name",
            json!("w"),
        ),
        (
            json!({"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}}),
            "/spec/nodeSelector",
            json!({"b": "2"}),
        ),
        (
            json!({"spec": {"nodeSelector": {"$patch": "delete"}}}),
            "/spec/nodeSelector",
            Value::Null,
        ),
        (
            json!({"metadata": {"finalizers": ["c/x", "a/x"]}}),
            "/metadata/finalizers",
            json!(["a/x", "b/x", "c/x"]),
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/x"]}}),
            "/metadata/finalizers",
            json!(["b/x"]),
        ),
    ] {
        let patched = strategic(Resource::Pods, &pod(), &patch);
        assert_eq!(
            patched.pointer(pointer).cloned().unwrap_or_default(),
            expected,
            "{patch}"
        );
    }
}

#[test]
fn conditions_merge_by_type_and_statuses_are_replaced() {
    let object = json!({"status": {
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "a", "ready": true, "restartCount": 1}],
    }});
    let patch = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "a", "ready": false}],
    }});
    assert_eq!(
        strategic(Resource::Pods, &object, &patch),
        json!({"status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "a", "ready": false}],
        }})
    );
}

#[test]
fn merge_patch_replaces_lists() {
    let object = json!({"spec": {"containers": [{"name": "a"}], "x": 1}});
    let patch = json!({"spec": {"containers": [{"name": "b"}], "x": null}});
    assert_eq!(
        apply(Resource::Pods, PatchType::Merge, &patch, &object).unwrap(),
        json!({"spec": {"containers": [{"name": "b"}]}})
    );
}

#[test]
fn json_patch_tests_before_it_removes() {
    let object = json!({"spec": {"schedulingGates": [{"name": "g/1"}, {"name": "g/2"}]}});
    let patch = |name: &str| {
        json!([
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": name},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ])
    };
    assert_eq!(
        apply(Resource::Pods, PatchType::Json, &patch("g/1"), &object).unwrap(),
        json!({"spec": {"schedulingGates": [{"name": "g/2"}]}})
    );
    let refused = apply(Resource::Pods, PatchType::Json, &patch("g/2"), &object).unwrap_err();
    assert_eq!(refused.code(), 422);
}

#[test]
fn malformed_patches() {
    let object = json!({"spec": {}});
    for (kind, patch, code) in [
        (PatchType::Json, json!({"op": "remove"}), 400),
        (
            PatchType::Json,
            json!([{"op": "remove", "path": "/nowhere/deep"}]),
            422,
        ),
        (PatchType::Merge, json!([]), 400),
        (PatchType::Strategic, json!("x"), 400),
        (
            PatchType::Strategic,
            json!({"spec": {"containers": [{"image": "x"}]}}),
            400,
        ),
        (
            PatchType::Strategic,
            json!({"spec": {"$patch": "explode"}}),
            400,
        ),
    ] {
        let failure = apply(Resource::Pods, kind, &patch, &object).unwrap_err();
        assert_eq!(failure.code(), code, "{patch}");
    }
    for (content_type, code) in [("application/apply-patch+yaml", 415), ("text/plain", 415)] {
        assert_eq!(
            PatchType::from_content_type(content_type)
                .unwrap_err()
                .code(),
            code
        );
    }
}
