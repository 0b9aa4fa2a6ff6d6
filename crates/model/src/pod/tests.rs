use super::*;
use serde_json::{Value, json};

fn base() -> Value {
    json!({
        "metadata": {
            "name": "ws-alice-dev", "namespace": "ns", "uid": "u1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "nogoo9/type": "workspace", "nogoo9/managed-by": "nogoo9-spawner",
                "nogoo9/workspace-id": "dev", "nogoo9/user-sub": "alice", "nogoo9/generation": "3"
            },
            "annotations": {"nogoo9/user-sub": "auth0|alice"}
        },
        "status": {
            "phase": "Running", "podIP": "127.64.0.9",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"}]
        }
    })
}

fn view(change: impl FnOnce(&mut Value)) -> Result<PodView, NotAWorkspace> {
    let mut pod = base();
    change(&mut pod);
    PodView::from_pod(&serde_json::from_value(pod).unwrap())
}

#[test]
fn reads_what_a_pod_says() {
    let pod = view(|_| {}).unwrap();
    assert_eq!(
        (pod.uid.as_str(), pod.workspace.as_str(), pod.owner.as_str()),
        ("u1", "dev", "auth0|alice")
    );
    assert_eq!(
        (pod.generation, pod.serving.port, pod.state),
        (3, 3000, UpgradeState::Committed)
    );
    assert_eq!(
        pod.ready,
        Ready {
            is: true,
            since: pod.created + 9
        }
    );
    assert_eq!(pod.since, pod.created);
    assert_eq!(pod.ip, Some("127.64.0.9".parse().unwrap()));
    assert!(!pod.host_network);
    let on_its_node = view(|p| p["spec"] = json!({"containers": [], "hostNetwork": true}));
    assert!(on_its_node.unwrap().host_network);
    assert!(
        pod.is_live() && !pod.gated && pod.serving.strip_prefix && pod.serving.identity_headers
    );
}

#[test]
fn the_label_names_the_owner_only_where_the_annotation_is_absent() {
    let pod = view(|p| {
        p["metadata"]["annotations"]
            .as_object_mut()
            .unwrap()
            .remove("nogoo9/user-sub");
    });
    assert_eq!(pod.unwrap().owner, "alice");
}

#[test]
fn others_pods_are_not_ours() {
    for (key, value, expected) in [
        ("nogoo9/type", json!("other"), NotAWorkspace::Type),
        ("nogoo9/managed-by", json!("helm"), NotAWorkspace::Unmanaged),
        ("nogoo9/workspace-id", json!(""), NotAWorkspace::NoId),
    ] {
        assert_eq!(
            view(|p| p["metadata"]["labels"][key] = value).unwrap_err(),
            expected,
            "{key}"
        );
    }
    let ownerless = view(|p| {
        p["metadata"]["labels"]
            .as_object_mut()
            .unwrap()
            .remove("nogoo9/user-sub");
        p["metadata"].as_object_mut().unwrap().remove("annotations");
    });
    assert_eq!(ownerless.unwrap_err(), NotAWorkspace::NoOwner);
}

#[test]
fn a_pod_is_unseen_where_only_its_node_is_silent() {
    let seen = |ready: Value, containers: &str| {
        let pod = view(|p| {
            let containers = json!({"type": "ContainersReady", "status": containers});
            p["status"]["conditions"] = json!([ready, containers]);
        })
        .unwrap();
        assert!(!pod.ready.is || !pod.unseen);
        pod.unseen
    };
    let ready =
        |status: &str, reason: Value| json!({"type": "Ready", "status": status, "reason": reason});
    // As a real cluster's node lifecycle controller leaves it.
    assert!(seen(ready("False", Value::Null), "True"));
    assert!(!seen(ready("True", Value::Null), "True"));
    assert!(!seen(ready("False", json!("ContainersNotReady")), "False"));
    assert!(!seen(
        ready("False", json!("ReadinessGatesNotReady")),
        "True"
    ));
    assert!(
        !view(|p| p["status"]["conditions"][0]["status"] = json!("False"))
            .unwrap()
            .unseen
    );
}

#[test]
fn odd_values_fall_back() {
    let pod = view(|p| {
        p["metadata"]["labels"]["nogoo9/generation"] = json!("many");
        p["metadata"]["annotations"]["nogoo9/workspace-port"] = json!("0");
        p["metadata"]["annotations"]["nogoo9/workspace-since"] = json!("2025-01-01T00:00:00Z");
        p["spec"] = json!({"containers": [], "schedulingGates": [{"name": "nogoo9/upgrade"}]});
        p["status"] = json!({"phase": "Failed", "podIP": "nonsense"});
    })
    .unwrap();
    assert_eq!((pod.generation, pod.generation_unreadable), (0, true));
    assert_eq!((pod.serving.port, pod.ip, pod.gated), (3000, None, true));
    assert!(pod.since < pod.created && !pod.is_live() && !pod.ready.is);
}
