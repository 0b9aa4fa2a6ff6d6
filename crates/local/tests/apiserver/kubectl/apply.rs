//! What is applied, and fields that are refused.

use super::{POD, cluster};

#[tokio::test]
async fn apply_and_strict_fields() {
    let dir = tempfile::tempdir().unwrap();
    let (server, kubectl) = cluster(&dir).await;
    let map = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: '{value}', b: keep}}\n"
        )
    };
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("1")).await,
        "configmap/c created\n"
    );
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("1")).await,
        "configmap/c unchanged\n"
    );
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &map("2")).await,
        "configmap/c configured\n"
    );
    let less = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '2'}\n";
    kubectl.ok_with(&["apply", "-f", "-"], less).await;
    let data = kubectl
        .ok(&["get", "cm", "c", "-o", "jsonpath={.data}"])
        .await;
    assert_eq!(data, r#"{"a":"2"}"#);

    kubectl.ok_with(&["apply", "-f", "-"], POD).await;
    let newer = POD.replace("sample:1.0", "sample:2.0");
    assert_eq!(
        kubectl.ok_with(&["apply", "-f", "-"], &newer).await,
        "pod/web configured\n"
    );
    let image = kubectl
        .ok(&[
            "get",
            "pod",
            "web",
            "-o",
            "jsonpath={.spec.containers[*].image}",
        ])
        .await;
    assert_eq!(image, "nogoo9-sample:2.0");

    let dry = kubectl
        .ok_with(&["apply", "-f", "-", "--dry-run=server"], &map("3"))
        .await;
    assert_eq!(dry, "configmap/c configured (server dry run)\n");
    let data = kubectl
        .ok(&["get", "cm", "c", "-o", "jsonpath={.data}"])
        .await;
    assert_eq!(data, r#"{"a":"2"}"#);

    let typo = POD
        .replace("name: web", "name: typo")
        .replace("image:", "imagee:");
    let refused = kubectl.fails(&["create", "-f", "-"], &typo).await;
    assert!(
        refused.contains("strict decoding error: unknown field \"spec.containers[0].imagee\""),
        "{refused}"
    );
    let missing = POD
        .replace("name: web", "name: Web_1")
        .replace("    image: nogoo9-sample:1.0\n", "");
    let refused = kubectl.fails(&["create", "-f", "-"], &missing).await;
    assert!(
        refused.contains("The Pod \"Web_1\" is invalid"),
        "{refused}"
    );
    assert!(
        refused.contains("* spec.containers[0].image: Required value"),
        "{refused}"
    );
    assert!(
        refused
            .contains("* metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123 subdomain"),
        "{refused}"
    );
    let refused = kubectl
        .fails(&["apply", "--server-side", "-f", "-"], &map("4"))
        .await;
    assert!(
        refused.contains("server-side apply is not offered"),
        "{refused}"
    );
    server.stop().await;
}
