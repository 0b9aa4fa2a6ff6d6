mod claims;

use super::*;
use nogoo9_model::keys;
use proptest::prelude::*;
use serde_json::{Map, json};

const SPEC: &str = "
containers:
- name: main
  image: registry.example.org/sample:1.0
  env:
  - {name: MESSAGE, value: hello}
  - {name: OWNER, value: '${{user}} of ${{ workspace_id }}'}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
";
const SCHEMA: &str = r#"{"type": "object", "required": ["size"], "properties": {
    "message": {"type": "string", "pattern": "^[a-z ]*$", "maxLength": 12},
    "log-level": {"type": "string", "enum": ["info", "debug"], "default": "info"},
    "size": {"type": "integer", "minimum": 1, "maximum": 9, "x-env": "SAMPLE_SIZE"},
    "fast": {"type": "boolean"}}}"#;

fn document(spec: &str, annotations: &[(&str, &str)]) -> Document {
    Document {
        name: "sample".into(),
        annotations: annotations
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        data: BTreeMap::from([("spec".to_owned(), spec.to_owned())]),
    }
}

fn template(annotations: &[(&str, &str)]) -> Template {
    parse(&document(SPEC, annotations)).unwrap()
}

fn rendered(template: &Template, inputs: &Value) -> Result<Value, RenderError> {
    let inputs: Map<String, Value> = inputs.as_object().cloned().unwrap();
    render(
        template,
        &RenderInput {
            owner: "alice@example.org",
            id: "dev",
            namespace: "ws",
            since: 1_700_000_000,
            inputs: &inputs,
            strictness: Strictness::Spawn,
        },
    )
}

fn env(pod: &Value) -> BTreeMap<String, Option<String>> {
    let all = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let text = |v: &Value| v.as_str().map(ToOwned::to_owned);
    all.iter()
        .map(|e| (text(&e["name"]).unwrap(), text(&e["value"])))
        .collect()
}

#[test]
fn a_pod_has_everything_that_the_design_names() {
    let template = template(&[
        (keys::PARAMETERS, SCHEMA),
        (keys::WORKSPACE_PORT, "8080"),
        (keys::STRIP_PREFIX, "false"),
        (keys::WORKSPACE_PATH, "/route/${{workspace_id}}/"),
        (keys::DRAIN_TIMEOUT, "60"),
        ("nogoo9/api.metrics.port", "9000"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
    ]);
    let inputs = json!({"name": "My desk", "message": "good day", "size": 3, "fast": true});
    let pod = rendered(&template, &inputs).unwrap();
    assert_eq!(
        pod["metadata"],
        json!({
            "namespace": "ws",
            "labels": {
                "nogoo9/type": "workspace",
                "nogoo9/workspace-id": "dev",
                "nogoo9/user-sub": nogoo9_model::label::owner("alice@example.org"),
                "nogoo9/managed-by": "nogoo9-spawner",
            },
            "annotations": {
                "nogoo9/user-sub": "alice@example.org",
                "nogoo9/template-ref": "sample",
                "nogoo9/template-version": template.version,
                "nogoo9/workspace-name": "My desk",
                "nogoo9/workspace-port": "8080",
                "nogoo9/workspace-path": "/route/dev/",
                "nogoo9/workspace-since": "2023-11-14T22:13:20Z",
                "nogoo9/strip-prefix": "false",
                "nogoo9/api.metrics.port": "9000",
                "nogoo9/spawn-inputs": inputs.to_string(),
            },
        })
    );
    assert_eq!(pod["spec"]["restartPolicy"], "Always");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], false);
    let env = env(&pod);
    for (name, value) in [
        ("MESSAGE", Some("good day")),
        ("OWNER", Some("alice@example.org of dev")),
        ("POD_IP", None),
        ("SAMPLE_SIZE", Some("3")),
        ("FAST", Some("true")),
        ("LOG_LEVEL", Some("info")),
    ] {
        assert_eq!(env[name].as_deref(), value, "{name}");
    }
    // What it says must also be what the proxy and the planner read.
    let mut object = pod;
    object["metadata"]["name"] = json!("p");
    object["metadata"]["uid"] = json!("u");
    let view =
        nogoo9_model::pod::PodView::from_pod(&serde_json::from_value(object).unwrap()).unwrap();
    assert_eq!(
        (view.owner.as_str(), view.serving.port, view.since),
        ("alice@example.org", 8080, 1_700_000_000)
    );
}

#[test]
fn the_users_port_wins_and_the_templates_wishes_stay() {
    let spec = format!("{SPEC}\nrestartPolicy: OnFailure\nautomountServiceAccountToken: true\n");
    let template = parse(&document(&spec, &[(keys::WORKSPACE_PORT, "8080")])).unwrap();
    let pod = rendered(&template, &json!({"port": 4000})).unwrap();
    assert_eq!(pod["metadata"]["annotations"][keys::WORKSPACE_PORT], "4000");
    assert_eq!(pod["metadata"]["annotations"][keys::WORKSPACE_NAME], "dev");
    assert_eq!(pod["spec"]["restartPolicy"], "OnFailure");
    assert_eq!(pod["spec"]["automountServiceAccountToken"], true);
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let template = template(&[(keys::PARAMETERS, SCHEMA)]);
    for (inputs, name, problem) in [
        (json!({}), "size", "required"),
        (json!({"size": 0}), "size", "at least 1"),
        (json!({"size": 10}), "size", "at most 9"),
        (json!({"size": "3"}), "size", "whole number"),
        (json!({"size": 1.5}), "size", "whole number"),
        (
            json!({"size": 1, "colour": "red"}),
            "colour",
            "it takes: fast, log-level, message, size, name, port",
        ),
        (json!({"size": 1, "message": "UPPER"}), "message", "pattern"),
        (
            json!({"size": 1, "message": "thirteen long"}),
            "message",
            "at most 12",
        ),
        (
            json!({"size": 1, "log-level": "loud"}),
            "log-level",
            r#"one of "info", "debug""#,
        ),
        (json!({"size": 1, "fast": "yes"}), "fast", "true or false"),
        (json!({"size": 1, "port": 0}), "port", "1 to 65535"),
        (json!({"size": 1, "name": " x"}), "name", "spaces"),
        (json!({"size": 1, "name": "a\nb"}), "name", "printable"),
        (
            json!({"size": 1, "nogoo9/user-sub": "bob"}),
            "nogoo9/user-sub",
            "not a parameter",
        ),
    ] {
        let error = rendered(&template, &inputs).unwrap_err().to_string();
        assert!(
            error.contains(&format!("input '{name}'")) && error.contains(problem),
            "{inputs}: {error}"
        );
    }
}

#[test]
fn an_upgrade_keeps_inputs_that_the_new_version_no_longer_takes() {
    let template = template(&[]);
    let inputs = json!({"message": "hi"}).as_object().cloned().unwrap();
    let input = RenderInput {
        owner: "alice",
        id: "dev",
        namespace: "ws",
        since: 0,
        inputs: &inputs,
        strictness: Strictness::Upgrade,
    };
    let pod = render(&template, &input).unwrap();
    assert_eq!(
        env(&pod)["MESSAGE"].as_deref(),
        Some("hello"),
        "the template's own, since it takes none"
    );
    assert_eq!(
        pod["metadata"]["annotations"][keys::SPAWN_INPUTS],
        r#"{"message":"hi"}"#
    );
}

#[test]
fn broken_templates_say_where() {
    let with = |spec: &str| parse(&document(spec, &[])).unwrap_err().to_string();
    for (spec, expected) in [
        ("", "data.spec must be a pod spec"),
        ("- a", "data.spec must be a pod spec"),
        ("a: [", "data.spec is no YAML: line"),
        ("kind: Pod\nspec: {}", "holds a whole object"),
        ("volumes: []", "no 'containers'"),
        ("containers: []", "no container"),
        ("containers: [{image: x}]", "no name"),
        ("containers: [{name: main}]", "('main') has no image"),
        ("containers: 7", "is no pod spec"),
        (
            "containers: [{name: m, image: 'i:${{version}}'}]",
            "${{version}} is not known; use ${{user}}",
        ),
        ("containers: [{name: m, image: 'i:${{user'}]", "not closed"),
        (
            "{containers: [{name: m, image: i}], schedulingGates: [{name: nogoo9/upgrade}]}",
            "scheduling gate",
        ),
    ] {
        let error = with(spec);
        assert!(
            error.starts_with("template 'sample' cannot be used: "),
            "{error}"
        );
        assert!(error.contains(expected), "{spec}: {error}");
    }
    for (key, value, expected) in [
        (keys::SETTLE, "soon", "nogoo9/settle"),
        (keys::WORKSPACE_PORT, "0", "nogoo9/workspace-port"),
        (keys::ALLOW_ORIGINS, "*", "nogoo9/allow-origins has '*'"),
        (keys::PARAMETERS, "{", "nogoo9/parameters is no JSON"),
        (
            keys::PARAMETERS,
            r#"{"properties": {"port": {"type": "string"}}}"#,
            "'port' which has a name",
        ),
        (
            keys::PARAMETERS,
            r#"{"properties": {"a": {"type": "object"}}}"#,
            "needs the type",
        ),
        (
            keys::PARAMETERS,
            r#"{"properties": {"a": {"type": "string", "format": "uri"}}}"#,
            "'format'",
        ),
        (
            keys::PARAMETERS,
            r#"{"properties": {"a": {"type": "string", "pattern": "("}}}"#,
            "regular expression",
        ),
        (
            keys::PARAMETERS,
            r#"{"properties": {"a": {"type": "integer", "default": "x"}}}"#,
            "has a default",
        ),
        (
            keys::PARAMETERS,
            r#"{"properties": {"a b": {"type": "string"}}}"#,
            "x-env",
        ),
        (
            keys::PARAMETERS,
            r#"{"required": ["a"]}"#,
            "not among its properties",
        ),
        (keys::WORKSPACE_PATH, "/${{team}}", "nogoo9/workspace-path"),
    ] {
        let error = parse(&document(SPEC, &[(key, value)]))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
}

#[test]
fn a_broken_spec_is_not_quoted() {
    let error = parse(&document("containers: [{name: m, password: hunter2", &[])).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn versions_change_with_what_reaches_a_pod() {
    let version = |spec: &str, annotations: &[(&str, &str)]| {
        parse(&document(spec, annotations)).unwrap().version
    };
    let base = version(SPEC, &[]);
    assert_eq!(base.len(), 12);
    let spec: Value = serde_saphyr::from_str(SPEC).unwrap();
    assert_eq!(
        base,
        version(&serde_json::to_string_pretty(&spec).unwrap(), &[]),
        "JSON or YAML"
    );
    assert_eq!(
        base,
        version(&format!("# a comment\n{SPEC}\n"), &[]),
        "comments"
    );
    assert_eq!(
        base,
        version(
            SPEC,
            &[
                (keys::DRAIN_TIMEOUT, "60"),
                (keys::ALLOWED_ROLES, "ops"),
                ("other", "x")
            ]
        )
    );
    let mut seen = vec![base];
    for (spec, annotations) in [
        (SPEC.replace("1.0", "1.1"), vec![]),
        (SPEC.replace("hello", "servus"), vec![]),
        (SPEC.to_owned(), vec![(keys::WORKSPACE_PORT, "8080")]),
        (SPEC.to_owned(), vec![(keys::VISIBILITY, "authenticated")]),
        (
            SPEC.to_owned(),
            vec![(keys::ALLOW_ORIGINS, "https://app.example.org")],
        ),
        (SPEC.to_owned(), vec![("nogoo9/api.x.port", "1")]),
        (SPEC.to_owned(), vec![(keys::PARAMETERS, SCHEMA)]),
    ] {
        let version = version(&spec, &annotations);
        assert!(!seen.contains(&version), "{annotations:?}");
        seen.push(version);
    }
}

#[test]
fn folders() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("plain.yaml", SPEC);
    write("notes.txt", "no template");
    write("bad.json", "{");
    write(
        "map.yml",
        "{kind: ConfigMap, metadata: {name: desk, annotations: {nogoo9/settle: '1'}}, data: {spec: '{\"containers\": [{\"name\": \"m\", \"image\": \"i\"}]}'}}",
    );
    let read = folder::read(folder.path()).unwrap();
    assert_eq!(
        read.keys().map(String::as_str).collect::<Vec<_>>(),
        ["bad", "desk", "plain"]
    );
    assert!(read["bad"].is_err());
    let desk = parse(read["desk"].as_ref().unwrap()).unwrap();
    assert_eq!(
        (
            desk.settings.timing.settle,
            desk.images().collect::<Vec<_>>()
        ),
        (1, vec!["i"])
    );
    assert_eq!(
        parse(read["plain"].as_ref().unwrap()).unwrap().version,
        template(&[]).version
    );
    assert!(folder::read(&folder.path().join("absent")).is_err());
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop_oneof!["user", "workspace_id", "workspace"]
            .prop_map(|v| Value::from(format!("a ${{{{{v}}}}} b"))),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-z:{}$\"' ]{0,8}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The value with every string made the same.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => json!("s"),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(k, v)| (k.clone(), shape(v)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

proptest! {
    /// Whatever an owner or a workspace is called, it is text inside one value.
    #[test]
    fn substitution_never_changes_structure(value in json_value(), user in "\\PC{0,30}", name in "\\PC{0,30}") {
        let variables = Variables { user: &user, workspace_id: "id", workspace: &name };
        if let Ok(replaced) = variables.value(&value) {
            prop_assert_eq!(shape(&replaced), shape(&value));
        }
    }

    #[test]
    fn substitution_is_single_pass(text in "[a-z ]{0,10}") {
        let variables = Variables { user: "${{workspace}}", workspace_id: "", workspace: "x" };
        let replaced = variables.text(&format!("{text}${{{{user}}}}"));
        prop_assert_eq!(replaced.unwrap(), format!("{text}${{{{workspace}}}}"));
    }

    /// Written as YAML or as JSON, it is the same template.
    #[test]
    fn a_spec_survives_yaml(extra in json_value()) {
        let spec = json!({"containers": [{"name": "m", "image": "i"}], "x": extra});
        let yaml = serde_saphyr::to_string(&spec).unwrap();
        let from_yaml = parse(&document(&yaml, &[]));
        let from_json = parse(&document(&spec.to_string(), &[]));
        match (from_yaml, from_json) {
            (Ok(a), Ok(b)) => prop_assert_eq!(a.version, b.version),
            (Err(a), Err(b)) => prop_assert_eq!(a, b),
            (a, b) => prop_assert!(false, "{:?} {:?} {}", a.err(), b.err(), yaml),
        }
    }
}
