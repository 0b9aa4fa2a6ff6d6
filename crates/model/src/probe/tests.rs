//! States as a kubelet of Kubernetes 1.37 with containerd 2.4 showed them.

use super::*;
use crate::record::Phase;
use crate::record::tests::{recreate, running};

/// A probe of two containers, of which each has this state.
fn probe(phase: &str, states: &[Value]) -> Probe {
    let names = ["init", "main"];
    let containers: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "image": "i"}))
        .collect();
    let statuses: Vec<Value> = states
        .iter()
        .zip(names)
        .map(|(state, name)| {
            json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state})
        })
        .collect();
    let pod = json!({
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "7", "labels": {
            keys::TYPE: keys::TYPE_PROBE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER,
            keys::WORKSPACE_ID: "dev",
        }},
        "spec": {"containers": containers},
        "status": {"phase": phase, "containerStatuses": statuses},
    });
    Probe::from_pod(&serde_json::from_value(pod).unwrap()).unwrap()
}

#[test]
fn what_each_state_shows() {
    let start_error = json!({"terminated": {"exitCode": 128, "reason": "StartError",
        "message": "exec: \"/nogoo9-probe-starts-nothing\": stat: no such file or directory"}});
    let waiting =
        |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    let nothing =
        |reason: &str, message: &str| Finding::Nothing(Some(Trouble::new(reason, message)));
    let cases = [
        ("Pending", vec![], Finding::Nothing(None)),
        (
            "Failed",
            vec![start_error.clone(), start_error.clone()],
            Finding::Pulled,
        ),
        // The phase follows a second later.
        (
            "Pending",
            vec![start_error.clone(), start_error.clone()],
            Finding::Pulled,
        ),
        ("Pending", vec![start_error.clone()], Finding::Nothing(None)),
        ("Failed", vec![], Finding::Turned),
        (
            "Pending",
            vec![start_error.clone(), waiting("ErrImagePull", "x: not found")],
            nothing("ErrImagePull", "x: not found"),
        ),
        (
            "Pending",
            vec![
                waiting("CreateContainerConfigError", "secret \"nope\" not found"),
                start_error.clone(),
            ],
            nothing("CreateContainerConfigError", "secret \"nope\" not found"),
        ),
        (
            "Pending",
            vec![waiting("ContainerCreating", ""), start_error.clone()],
            Finding::Nothing(None),
        ),
        (
            "Running",
            vec![
                waiting("RunContainerError", "no such file"),
                start_error.clone(),
            ],
            Finding::Pulled,
        ),
        // A runtime that looks for the program before it makes the container.
        (
            "Pending",
            vec![
                waiting(
                    "CreateContainerError",
                    "executable file `/nogoo9-probe-starts-nothing` not found",
                ),
                start_error,
            ],
            Finding::Pulled,
        ),
    ];
    for (phase, states, expected) in cases {
        assert_eq!(
            probe(phase, &states).finding,
            expected,
            "{phase} {states:?}"
        );
    }
}

#[test]
fn only_what_is_labelled_as_one_is_a_probe() {
    for labels in [
        json!({}),
        json!({keys::TYPE: keys::TYPE_WORKSPACE, keys::MANAGED_BY: keys::MANAGED_BY_SPAWNER}),
        json!({keys::TYPE: keys::TYPE_PROBE, keys::MANAGED_BY: "somebody"}),
    ] {
        let pod = json!({"metadata": {"name": "p", "uid": "u", "labels": labels}});
        assert_eq!(Probe::from_pod(&serde_json::from_value(pod).unwrap()), None);
    }
}

#[test]
fn a_volume_that_cannot_be_mounted_is_told_where_nothing_else_is() {
    let missing = Trouble::new("FailedMount", "secret \"nope\" not found");
    let mut silent = probe("Pending", &[]);
    silent.complain(missing.clone());
    assert_eq!(silent.finding, Finding::Nothing(Some(missing.clone())));
    let state = json!({"waiting": {"reason": "ErrImagePull", "message": ""}});
    let mut telling = probe("Pending", &[state]);
    telling.complain(missing);
    assert_eq!(
        telling.finding,
        Finding::Nothing(Some(Trouble::new("ErrImagePull", "")))
    );
}

#[test]
fn a_probe_asks_for_the_images_and_for_nothing_of_the_workspace() {
    let mut intent = recreate("v2");
    intent.manifest = json!({
        "metadata": {"labels": {keys::TYPE: keys::TYPE_WORKSPACE}},
        "spec": {
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"a": "b"},
            "initContainers": [{"name": "init", "image": "one", "restartPolicy": "Always"}],
            "containers": [{
                "name": "main", "image": "two", "imagePullPolicy": "Always", "args": ["x"],
                "ports": [{"hostPort": 80, "containerPort": 80}],
                "resources": {"requests": {"cpu": "8"}},
                "livenessProbe": {"httpGet": {"port": 80}},
                "envFrom": [{"secretRef": {"name": "s"}}],
                "volumeMounts": [{"name": "home", "mountPath": "/home"}, {"name": "conf", "mountPath": "/etc/conf"}],
            }],
            "volumes": [
                {"name": "home", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "conf", "configMap": {"name": "conf"}},
                {"name": "tmp", "emptyDir": {}},
            ],
        },
    });
    let begun = running().begin_upgrade(intent, 2000).unwrap();
    let upgrade = begun.upgrade.as_ref().unwrap();
    let Phase::Probing { probe } = &upgrade.phase else {
        panic!("{:?}", upgrade.phase)
    };
    let object = object(&begun, upgrade, probe, "node-1");
    assert_eq!(object["metadata"]["labels"][keys::TYPE], keys::TYPE_PROBE);
    let spec = &object["spec"];
    assert_eq!(spec["nodeName"], "node-1");
    assert_eq!(spec["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(
        spec["volumes"],
        json!([{"name": "conf", "configMap": {"name": "conf"}}])
    );
    assert!(spec.get("nodeSelector").is_none() && spec.get("initContainers").is_none());
    let [init, main] = spec["containers"].as_array().unwrap().as_slice() else {
        panic!("{spec}")
    };
    assert_eq!(
        (&init["image"], &main["image"]),
        (&json!("one"), &json!("two"))
    );
    assert_eq!(main["imagePullPolicy"], "Always");
    assert_eq!(main["command"], json!([NO_PROGRAM]));
    assert_eq!(main["envFrom"], json!([{"secretRef": {"name": "s"}}]));
    assert_eq!(
        main["volumeMounts"],
        json!([{"name": "conf", "mountPath": "/etc/conf"}])
    );
    for dropped in ["args", "ports", "livenessProbe", "restartPolicy"] {
        assert!(
            main.get(dropped).is_none() && init.get(dropped).is_none(),
            "{dropped}"
        );
    }
    assert_eq!(main["resources"]["requests"]["cpu"], "1m");
}
