//! Templates: written by admins and authors, used by whom they are for.

use crate::world::{Answer, SYSTEM, World};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use nogoo9_control::session::{Limits, SessionRecord};
use serde_json::{Value, json};

fn spec(image: &str) -> Value {
    json!({"containers": [{"name": "main", "image": image}]})
}

async fn call(world: &World, user: &str, method: Method, path: &str, body: Value) -> Answer {
    let body = (!body.is_null()).then_some(body);
    world.api(user, method, path, body).await
}

async fn names(world: &World, user: &str) -> Vec<String> {
    let list = world.get(user, "/templates").await;
    let all = list["templates"].as_array().unwrap().iter();
    all.map(|template| template["name"].as_str().unwrap().to_owned())
        .collect()
}

fn refused(answer: &Answer, status: u16, code: &str, says: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    let body = answer.json();
    assert_eq!(body["code"], code, "{body}");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains(says), "{says}: {message}");
}

#[tokio::test]
async fn authors_and_admins_write_templates_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let filed = folder.path().join("filed.json");
    std::fs::write(&filed, spec("filed:1").to_string()).unwrap();
    let folder = format!("--templates-dir={}", folder.path().display());
    let authors = "--template-author=bob,vera,role:writer";
    let world = World::start_with(&[authors, &folder]).await;

    // Viewers write nothing, whoever names them.
    let made = json!({"name": "notes", "spec": spec("notes:1"), "settings": {"settle": "0"}});
    for user in ["alice", "vera"] {
        for (method, path, body) in [
            (Method::POST, "/templates", made.clone()),
            (Method::PUT, "/templates/filed", json!({})),
            (Method::DELETE, "/templates/filed", Value::Null),
            (Method::DELETE, "/templates/absent", Value::Null),
        ] {
            let answer = call(&world, user, method, path, body).await;
            let only = "Forbidden: Only admin users and template authors can change templates";
            refused(&answer, 403, "forbidden", only);
        }
        let answer = world.tool(user, "create_template", made.clone()).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let may = world.get(user, "/capabilities").await["canWriteTemplates"].clone();
        assert_eq!(may, false, "{user}");
    }
    assert_eq!(
        world.get("bob", "/capabilities").await["canWriteTemplates"],
        true
    );

    // What is made is there at once, for everybody.
    let created = call(&world, "bob", Method::POST, "/templates", made.clone()).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let first = created.json();
    assert_eq!(
        (&first["usable"], &first["images"], &first["settings"]),
        (&json!(true), &json!(["notes:1"]), &json!({"settle": "0"}))
    );
    assert_eq!(names(&world, "alice").await, ["filed", "notes"]);
    world
        .spawn("alice", json!({"template": "notes", "id": "dev"}))
        .await;

    // Nothing else is overwritten, touched or deleted, and no file.
    let maps: Api<ConfigMap> = Api::namespaced(world.admin.clone(), SYSTEM);
    let plain = json!({"metadata": {"name": "plain"}, "data": {"spec": "kept"}});
    let plain: ConfigMap = serde_json::from_value(plain).unwrap();
    maps.create(&PostParams::default(), &plain).await.unwrap();
    for name in ["notes", "plain", "filed"] {
        let again = json!({"name": name, "spec": spec("other:1")});
        let answer = call(&world, "admin", Method::POST, "/templates", again).await;
        refused(&answer, 409, "conflict", "is taken");
    }
    for (name, status, code, says) in [
        ("plain", 404, "template_not_found", "there is no template"),
        ("absent", 404, "template_not_found", "there is no template"),
        (
            "..%2Fplain",
            404,
            "template_not_found",
            "there is no template",
        ),
        ("filed", 409, "conflict", "--templates-dir"),
    ] {
        let path = format!("/templates/{name}");
        let answer = call(
            &world,
            "admin",
            Method::PUT,
            &path,
            json!({"spec": spec("x")}),
        )
        .await;
        refused(&answer, status, code, says);
        let answer = call(&world, "admin", Method::DELETE, &path, Value::Null).await;
        refused(&answer, status, code, says);
    }
    let kept = maps.get("plain").await.unwrap().data.unwrap();
    assert_eq!(kept["spec"], "kept");

    // What could not be used is refused, by argument.
    for (name, body, says) in [
        ("nogoo9-jwks", json!({"spec": spec("x")}), "name: "),
        (
            "a",
            json!({"spec": {}}),
            "spec: data.spec has no 'containers'",
        ),
        (
            "a",
            json!({"spec": spec("x"), "settings": {"port": "1"}}),
            "settings: there is no 'port'",
        ),
        (
            "a",
            json!({"spec": spec("x"), "settings": {"visibility": "all"}}),
            "settings: ",
        ),
        (
            "a",
            json!({"spec": spec("x"), "settings": {"allowed-roles": ""}}),
            "settings: ",
        ),
        (
            "a",
            json!({"spec": spec("x"), "claims": [{"name": "A"}]}),
            "claims: data.claims[0]",
        ),
        (
            "a",
            json!({"spec": spec("x"), "parameters": {"properties": 7}}),
            "parameters: ",
        ),
    ] {
        let mut body = body;
        body["name"] = json!(name);
        let answer = call(&world, "bob", Method::POST, "/templates", body).await;
        refused(&answer, 400, "invalid_argument", says);
    }
    assert_eq!(names(&world, "admin").await, ["filed", "notes"]);

    // A change is a new version; what nogoo9 knows nothing of stays.
    let team = json!({"metadata": {"annotations": {"example.org/team": "a"}}});
    maps.patch("notes", &PatchParams::default(), &Patch::Merge(&team))
        .await
        .unwrap();
    let change = json!({"name": "notes", "spec": spec("notes:2"), "expectedVersion": "stale"});
    let stale = world.tool("bob", "update_template", change.clone()).await;
    assert!(stale.to_string().contains("has changed"), "{stale}");
    let mut change = change;
    change["expectedVersion"] = first["version"].clone();
    let changed = world.tool("bob", "update_template", change).await;
    let changed = &changed["result"]["structuredContent"];
    assert_eq!(changed["images"], json!(["notes:2"]), "{changed}");
    assert_ne!(changed["version"], first["version"]);
    assert_eq!(
        changed["settings"], first["settings"],
        "what is left out stays"
    );
    let map = maps.get("notes").await.unwrap();
    assert_eq!(map.metadata.annotations.unwrap()["example.org/team"], "a");
    let dev = world.get("alice", "/workspaces/dev").await;
    assert_eq!(
        (&dev["outdated"], &dev["latestVersion"]),
        (&json!(true), &changed["version"])
    );

    // Not while it is in use.
    let answer = call(
        &world,
        "admin",
        Method::DELETE,
        "/templates/notes",
        Value::Null,
    )
    .await;
    refused(
        &answer,
        409,
        "conflict",
        "1 workspace is made from the template 'notes'",
    );
    let answer = call(
        &world,
        "alice",
        Method::DELETE,
        "/workspaces/dev",
        Value::Null,
    )
    .await;
    assert_eq!(answer.status, 200);
    world
        .until("no workspace", || async {
            let all = world.get("alice", "/workspaces").await;
            all == json!({"workspaces": []})
        })
        .await;
    let deleted = world
        .tool("bob", "delete_template", json!({"name": "notes"}))
        .await;
    assert_eq!(
        deleted["result"]["structuredContent"]["name"], "notes",
        "{deleted}"
    );
    assert_eq!(names(&world, "alice").await, ["filed"]);
    let spawn = json!({"template": "notes"});
    let answer = call(&world, "alice", Method::POST, "/workspaces", spawn).await;
    refused(
        &answer,
        404,
        "template_not_found",
        "there is no template 'notes'",
    );
}

#[tokio::test]
async fn whose_role_was_taken_away_keeps_the_workspace_and_no_template() {
    let world = World::start_with(&["--template-author=bob"]).await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    // Somebody with that role, and alice without it: it was taken away from her.
    let ops = SessionRecord::begin(
        "s1".to_owned(),
        "olga".to_owned(),
        vec!["user".to_owned(), "ops".to_owned()],
        None,
        &Limits::default(),
        world.now(),
    );
    world.cluster().create_session(&ops).await.unwrap();
    let cookie = world.cookie_of(&ops, world.now() + 800);
    let as_olga = async |path: &str| {
        let url = format!("{}/api/v1{path}", world.url);
        let request = world.http.get(url).header("cookie", &cookie);
        world
            .send(request.header("sec-fetch-site", "same-origin"))
            .await
    };
    for (roles, olga_may) in [("ops", true), ("ops,", false)] {
        let annotations = json!({"nogoo9/settle": "0", "nogoo9/allowed-roles": roles});
        let text = "containers: [{name: main, image: 'sample:2'}]";
        world.template("sample", text, annotations).await;
        world
            .until("the list", || async {
                names(&world, "alice").await.is_empty()
                    && (as_olga("/templates").await.json()["templates"] != json!([])) == olga_may
            })
            .await;
        // Admins see it, and why it is for nobody else.
        let all = world.get("admin", "/templates").await;
        let problem = &all["templates"][0]["problem"];
        assert_eq!(problem.is_string(), !olga_may, "{all}");
        assert_eq!(all["templates"][0]["usable"], true);

        // To alice, and to an author whom it is not for, there is none of that name.
        for (user, method, body) in [
            ("alice", Method::GET, Value::Null),
            ("bob", Method::PUT, json!({"settings": {}})),
            ("bob", Method::DELETE, Value::Null),
        ] {
            let ask = async |name: &str| {
                let path = format!("/templates/{name}");
                let answer = call(&world, user, method.clone(), &path, body.clone()).await;
                let answer = answer.without_date();
                let length = answer.body.len();
                (answer.status, answer.body.replace(name, "<name>"), length)
            };
            let theirs = ask("sample").await;
            assert_eq!(theirs, ask("absent").await, "{user} {method}");
            assert_eq!(theirs.0, 404);
        }
        let spawn = json!({"template": "sample"});
        let answer = call(&world, "alice", Method::POST, "/workspaces", spawn).await;
        refused(
            &answer,
            404,
            "template_not_found",
            "there is no template 'sample'",
        );
        let expected = if olga_may { 200 } else { 404 };
        assert_eq!(as_olga("/templates/sample").await.status, expected);

        // The workspace runs on, and is not upgraded by whom the template is not for.
        let answer = world.post("alice", "/workspaces/dev/upgrade").await;
        refused(
            &answer,
            403,
            "forbidden",
            "the template 'sample' is for other roles",
        );
        let by_tool = world
            .tool("alice", "upgrade_workspace", json!({"id": "dev"}))
            .await;
        assert!(
            by_tool.to_string().contains("is for other roles"),
            "{by_tool}"
        );
        let dev = world.get("alice", "/workspaces/dev").await;
        assert_eq!(dev["status"], "running", "{dev}");
        assert!(dev.get("operationId").is_none(), "{dev}");
    }
    // It is stopped and started as before; an admin upgrades it.
    assert_eq!(
        world.post("alice", "/workspaces/dev/stop").await.status,
        200
    );
    world
        .until("no pod", || async { world.pods_of("dev").await.is_empty() })
        .await;
    assert_eq!(
        world.post("alice", "/workspaces/dev/start").await.status,
        200
    );
    world
        .until("its pod", || async {
            for pod in world.pods_of("dev").await {
                let name = pod.metadata.name.unwrap_or_default();
                world.try_ready(&name).await;
            }
            world.get("alice", "/workspaces/dev").await["status"] == "running"
        })
        .await;
    // As soon as its record knows the new pod.
    world
        .until("an upgrade by an admin", || async {
            let begun = world.post("admin", "/workspaces/dev/upgrade").await;
            begun.status == 200 && begun.json()["status"] == "upgrading"
        })
        .await;
}
