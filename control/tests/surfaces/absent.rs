//! What a proxy is told of workspaces without pods, for whom, and who may start them.

use crate::world::{Answer, World};
use http::Method;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

/// A question as a proxy passes it on for a request to `host`.
async fn ask(
    world: &World,
    method: Method,
    path: &str,
    host: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = world
        .http
        .request(method, format!("{}{path}", world.url))
        .header("x-forwarded-host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world.send(request).await
}

impl World {
    fn console(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    fn host(&self, id: &str) -> String {
        format!("{id}.{}", self.console())
    }

    /// What is said of a workspace to `user`, who is on its host.
    async fn absent(&self, user: &str, id: &str) -> Answer {
        let host = self.host(id);
        let cookie = self.cookie_on(user, &host);
        let headers = [
            ("cookie", cookie.as_str()),
            ("sec-fetch-site", "same-origin"),
        ];
        let path = format!("/.nogoo9/absent/{id}");
        ask(self, Method::GET, &path, &host, &headers)
            .await
            .without_date()
    }

    async fn absent_by_path(&self, user: &str, id: &str) -> Answer {
        let token = format!("Bearer {}", self.token(user));
        let headers = [("authorization", token.as_str())];
        let path = format!("/.nogoo9/absent/{id}");
        ask(self, Method::GET, &path, self.console(), &headers)
            .await
            .without_date()
    }

    /// Keeps the pods of a workspace from going, as a kubelet does that still ends what runs in them.
    async fn hold_pods(&self, id: &str) {
        self.finalizers(id, &["test/ending"]).await;
    }

    async fn finalizers(&self, id: &str, all: &[&str]) {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": all}}));
        for pod in self.pods_of(id).await {
            let params = PatchParams::default();
            // It may have gone meanwhile.
            let _patched = self
                .pods_api()
                .patch(&pod.name_any(), &params, &patch)
                .await;
        }
    }

    /// Stops a workspace and ends its pods, as a kubelet does.
    async fn stopped(&self, user: &str, id: &str) {
        self.post(user, &format!("/workspaces/{id}/stop")).await;
        self.finalizers(id, &[]).await;
        self.until("the pods to end", || async {
            for pod in self.pods_of(id).await {
                let now = DeleteParams::default().grace_period(0);
                let _gone = self.pods_api().delete(&pod.name_any(), &now).await;
            }
            self.get(user, &format!("/workspaces/{id}")).await["status"] == "stopped"
        })
        .await;
    }
}

fn said(answer: &Answer) -> (u16, Value) {
    (answer.status.as_u16(), answer.json()["status"].clone())
}

#[tokio::test]
async fn whoever_may_open_it_is_told_and_nobody_else() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    // The edge is behind: it will see the pod in a moment.
    assert_eq!(
        said(&world.absent("alice", "dev").await),
        (200, json!("starting"))
    );
    world.hold_pods("dev").await;
    world.post("alice", "/workspaces/dev/stop").await;
    assert_eq!(
        said(&world.absent("alice", "dev").await),
        (200, json!("stopping"))
    );
    world.stopped("alice", "dev").await;
    for answer in [
        world.absent("alice", "dev").await,
        world.absent_by_path("alice", "dev").await,
    ] {
        assert_eq!(said(&answer), (200, json!("stopped")));
        let told = answer.json();
        assert_eq!(
            (&told["version"], &told["canStart"]),
            (&json!(1), &json!(true))
        );
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
    // Another's and nobody's are one, also for admins, who may not open another's pages.
    for user in ["bob", "admin"] {
        let theirs = world.absent(user, "dev").await;
        assert_eq!(theirs.status, 404);
        assert_eq!(theirs, world.absent(user, "none").await);
        let theirs = world.absent_by_path(user, "dev").await;
        assert_eq!(theirs, world.absent_by_path(user, "none").await);
        assert!(!theirs.body.contains("alice"));
    }
    // A viewer may look, and not start.
    world
        .spawn(
            "admin",
            json!({"template": "sample", "id": "veras", "userSub": "vera"}),
        )
        .await;
    world.stopped("admin", "veras").await;
    let told = world.absent_by_path("vera", "veras").await.json();
    assert_eq!(
        (&told["status"], &told["canStart"]),
        (&json!("stopped"), &json!(false))
    );
    let token = format!("Bearer {}", world.token("vera"));
    let headers = [("authorization", token.as_str())];
    let refused = ask(
        &world,
        Method::POST,
        "/.nogoo9/start/veras",
        world.console(),
        &headers,
    )
    .await;
    assert_eq!(refused.status, 403);
    assert_eq!(
        refused.json()["message"],
        "Forbidden: this needs the role 'user'"
    );
}

#[tokio::test]
async fn of_an_extra_port_its_own_people_are_told() {
    let world = World::start().await;
    let annotations = json!({
        "nogoo9/api.web.port": "8080",
        "nogoo9/api.web.path": "/w",
        "nogoo9/api.web.visibility": "authenticated",
        "nogoo9/api.own.port": "8081",
    });
    world
        .template("ported", "containers: [{name: m, image: i}]", annotations)
        .await;
    world
        .spawn("alice", json!({"template": "ported", "id": "dev"}))
        .await;
    world.stopped("alice", "dev").await;
    let told = async |user: &str, id: &str, label: &str, at: &str| {
        let host = world.host(label);
        let cookie = world.cookie_on(user, &host);
        let headers = [
            ("cookie", cookie.as_str()),
            ("sec-fetch-site", "same-origin"),
            ("x-nogoo9-at", at),
        ];
        let path = format!("/.nogoo9/absent/{id}");
        ask(&world, Method::GET, &path, &host, &headers)
            .await
            .without_date()
    };
    for (user, label, at, status) in [
        ("alice", "dev", "%2F", 200),
        ("alice", "web--dev", "%2Fx", 200),
        ("alice", "own--dev", "%2F", 200),
        // Whoever may open the port, and nothing but that.
        ("bob", "web--dev", "%2Fx", 200),
        ("bob", "dev", "%2Fw%2Fx", 200),
        ("bob", "dev", "%2Fwx", 404),
        ("bob", "dev", "%2F", 404),
        ("bob", "own--dev", "%2F", 404),
        // What there is not is not there for its owner either.
        ("alice", "none--dev", "%2F", 404),
        ("bob", "none--dev", "%2F", 404),
    ] {
        let answer = told(user, "dev", label, at).await;
        assert_eq!(
            answer.status, status,
            "{user} {label} {at}: {}",
            answer.body
        );
        if status == 404 {
            assert_eq!(
                answer,
                told(user, "none", &label.replace("dev", "none"), at).await
            );
        }
    }
    // A host is one of this workspace's or of none.
    assert_eq!(told("alice", "dev", "web--other", "%2F").await.status, 404);
    let shared = world.absent_by_path("bob", "dev").await;
    assert_eq!(shared.status, 404);
    // They may see it stopped; starting is its owner's.
    let seen = told("bob", "dev", "web--dev", "%2F").await.json();
    assert_eq!(
        (&seen["status"], &seen["canStart"]),
        (&json!("stopped"), &json!(false))
    );

    // The owner sees where each is opened.
    let shown = world.get("alice", "/workspaces/dev").await;
    let domain = world.console();
    assert_eq!(
        shown["ports"],
        json!([
            {"name": "own", "port": 8081, "url": format!("http://own--dev.{domain}/")},
            {
                "name": "web", "port": 8080, "url": format!("http://web--dev.{domain}/"),
                "pathUrl": format!("http://dev.{domain}/w/"),
            },
        ])
    );
}

#[tokio::test]
async fn a_credential_counts_on_the_host_that_it_is_for() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.stopped("alice", "dev").await;
    let (host, other) = (world.host("dev"), world.host("other"));
    let (own, others) = (
        world.cookie_on("alice", &host),
        world.cookie_on("alice", &other),
    );
    let console = world.cookie("alice");
    for (host, cookie, status) in [
        (host.as_str(), own.as_str(), 200),
        (host.as_str(), others.as_str(), 401),
        (host.as_str(), console.as_str(), 401),
        (world.console(), console.as_str(), 200),
        (world.console(), own.as_str(), 401),
        // That is no place of this workspace, whoever asks.
        (other.as_str(), others.as_str(), 404),
        ("example.org", own.as_str(), 404),
        ("", own.as_str(), 404),
    ] {
        let headers = [("cookie", cookie), ("sec-fetch-site", "same-origin")];
        let answer = ask(&world, Method::GET, "/.nogoo9/absent/dev", host, &headers).await;
        assert_eq!(answer.status, status, "{host}: {}", answer.body);
    }
    let nobody = ask(&world, Method::GET, "/.nogoo9/absent/dev", &host, &[]).await;
    assert_eq!(nobody.status, 401);
    // Not what another site's page makes a browser send.
    let headers = [("cookie", own.as_str()), ("sec-fetch-site", "same-site")];
    let sibling = ask(&world, Method::GET, "/.nogoo9/absent/dev", &host, &headers).await;
    assert_eq!(sibling.status, 401);
}

#[tokio::test]
async fn a_start_is_the_pages_own_or_a_bearers() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world.running("alice", "dev").await;
    world.stopped("alice", "dev").await;
    let host = world.host("dev");
    let cookie = world.cookie_on("alice", &host);
    let (own, sibling) = (
        format!("http://{host}"),
        format!("http://{}", world.host("bobs")),
    );
    let start = async |headers: &[(&str, &str)]| {
        let mut all = headers.to_vec();
        all.push(("cookie", cookie.as_str()));
        ask(&world, Method::POST, "/.nogoo9/start/dev", &host, &all).await
    };
    for (headers, status) in [
        (&[][..], 401),
        (&[("origin", sibling.as_str())], 401),
        (
            &[
                ("sec-fetch-site", "same-site"),
                ("origin", sibling.as_str()),
            ],
            401,
        ),
        // Somebody typed or followed something: no press of our button.
        (&[("sec-fetch-site", "none")], 403),
        (
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
            403,
        ),
        (
            &[
                ("sec-fetch-site", "same-origin"),
                ("origin", sibling.as_str()),
            ],
            403,
        ),
    ] {
        let answer = start(headers).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    let get = ask(
        &world,
        Method::GET,
        "/.nogoo9/start/dev",
        &host,
        &[("cookie", &cookie)],
    )
    .await;
    assert_eq!(get.status, 405);
    assert_eq!(
        said(&world.absent("alice", "dev").await),
        (200, json!("stopped"))
    );
    assert!(world.pods_of("dev").await.is_empty());

    let started = start(&[("sec-fetch-site", "same-origin"), ("origin", &own)]).await;
    assert_eq!(said(&started), (200, json!("starting")));
    assert_eq!(world.pods_of("dev").await.len(), 1);
    // Once more is no harm.
    assert_eq!(
        said(&start(&[("origin", &own)]).await),
        (200, json!("starting"))
    );

    // Who may not open it learns nothing and starts nothing, also one who could in the console.
    world.stopped("alice", "dev").await;
    for user in ["bob", "admin"] {
        let token = format!("Bearer {}", world.token(user));
        let headers = [("authorization", token.as_str())];
        let theirs = ask(
            &world,
            Method::POST,
            "/.nogoo9/start/dev",
            world.console(),
            &headers,
        )
        .await;
        let none = ask(
            &world,
            Method::POST,
            "/.nogoo9/start/none",
            world.console(),
            &headers,
        )
        .await;
        assert_eq!(theirs.status, 404);
        assert_eq!(theirs.without_date(), none.without_date());
    }
    assert!(world.pods_of("dev").await.is_empty());
    let token = format!("Bearer {}", world.token("alice"));
    let headers = [("authorization", token.as_str())];
    let by_path = ask(
        &world,
        Method::POST,
        "/.nogoo9/start/dev",
        world.console(),
        &headers,
    )
    .await;
    assert_eq!(said(&by_path), (200, json!("starting")));
}

#[tokio::test]
async fn what_fails_is_said_to_the_owner() {
    let world = World::start().await;
    world.sample("sample:1").await;
    world
        .spawn("alice", json!({"template": "sample", "id": "dev"}))
        .await;
    let pod = world.pods_of("dev").await.pop().unwrap().name_any();
    let waiting = json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false,
        "restartCount": 0, "image": "sample:1", "imageID": "",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]});
    world.status(&pod, waiting).await;
    world
        .until("the failure", || async {
            let told = world.absent("alice", "dev").await.json();
            told["status"] == "failing"
                && told["message"].as_str().unwrap().contains("no such image")
        })
        .await;
}

#[tokio::test]
async fn visibility_counts_on_a_host_of_its_own() {
    let world = World::start().await;
    let spec = "containers: [{name: main, image: 'sample:1'}]";
    world
        .template("open", spec, json!({"nogoo9/visibility": "authenticated"}))
        .await;
    world
        .until("the template", || async {
            let seen = world.get("alice", "/templates").await;
            seen["templates"].as_array().unwrap().len() == 1
        })
        .await;
    world
        .spawn("alice", json!({"template": "open", "id": "dev"}))
        .await;
    world.stopped("alice", "dev").await;
    let told = world.absent("bob", "dev").await;
    assert_eq!(said(&told), (200, json!("stopped")));
    assert_eq!(told.json()["canStart"], false);
    assert_eq!(world.absent_by_path("bob", "dev").await.status, 404);
    let host = world.host("dev");
    let cookie = world.cookie_on("bob", &host);
    let headers = [
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    let refused = ask(&world, Method::POST, "/.nogoo9/start/dev", &host, &headers).await;
    assert_eq!(refused.status, 404);
    // An admin who may open it may start it as well.
    let cookie = world.cookie_on("admin", &host);
    let headers = [
        ("cookie", cookie.as_str()),
        ("sec-fetch-site", "same-origin"),
    ];
    let started = ask(&world, Method::POST, "/.nogoo9/start/dev", &host, &headers).await;
    assert_eq!(said(&started), (200, json!("starting")));
}
