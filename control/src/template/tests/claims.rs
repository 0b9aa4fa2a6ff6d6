//! Claims of templates.

use super::*;

const CLAIMS: &str = "
- name: home
  spec:
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 1Gi}}
    storageClassName: 'of-${{user}}'
";
const MOUNTS: &str = "
volumes:
- {name: home, persistentVolumeClaim: {claimName: home}}
- {name: data, persistentVolumeClaim: {claimName: datasets, readOnly: true}}
";

fn with_claims(spec: &str, claims: &str) -> Result<Template, TemplateError> {
    let mut document = document(&format!("{SPEC}{spec}"), &[]);
    document.data.insert("claims".to_owned(), claims.to_owned());
    parse(&document)
}

#[test]
fn each_workspace_mounts_its_own_claim() {
    let template = with_claims(MOUNTS, CLAIMS).unwrap();
    let inputs = Map::new();
    let input = |owner: &'static str| RenderInput {
        owner,
        id: "dev",
        namespace: "ws",
        since: 0,
        inputs: &inputs,
        strictness: Strictness::Spawn,
    };
    let planned = claims(&template, &input("alice")).unwrap();
    let pod = render(&template, &input("alice")).unwrap();
    assert_eq!(planned.len(), 1);
    assert_eq!(planned[0].name, "home");
    assert_eq!(
        planned[0].spec["storageClassName"], "of-alice",
        "the owner's"
    );
    let mounted = |volume: usize| &pod["spec"]["volumes"][volume]["persistentVolumeClaim"];
    assert_eq!(mounted(0)["claimName"], json!(planned[0].object));
    assert_eq!(
        mounted(1)["claimName"],
        "datasets",
        "not the template's to make"
    );
    let other = claims(&template, &input("bob")).unwrap();
    assert_ne!(
        planned[0].object, other[0].object,
        "an id that changed hands"
    );
}

#[test]
fn claims_are_part_of_the_version() {
    let plain = parse(&document(&format!("{SPEC}{MOUNTS}"), &[])).unwrap();
    let empty = with_claims(MOUNTS, "[]").unwrap();
    let one = with_claims(MOUNTS, CLAIMS).unwrap();
    let larger = with_claims(MOUNTS, &CLAIMS.replace("1Gi", "2Gi")).unwrap();
    assert_eq!(plain.version, empty.version);
    assert_ne!(plain.version, one.version);
    assert_ne!(one.version, larger.version);
}

#[test]
fn claims_that_cannot_work_are_refused_by_name() {
    let spec = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}";
    for (claims, expected) in [
        ("home: x".to_owned(), "must be a list"),
        ("[".to_owned(), "data.claims is no YAML"),
        ("- {name: home}".to_owned(), "missing field `spec`"),
        (
            format!("- {{metadata: {{name: home}}, {spec}}}"),
            "unknown field `metadata`",
        ),
        (format!("- {{name: Home, {spec}}}"), "no usable name"),
        (
            format!("- {{name: a-name-that-is-too-long, {spec}}}"),
            "20 lower-case",
        ),
        (format!("- {{name: other, {spec}}}"), "claimName: other"),
        (
            format!("- {{name: home, {spec}}}\n- {{name: home, {spec}}}"),
            "twice",
        ),
        (
            "- {name: home, spec: {accessModes: [ReadWriteOnce]}}".to_owned(),
            "resources.requests.storage",
        ),
        (
            "- {name: home, spec: {resources: {requests: {storage: 1Gi}}}}".to_owned(),
            "accessModes",
        ),
        (
            "- {name: home, spec: {accessModes: 7}}".to_owned(),
            "PersistentVolumeClaim's spec",
        ),
        (
            format!(
                "- {{name: home, {}}}",
                spec.replace("{acc", "{volumeName: v, acc")
            ),
            "volumeName",
        ),
        (
            format!(
                "- {{name: home, {}}}",
                spec.replace("{acc", "{storageClassName: '${{team}}', acc")
            ),
            "data.claims: ${{team}}",
        ),
    ] {
        let error = with_claims(MOUNTS, &claims).unwrap_err().to_string();
        assert!(error.contains(expected), "{claims}: {error}");
    }
}
