//! Every kind: how it is shown, made and deleted.

use super::{cluster, words};

#[tokio::test]
async fn tables_of_every_kind() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let objects = r"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: v}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}
- {apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 3}}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
- {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: l}, spec: {holderIdentity: me, leaseDurationSeconds: 15}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: e}, addressType: IPv4, ports: [{port: 80}], endpoints: [{addresses: [10.0.0.1]}]}
";
    kubectl.ok_with(&["create", "-f", "-"], objects).await;
    let bound = [
        "wait",
        "pvc/p",
        "--for=jsonpath={.status.phase}=Bound",
        "--timeout=60s",
    ];
    kubectl.ok(&bound).await;
    for (kind, expected) in [
        ("nodes", vec!["local", "Ready", "<none>"]),
        ("ns", vec!["default", "Active"]),
        ("secrets", vec!["s", "Opaque", "1"]),
        ("sa", vec!["sa", "0"]),
        ("quota", vec!["q", "pods:", "0/3"]),
        ("pvc", vec!["p", "Bound"]),
        ("leases", vec!["l", "me"]),
        ("endpointslices", vec!["e", "IPv4", "80", "10.0.0.1"]),
    ] {
        let table = kubectl.ok(&["get", kind, "--no-headers"]).await;
        let row = words(table.lines().next().unwrap_or_default());
        assert_eq!(
            row.get(..expected.len()),
            Some(&expected[..]),
            "{kind}: {table}"
        );
    }
    let value = kubectl
        .ok(&["get", "secret", "s", "-o", "jsonpath={.data.k}"])
        .await;
    assert_eq!(value, "dg==");
    let kinds = kubectl
        .ok(&["api-resources", "--no-headers", "-o", "name"])
        .await;
    assert!(
        kinds.contains("leases.coordination.k8s.io") && kinds.contains("events.events.k8s.io"),
        "{kinds}"
    );
    // kubectl may warn that it is older than the server.
    let version = kubectl.run(&["version", "-o", "json"], "").await.stdout;
    let version: serde_json::Value = serde_json::from_slice(&version).unwrap();
    assert_eq!(version["serverVersion"]["gitVersion"], "v1.34.0+nogoo9");
    for verb in [
        ["describe", "node", "local"],
        ["describe", "ns", "workspaces"],
        ["describe", "pvc", "p"],
    ] {
        kubectl.ok(&verb).await;
    }
    assert_eq!(
        kubectl.ok(&["delete", "secret,sa", "--all"]).await,
        "secret \"s\" deleted\nserviceaccount \"sa\" deleted\n"
    );
    // These commands send protobuf.
    kubectl.ok(&["create", "ns", "short"]).await;
    kubectl
        .ok(&["create", "secret", "generic", "s2", "--from-literal=k=v"])
        .await;
    kubectl.ok(&["create", "sa", "sa2"]).await;
    kubectl
        .ok(&["create", "quota", "q2", "--hard=pods=2,count/configmaps=9"])
        .await;
    let made = kubectl
        .ok(&[
            "get",
            "secret/s2",
            "quota/q2",
            "-o",
            "jsonpath={.items[*].data.k} {.items[*].spec.hard}",
        ])
        .await;
    assert_eq!(made, r#"dg== {"count/configmaps":"9","pods":"2"}"#);
    kubectl
        .ok(&[
            "create",
            "configmap",
            "inside",
            "-n",
            "short",
            "--from-literal=a=b",
        ])
        .await;
    assert_eq!(
        kubectl.ok(&["delete", "ns", "short"]).await,
        "namespace \"short\" deleted\n"
    );
    let gone = kubectl
        .fails(&["get", "configmap", "inside", "-n", "short"], "")
        .await;
    assert!(gone.contains("NotFound"), "{gone}");
    server.stop().await;
}
