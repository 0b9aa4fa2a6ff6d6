//! A real browser: what a person sees and types, from signing in to an upgrade in mid-work. The
//! scripts in `tests/browser` tell what happened; this suite says what should have.

mod looks;
mod many;

use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Api, Observation, Options, Site, Suite, Template, signalled, until};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for what takes processes to start or end.
const LONG: Duration = Duration::from_secs(120);
/// Seconds after which an upgrade that cannot succeed is given up: enough for a slow machine to find
/// out that the image is missing, and between two tries to pull it, at 10 s and 30 s.
const DEADLINE: &str = "20";

fn main() -> ExitCode {
    Suite::new(Options::default())
        .scenario("a_journey_by_keyboard_through_an_upgrade", journey)
        .scenario("the_console_follows_what_happens", live)
        .scenario("forms_and_dialogs_ask_what_they_must", forms)
        .scenario("anothers_page_and_nobodys_are_one", stranger)
        .scenario("a_page_waits_for_its_workspace", waiting)
        .scenario("an_extra_port_is_an_origin_of_its_own", extra_port)
        .scenario("access_tokens_are_shown_once_and_revoked", tokens)
        .scenario("ones_sessions_are_listed_and_ended", sessions)
        .scenario("pages_are_accessible_and_fit", looks::looks)
        .alone(
            "the_console_outlives_control_and_says_when_the_session_has_ended",
            outage,
        )
        .alone("an_admin_upgrades_all_that_is_outdated", many::bulk)
        .alone(
            "a_canary_waits_for_approval_and_its_owner_goes_back",
            many::canary,
        )
        .main()
}

/// Runs a script as alice's browser and agent.
async fn browse(site: &Site, script: &str, more: &[(&str, &str)]) -> anyhow::Result<Value> {
    let token = site.token("alice").await?;
    let ready = site.ready();
    let alices = [
        ("SITE_URL", ready.url.as_str()),
        ("MCP_URL", ready.mcp_url.as_str()),
        ("WORKSPACE_URL", &ready.workspace_url),
        ("TOKEN", &token),
    ];
    nogoo9_tests::browse(script, &[&alices, more].concat()).await
}

/// What the console complained about: nothing.
fn no_complaints(report: &Value) {
    assert_eq!(report["complaints"], json!([]));
}

async fn journey(site: Arc<Site>) -> anyhow::Result<()> {
    let cluster = site.cluster().await?;
    // Long enough to type a line meanwhile, short enough to see the end of it.
    let template = Template::new("journey", "1.0")
        .env("MESSAGE", "Hello, journey")
        .annotation(keys::SETTLE, "1")
        .annotation(keys::DRAIN_TIMEOUT, "40");
    cluster.apply(&template).await?;
    let edit = async {
        site.routed("journey", None).await?;
        cluster.apply(&template.clone().version("2.0")).await
    };
    let env = [("TEMPLATE", "journey")];
    let (report, edited) = tokio::join!(browse(&site, "journey.mjs", &env), edit);
    let report = report?;
    edited?;
    no_complaints(&report);
    pods(&report);
    order(&report)?;
    words(&report);
    assert_eq!(report["signedOut"], site.ready().url.as_str());
    Ok(())
}

/// Who answered what: the shell stays on its pod until it is drained, all else is the new pod's.
fn pods(report: &Value) {
    let (old, new) = (
        &report["upgrade"]["previousPodName"],
        &report["upgrade"]["podName"],
    );
    assert_ne!(old, new);
    assert_eq!(report["upgrade"]["status"], "upgrading");
    assert_eq!(report["first"], json!({"version": "1.0", "pod": old}));
    let (before, during, after) = (&report["before"], &report["during"], &report["after"]);
    assert_eq!((&before["pod"], &before["n"]), (old, &json!("41")));
    // The same shell: its process, and what it remembers.
    assert_eq!((&during["pod"], &during["n"]), (old, &json!("42")));
    assert_eq!(during["pid"], before["pid"]);
    assert_eq!(report["meanwhile"]["info"]["pod"], *new);
    assert_eq!(report["meanwhile"]["info"]["version"], "2.0");
    assert_eq!(report["meanwhile"]["operation"]["state"], "running");
    assert_eq!(
        report["beside"],
        json!({"version": "2.0", "pod": new, "shell": {"pod": new}})
    );
    assert_eq!((&after["pod"], &after["n"]), (new, &json!("")));
    assert_eq!(report["reloaded"], json!({"version": "2.0", "pod": new}));
    assert_eq!(report["done"]["state"], "succeeded");
}

/// The shell's socket ended once, after what was typed meanwhile, and came back.
fn order(report: &Value) -> anyhow::Result<()> {
    let events: Vec<&str> = report["events"]
        .as_array()
        .context("events")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let upto_done = events.split(|event| *event == "upgrade done").next();
    assert_eq!(
        upto_done.context("the upgrade was never done")?,
        [
            "open /shell",
            "upgrade asked for",
            "new pod answers",
            "typed in the old pod",
            "close /shell",
            "open /shell",
        ]
    );
    Ok(())
}

/// What was told, and where.
fn words(report: &Value) {
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert!(text("spawned").contains("Running"), "{}", text("spawned"));
    assert!(
        text("notice").contains("now runs version 2.0"),
        "{}",
        text("notice")
    );
    let farewell = text("farewell");
    let (away, back) = farewell.split_once("[disconnected").unwrap_or_default();
    assert!(away.contains("during: "), "{farewell}");
    assert!(back.contains("[reconnected: a new shell]"), "{farewell}");
    let (upgraded, details) = (text("upgraded"), text("details"));
    assert!(
        upgraded.contains("Running") && !upgraded.contains("Outdated"),
        "{upgraded}"
    );
    let new = report["upgrade"]["podName"].as_str();
    assert!(new.is_some_and(|new| details.contains(new)), "{details}");
}

async fn stranger(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("secret", "1.0"), json!({}))
        .await?;
    let env = [("OTHERS", id.as_str()), ("ABSENT", "absent")];
    let report = browse(&site, "stranger.mjs", &env).await?;
    assert_eq!(report["others"]["status"], 404);
    assert_eq!(report["others"], report["absent"]);
    assert!(
        report["others"]["hops"]
            .as_array()
            .is_some_and(|hops| hops.len() > 1)
    );
    only_of_status(&report, &["404"])?;
    assert_eq!(
        (&report["own"], &report["ownComplaints"]),
        (&json!(200), &json!([]))
    );
    Ok(())
}

async fn tokens(site: Arc<Site>) -> anyhow::Result<()> {
    let report = browse(&site, "tokens.mjs", &[]).await?;
    let token = report["token"].as_str().context("the token")?;
    assert!(token.starts_with("ng9_"), "{report}");
    assert_eq!(report["copied"], token);
    let listed = report["listed"].as_str().context("its row")?;
    assert!(listed.contains("Look and open"), "{listed}");
    assert_eq!(report["again"], false, "it is shown once");
    assert_eq!(
        (&report["used"], &report["after"]),
        (&json!(200), &json!(401))
    );
    assert_eq!(report["shown"], json!({"overflow": 0, "violations": []}));
    no_complaints(&report);
    Ok(())
}

/// Vera's, whom no other scenario knows, so that all sessions are counted.
async fn sessions(site: Arc<Site>) -> anyhow::Result<()> {
    let report = browse(&site, "sessions.mjs", &[]).await?;
    let ids = |field: &str| -> anyhow::Result<Vec<&str>> {
        let ids = report[field]["ids"].as_array().context("ids")?;
        Ok(ids.iter().filter_map(Value::as_str).collect())
    };
    let (own, first) = (report["own"].as_str(), report["first"].as_str());
    let (own, first) = (own.context("own")?, first.context("first")?);
    let all = ids("all")?;
    assert!(all.contains(&own) && all.contains(&first), "{report}");
    let without: Vec<&str> = all.iter().copied().filter(|id| *id != first).collect();
    assert_eq!(ids("without")?, without);
    assert_eq!(ids("alone")?, [own]);
    for list in ["all", "without", "alone"] {
        let marks = (&report[list]["current"], &report[list]["marked"]);
        assert_eq!(marks, (&json!(1), &json!(1)), "{list}");
    }
    assert_eq!(report["buttons"], 0, "nothing is left to end");
    let question = report["question"].as_str().unwrap_or_default();
    assert!(question.contains("End 2 other sessions?"), "{question}");
    for seen in ["shown", "dark", "asked"] {
        assert_eq!(report[seen], json!({"overflow": 0, "violations": []}));
    }
    no_complaints(&report);
    Ok(())
}

async fn extra_port(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let template = Template::new("ported", "1.0")
        .env("DOCS_PORT", "3001")
        .annotation("nogoo9/api.docs.port", "3001")
        .annotation("nogoo9/api.docs.path", "/docs");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let sibling = Template::new("sibling", "1.0");
    let sibling = site.spawn(&alice, &sibling, json!({})).await?;
    let env = [("ID", id.as_str()), ("SIBLING", sibling.as_str())];
    let report = browse(&site, "ports.mjs", &env).await?;
    let at = |id: &str| site.ready().workspace_url.replace("{id}", id);
    let own = at(&id);
    let docs = format!("{}/docs/", own.trim_end_matches('/'));
    assert_eq!(report["byPath"], docs);
    assert_eq!(report["byHost"]["status"], 200, "{report}");
    assert_eq!(report["byHost"]["workspace"], id.as_str());
    let host = at(&format!("docs--{id}"));
    let host = url::Url::parse(&host)?;
    assert_eq!(report["bound"], json!([host.host_str()]), "{report}");
    // A page reaches its own host and nothing else.
    assert_eq!(report["fromPort"], json!({"own": "TypeError", "port": 200}));
    assert_eq!(
        report["fromSibling"],
        json!({"own": "TypeError", "port": "TypeError"})
    );
    // The workspace's could reach its port, but under `localhost` a browser takes the two for two sites and
    // keeps the cookie back: so nobody is signed in there, and that no page may read.
    assert_eq!(report["fromOwn"], json!({"own": 200, "port": "TypeError"}));
    Ok(())
}

async fn waiting(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, cluster) = (site.api("alice").await?, site.cluster().await?);
    let file = site.data_dir().join("early-is-ready");
    let file = file.to_str().context("folder of the site")?;
    let probe = json!({"exec": {"command": ["test", "-e", file]}, "periodSeconds": 1});
    let template = Template::new("early", "3.0").container("readinessProbe", probe);
    cluster.apply(&template).await?;
    spawn_unready(&site, &alice, "early").await?;
    let env = [("ID", "early"), ("READY_FILE", file)];
    let report = browse(&site, "waiting.mjs", &env).await?;
    assert_eq!(report["version"], "3.0");
    assert_eq!(report["waiting"]["status"], 503);
    assert_eq!(report["waiting"]["heading"], "early is on its way");
    assert!(
        report["waiting"]["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    assert_eq!(report["url"], report["wanted"]);
    // Told by events, it need not ask.
    assert_eq!(report["ours"], json!(["/.nogoo9/events"]));
    assert_eq!(
        report["plain"],
        json!({"status": 503, "heading": "early is on its way"})
    );
    only_of_status(&report, &["503"])
}

/// Spawns from the template of that name; returns once the edge knows of it, ready or not.
async fn spawn_unready(site: &Site, alice: &Api, id: &str) -> anyhow::Result<()> {
    let spawn = json!({"template": id, "id": id});
    until("the template to be known", LONG, || async {
        let reply = alice.post("/api/v1/workspaces", &spawn).await?;
        Ok(Observation::when(reply.status == 201, (), reply))
    })
    .await?;
    until("the edge to know the workspace", LONG, || async {
        let routes = site.proxy_admin("/routes").await?;
        Ok(Observation::when(
            routes["routes"][id].is_object(),
            (),
            routes,
        ))
    })
    .await
}

/// A schema with every kind of field.
const PARAMETERS: &str = r#"{
    "title": "Studio", "description": "A studio with everything.", "required": ["team"],
    "properties": {
        "greeting": {"type": "string", "title": "Greeting", "description": "What it says.", "default": "Hi"},
        "team": {"type": "string", "title": "Team"},
        "size": {"type": "integer", "title": "Size", "minimum": 1, "maximum": 4},
        "colour": {"type": "string", "title": "Colour", "enum": ["red", "green"]},
        "loud": {"type": "boolean", "title": "Loud", "description": "Whether it shouts."}
    }
}"#;

async fn forms(site: Arc<Site>) -> anyhow::Result<()> {
    let template = Template::new("forms", "1.0")
        .annotation(keys::PARAMETERS, PARAMETERS)
        .files(None);
    site.cluster().await?.apply(&template).await?;
    let alice = site.api("alice").await?;
    until("the template to be known", LONG, || async {
        let reply = alice.get("/api/v1/templates/forms").await?;
        Ok(Observation::when(reply.body["usable"] == true, (), reply))
    })
    .await?;
    let report = browse(&site, "forms.mjs", &[("TEMPLATE", "forms")]).await?;
    let labels = json!(["Name", "Id", "Greeting", "Loud", "Size", "Team (required)"]);
    assert_eq!(report["labels"], labels);
    assert_eq!(report["placeholder"], "Hi");
    // The id that is none, and the team that is required.
    assert_eq!(
        (&report["refusedHere"], &report["sentBefore"]),
        (&json!(2), &json!(0))
    );
    let inputs = json!({"team": "blue", "size": 2, "colour": "green", "loud": true});
    let spawn = json!({"template": "forms", "id": "forms", "inputs": inputs});
    let again = json!({"template": "forms", "id": "forms", "inputs": {"team": "red"}});
    assert_eq!(
        report["sent"],
        json!([
            ["POST", "/api/v1/workspaces", spawn],
            ["POST", "/api/v1/workspaces", again],
            ["DELETE", "/api/v1/workspaces/forms?deleteData=true", null],
        ])
    );
    let refused = report["refusedThere"].as_str().context("refusedThere")?;
    assert!(refused.contains("The id 'forms' is taken"), "{refused}");
    assert_eq!(report["stays"], "red");
    let question = report["question"].as_str().context("question")?;
    assert!(
        question.contains("Delete forms?") && question.contains("volume data"),
        "{question}"
    );
    assert_eq!(report["firstFocus"], "Keep it");
    assert_eq!(report["inside"], json!([true, true, true, true]));
    assert_eq!(
        (&report["back"], &report["still"]),
        (&json!("Delete forms"), &json!("running"))
    );
    only_of_status(&report, &["409"])
}

async fn live(site: Arc<Site>) -> anyhow::Result<()> {
    let cluster = site.cluster().await?;
    let template = Template::new("live", "1.0").annotation(keys::UPGRADE_DEADLINE, "300");
    cluster.apply(&template).await?;
    let alice = site.api("alice").await?;
    until("the template to be known", LONG, || async {
        let reply = alice.get("/api/v1/templates/live").await?;
        Ok(Observation::when(reply.body["usable"] == true, (), reply))
    })
    .await?;
    let signal = site.data_dir().join("live-is-to-change");
    let file = signal.to_str().context("folder of the site")?;
    // The new version fails as soon as this is there, and not before.
    let fail = site.data_dir().join("live-is-to-fail");
    let fail = fail.to_str().context("folder of the site")?;
    let script = format!("until test -e '{fail}'; do sleep 0.1; done; exit 3");
    let edit = async {
        signalled(&signal).await?;
        let failing = template
            .container("command", json!(["/bin/sh", "-c", script]))
            .pod("restartPolicy", json!("Never"));
        cluster.apply(&failing).await
    };
    let env = [
        ("TEMPLATE", "live"),
        ("APPLY_FILE", file),
        ("FAIL_FILE", fail),
    ];
    let (report, edited) = tokio::join!(browse(&site, "live.mjs", &env), edit);
    let report = report?;
    edited?;
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(report["before"], 0);
    assert!(
        text("running").contains("Running") && !text("running").contains("Outdated"),
        "{}",
        text("running")
    );
    assert!(text("outdated").contains('→'), "{}", text("outdated"));
    for told in ["failed", "row"] {
        assert!(
            text(told).contains("container workspace ended with exit code 3"),
            "{told}: {}",
            text(told)
        );
    }
    assert_eq!(report["served"], "running", "on its old version");
    assert!(
        text("lost").contains("what was last known"),
        "{}",
        text("lost")
    );
    assert_eq!(
        (&report["kept"], &report["sameDocument"]),
        (&json!(1), &json!(true))
    );
    // What the browser says of a connection that was cut on purpose is no fault of the page.
    let complaints = report["complaints"].as_array().context("complaints")?;
    assert!(
        complaints.iter().all(|one| {
            let text = one["text"].as_str().unwrap_or_default();
            text.contains("ERR_INTERNET_DISCONNECTED") || text.contains("ERR_NETWORK_CHANGED")
        }),
        "{complaints:?}"
    );
    Ok(())
}

async fn outage(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    site.spawn(&alice, &Template::new("outage", "1.0"), json!({}))
        .await?;
    let file = |name: &str| site.data_dir().join(name);
    let (begin, end) = (file("outage-may-begin"), file("outage-may-end"));
    let away = async {
        signalled(&begin).await?;
        let down = site.take_down("control").await?;
        let seen = signalled(&end).await;
        down.back().await?;
        seen
    };
    let path = |file: &std::path::PathBuf| file.to_string_lossy().into_owned();
    let (begin, end) = (path(&begin), path(&end));
    let env = [
        ("ID", "outage"),
        ("BEGIN_FILE", begin.as_str()),
        ("END_FILE", &end),
    ];
    let (report, away) = tokio::join!(browse(&site, "outage.mjs", &env), away);
    let report = report?;
    away?;
    let text = |field: &str| report[field].as_str().unwrap_or_default().to_owned();
    assert!(text("lost").contains("trying again"), "{}", text("lost"));
    // What the edge says in control's stead.
    assert!(
        text("refused").contains("not reachable"),
        "{}",
        text("refused")
    );
    assert_eq!(
        (&report["kept"], &report["sameDocument"]),
        (&json!("running"), &json!(true))
    );
    assert_ne!(report["light"], report["dark"]);
    assert_eq!(report["dark"], report["reloaded"], "the theme is kept");
    assert_eq!(report["back"], "/auth/login?return=%2Ftemplates");
    let complaints = report["complaints"].as_array().context("complaints")?;
    let of_the_outage = |text: &str| {
        ["a status of 50", "a status of 401", "net::ERR_"]
            .iter()
            .any(|known| text.contains(known))
    };
    assert!(
        complaints
            .iter()
            .all(|one| one["text"].as_str().is_some_and(of_the_outage)),
        "{complaints:?}"
    );
    Ok(())
}

/// The console complained of pages with these statuses, and of nothing else.
fn only_of_status(report: &Value, statuses: &[&str]) -> anyhow::Result<()> {
    let complaints = report["complaints"].as_array().context("complaints")?;
    let texts: Vec<&str> = complaints
        .iter()
        .filter_map(|one| one["text"].as_str())
        .collect();
    let of = |text: &&str, status: &&&str| text.contains(&format!("a status of {status}"));
    assert!(
        texts
            .iter()
            .all(|text| statuses.iter().any(|status| of(text, &status))),
        "{texts:?}"
    );
    assert!(
        statuses
            .iter()
            .all(|status| texts.iter().any(|text| of(text, &status))),
        "{texts:?}"
    );
    Ok(())
}
