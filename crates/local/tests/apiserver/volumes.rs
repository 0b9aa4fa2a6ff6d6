//! Claims: binding, protection, and what the scheduler makes of them.

use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, ResourceQuota};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch};
use serde_json::{Value, json};

use crate::clients::{create, patch, start};
use crate::support::*;

fn claims(client: &Client) -> Api<PersistentVolumeClaim> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn claim(name: &str, change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
    let mut claim = json!({
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    change(&mut claim);
    serde_json::from_value(claim).unwrap()
}

fn mounts(claim: &str) -> impl FnOnce(&mut Value) {
    move |pod| {
        pod["spec"]["volumes"] =
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    }
}

async fn until_claim(
    client: &Client,
    name: &str,
    wanted: impl Fn(&PersistentVolumeClaim) -> bool,
) -> PersistentVolumeClaim {
    wait(&format!("claim {name} is as wanted"), async || {
        let claim = claims(client).get(name).await.unwrap();
        wanted(&claim).then_some(claim)
    })
    .await
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    let status = claim.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

async fn why_pending(client: &Client, pod: &str) -> String {
    let pod = until(&pods(client), pod, |pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
        conditions
            .into_iter()
            .flatten()
            .any(|c| c.reason.as_deref() == Some("Unschedulable"))
    })
    .await;
    let conditions = pod.status.unwrap().conditions.unwrap();
    conditions[0].message.clone().unwrap()
}

#[tokio::test]
async fn a_claim_is_bound_unless_its_class_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    for (name, class) in [
        ("plain", None),
        ("none", Some("")),
        ("other", Some("missing")),
    ] {
        let claim = claim(name, |c| {
            if let Some(class) = class {
                c["spec"]["storageClassName"] = class.into();
            }
        });
        claims(&client).create(&create(), &claim).await.unwrap();
        pods(&client)
            .create(&create(), &pod_with(name, mounts(name)))
            .await
            .unwrap();
    }
    let bound = until_claim(&client, "plain", |claim| phase(claim) == "Bound").await;
    let (spec, status) = (bound.spec.unwrap(), bound.status.unwrap());
    assert_eq!(status.access_modes.unwrap(), ["ReadWriteOnce"]);
    assert_eq!(status.capacity.unwrap()["storage"].0, "1Gi");
    assert_eq!(
        spec.volume_name.unwrap(),
        format!("pvc-{}", bound.metadata.uid.unwrap())
    );
    assert!(spec.storage_class_name.is_some());
    until(&pods(&client), "plain", |p| {
        p.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;

    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    for (name, reason, message) in [
        (
            "none",
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        (
            "other",
            "ProvisioningFailed",
            "storageclass.storage.k8s.io \"missing\" not found",
        ),
    ] {
        assert_eq!(
            why_pending(&client, name).await,
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        );
        let about =
            ListParams::default().fields(&format!("involvedObject.name={name},reason={reason}"));
        let found = wait("the event", async || {
            let found = events.list(&about).await.unwrap().items;
            (!found.is_empty()).then_some(found)
        })
        .await;
        assert_eq!(found.len(), 1, "said once");
        assert_eq!(found[0].message.as_deref(), Some(message));
        assert_eq!(phase(&claims(&client).get(name).await.unwrap()), "Pending");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_pod_waits_for_a_claim_that_is_made_later() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    pods(&client)
        .create(&create(), &pod_with("p", mounts("late")))
        .await
        .unwrap();
    assert_eq!(
        why_pending(&client, "p").await,
        "0/1 nodes are available: persistentvolumeclaim \"late\" not found."
    );
    claims(&client)
        .create(&create(), &claim("late", |_| {}))
        .await
        .unwrap();
    until(&pods(&client), "p", |p| {
        p.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    let placed = claims(&client).get("late").await.unwrap();
    assert_eq!(
        placed.metadata.annotations.unwrap()["volume.kubernetes.io/selected-node"],
        "local",
        "its folder is there from now on"
    );
    // Its node closes, and no other one can have the folder.
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes
        .patch("local", &patch(), &Patch::Merge(cordon))
        .await
        .unwrap();
    make_node(&client, "second").await;
    pods(&client)
        .create(&create(), &pod_with("q", mounts("late")))
        .await
        .unwrap();
    assert_eq!(
        why_pending(&client, "q").await,
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) were unschedulable."
    );
    server.stop().await;
}

#[tokio::test]
async fn a_claim_in_use_goes_only_after_its_pods() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let claims = claims(&client);
    claims.create(&create(), &claim("c", |_| {})).await.unwrap();
    pods(&client)
        .create(&create(), &pod_with("p", mounts("c")))
        .await
        .unwrap();
    until(&pods(&client), "p", |p| {
        p.spec.as_ref().unwrap().node_name.is_some()
    })
    .await;
    let marked = claims
        .delete("c", &DeleteParams::default())
        .await
        .unwrap()
        .left()
        .expect("it stays for now");
    assert!(marked.metadata.deletion_timestamp.is_some());
    assert_eq!(
        marked.metadata.finalizers.unwrap(),
        ["kubernetes.io/pvc-protection"]
    );
    // Another pod may not join in.
    pods(&client)
        .create(&create(), &pod_with("q", mounts("c")))
        .await
        .unwrap();
    assert_eq!(
        why_pending(&client, "q").await,
        "0/1 nodes are available: persistentvolumeclaim \"c\" is being deleted."
    );
    assert!(claims.get_opt("c").await.unwrap().is_some(), "in use by p");
    let now = DeleteParams {
        grace_period_seconds: Some(0),
        ..DeleteParams::default()
    };
    pods(&client).delete("p", &now).await.unwrap();
    wait("the claim goes", async || {
        claims.get_opt("c").await.unwrap().is_none().then_some(())
    })
    .await;
    assert!(
        pods(&client).get_opt("q").await.unwrap().is_some(),
        "one without a node is no user"
    );
    server.stop().await;
}

#[tokio::test]
async fn storage_is_counted_grows_and_does_not_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), NAMESPACE);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.storage": "3Gi"}}});
    let quota = serde_json::from_value(quota).unwrap();
    quotas.create(&create(), &quota).await.unwrap();
    let claims = claims(&client);
    let of = |name: &str, size: &str| {
        claim(name, |c| {
            c["spec"]["resources"]["requests"]["storage"] = size.into();
        })
    };
    claims.create(&create(), &of("a", "1Gi")).await.unwrap();
    let refused = claims.create(&create(), &of("b", "2560Mi")).await;
    let (code, _, message) = api_error(refused.unwrap_err());
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "persistentvolumeclaims \"b\" is forbidden: exceeded quota: q, requested: \
         requests.storage=2560Mi, used: requests.storage=1Gi, limited: requests.storage=3Gi"
    );
    claims.create(&create(), &of("b", "512Mi")).await.unwrap();
    let used = quotas.get("q").await.unwrap().status.unwrap().used.unwrap();
    assert_eq!(used["requests.storage"].0, "1536Mi");

    until_claim(&client, "a", |claim| phase(claim) == "Bound").await;
    let resize =
        |size: &str| Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": size}}}}));
    claims.patch("a", &patch(), &resize("2Gi")).await.unwrap();
    until_claim(&client, "a", |claim| {
        let capacity = claim.status.as_ref().unwrap().capacity.as_ref().unwrap();
        capacity["storage"].0 == "2Gi"
    })
    .await;
    let (code, _, message) = api_error(
        claims
            .patch("a", &patch(), &resize("1Gi"))
            .await
            .unwrap_err(),
    );
    assert_eq!(code, 422);
    assert!(
        message.contains("field can not be less than status.capacity"),
        "{message}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_once_pod_claim_is_one_pods() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let once = claim("once", |c| {
        c["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    });
    claims(&client).create(&create(), &once).await.unwrap();
    let (pods, now) = (
        pods(&client),
        DeleteParams {
            grace_period_seconds: Some(0),
            ..DeleteParams::default()
        },
    );
    pods.create(&create(), &pod_with("p", mounts("once")))
        .await
        .unwrap();
    until(&pods, "p", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
    pods.create(&create(), &pod_with("q", mounts("once")))
        .await
        .unwrap();
    assert!(
        why_pending(&client, "q")
            .await
            .contains("ReadWriteOncePod access mode already in-use by another pod")
    );
    pods.delete("p", &now).await.unwrap();
    until(&pods, "q", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
    server.stop().await;
}

#[tokio::test]
async fn a_gated_pod_is_placed_once_a_patch_that_tests_has_opened_its_gate() {
    let dir = tempfile::tempdir().unwrap();
    let (server, client) = start(&dir).await;
    make_node(&client, "local").await;
    let pods = pods(&client);
    let gated = pod_with("p", |p| {
        p["spec"]["schedulingGates"] = json!([{"name": "nogoo9/upgrade"}]);
    });
    let made = pods.create(&create(), &gated).await.unwrap();
    let condition = &made.status.unwrap().conditions.unwrap()[0];
    assert_eq!(condition.reason.as_deref(), Some("SchedulingGated"));
    let open = |gate: &str| -> json_patch::Patch {
        serde_json::from_value(json!([
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": gate},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]))
        .unwrap()
    };
    let wrong = Patch::Json::<()>(open("another"));
    let (code, ..) = api_error(pods.patch("p", &patch(), &wrong).await.unwrap_err());
    assert_eq!(code, 422, "a test that fails changes nothing");
    assert!(
        pods.get("p")
            .await
            .unwrap()
            .spec
            .unwrap()
            .node_name
            .is_none()
    );
    let right = Patch::Json::<()>(open("nogoo9/upgrade"));
    pods.patch("p", &patch(), &right).await.unwrap();
    let placed = until(&pods, "p", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
    assert!(
        placed
            .spec
            .unwrap()
            .scheduling_gates
            .unwrap_or_default()
            .is_empty()
    );
    let (code, ..) = api_error(pods.patch("p", &patch(), &right).await.unwrap_err());
    assert_eq!(code, 422, "it is opened once");
    server.stop().await;
}
