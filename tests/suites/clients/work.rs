//! What agents do with the TypeScript SDKs, from listing the tools to a workspace's end.

use anyhow::Context as _;
use nogoo9_model::keys;
use nogoo9_tests::{Site, Template, ensure_modules, node};
use serde_json::{Value, json};
use std::sync::Arc;

/// The tools, as clients see them. Sorted.
const TOOLS: [&str; 24] = [
    "cancel_operation",
    "create_template",
    "delete_template",
    "delete_workspace",
    "get_capabilities",
    "get_operation",
    "get_template",
    "get_workspace",
    "get_workspace_events",
    "get_workspace_logs",
    "list_operations",
    "list_templates",
    "list_workspaces",
    "pause_operation",
    "resume_operation",
    "retry_operation",
    "rollback_workspace",
    "spawn_workspace",
    "start_workspace",
    "stop_workspace",
    "update_template",
    "upgrade_all_workspaces",
    "upgrade_workspace",
    "wait_for_operation",
];

pub(super) async fn generation(
    site: Arc<Site>,
    name: &'static str,
    protocol: &'static str,
) -> anyhow::Result<()> {
    let report = run(&site, name).await?;
    assert_eq!(report["protocol"], protocol);
    assert_eq!(report["server"]["name"], "nogoo9");
    tools(&report);
    work(&site, &report, name).await?;
    refusals(&report)?;
    signing_in(&site, &report);
    Ok(())
}

/// Runs the script. Meanwhile the template is edited, as soon as the workspace is served.
async fn run(site: &Site, generation: &str) -> anyhow::Result<Value> {
    let folder = ensure_modules("clients")?;
    let cluster = site.cluster().await?;
    // Settling takes long enough for a wait to tell of progress in between.
    let template =
        Template::new(&format!("agent-{generation}"), "1.0").annotation(keys::SETTLE, "4");
    cluster.apply(&template).await?;
    let (token, strangers) = (site.token("alice").await?, site.token("bob").await?);
    let env = [
        ("MCP_URL", site.ready().mcp_url.as_str()),
        ("TOKEN", &token),
        ("STRANGERS_TOKEN", &strangers),
        ("GENERATION", generation),
        ("TEMPLATE", template.name()),
    ];
    let edit = async {
        site.routed(template.name(), None).await?;
        cluster.apply(&template.clone().version("2.0")).await
    };
    let (report, edited) = tokio::join!(node(&folder, "tools.mjs", &env), edit);
    let report = report?;
    edited?;
    Ok(report)
}

fn tools(report: &Value) {
    let tools = report["tools"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, TOOLS);
    for tool in &tools {
        let (name, hints) = (&tool["name"], &tool["annotations"]);
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        assert!(
            tool["title"].is_string() && tool["description"].is_string(),
            "{name}"
        );
        // Hosts decide by these whether to ask before they call.
        assert_eq!(hints["openWorldHint"], false, "{name}");
        let reads = name.as_str().is_some_and(|name| {
            ["get_", "list_", "wait_"]
                .iter()
                .any(|verb| name.starts_with(verb))
        });
        assert_eq!(hints["readOnlyHint"], reads, "{name}");
    }
    assert!(
        report["instructions"]
            .as_str()
            .is_some_and(|text| text.contains("upgrade_workspace"))
    );
}

/// Spawn, upgrade and its end.
async fn work(site: &Site, report: &Value, generation: &str) -> anyhow::Result<()> {
    let id = json!(format!("agent-{generation}"));
    let (running, outdated, upgrade) =
        (&report["running"], &report["outdated"], &report["upgrade"]);
    assert_eq!(report["spawned"]["id"], id);
    assert_ne!(running["version"], outdated["latestVersion"]);
    assert_eq!(
        (&upgrade["id"], &upgrade["status"]),
        (&id, &json!("upgrading"))
    );
    assert_eq!(
        (
            &upgrade["previousPodName"],
            &upgrade["fromVersion"],
            &upgrade["toVersion"]
        ),
        (
            &running["podName"],
            &running["version"],
            &outdated["latestVersion"]
        )
    );
    assert_eq!(
        (&report["again"]["operationId"], &report["again"]["podName"]),
        (&upgrade["operationId"], &upgrade["podName"])
    );
    assert!(
        report["listed"]
            .as_array()
            .is_some_and(|all| all.contains(&id))
    );

    let waits = report["waits"].as_array().context("waits")?;
    let (last, before) = waits.split_last().context("no wait")?;
    assert_eq!(
        (&last["done"], &last["state"]),
        (&json!(true), &json!("succeeded"))
    );
    assert!(before.iter().all(|wait| wait["done"] == false));
    assert!(
        waits
            .iter()
            .all(|wait| wait["operationId"] == upgrade["operationId"])
    );
    progress(report, waits.len())?;
    assert_eq!(
        (
            &report["upgraded"]["version"],
            &report["upgraded"]["podName"],
            &report["upgraded"]["status"]
        ),
        (
            &upgrade["toVersion"],
            &upgrade["podName"],
            &json!("running")
        )
    );
    // It was deleted at the end, and its pod with it.
    let pods = site
        .cluster()
        .await?
        .pod_names(&format!("agent-{generation}"))
        .await?;
    assert_eq!(pods, Vec::<String>::new());
    Ok(())
}

/// Every wait told something, rising within each.
fn progress(report: &Value, waits: usize) -> anyhow::Result<()> {
    let told = report["progress"].as_array().context("progress")?;
    for wait in 0..waits {
        let of_wait: Vec<f64> = told
            .iter()
            .filter(|one| one["call"] == wait)
            .filter_map(|one| one["progress"].as_f64())
            .collect();
        assert!(!of_wait.is_empty(), "wait {wait} told nothing: {told:?}");
        assert!(
            of_wait.is_sorted_by(|a, b| a < b),
            "wait {wait}: {of_wait:?}"
        );
    }
    assert!(
        told.iter()
            .all(|one| one["message"].as_str().is_some_and(|text| !text.is_empty()))
    );
    Ok(())
}

/// One text that is JSON, and no structured content, which clients would hold against the schema of
/// the good answer.
fn error_of(report: &Value, which: &str) -> anyhow::Result<Value> {
    let result = &report["refusals"][which];
    assert_eq!(result["isError"], true, "{which}: {result}");
    assert!(
        result.get("structuredContent").is_none(),
        "{which}: {result}"
    );
    let content = result["content"].as_array().context("no content")?;
    assert_eq!(content.len(), 1, "{which}: {result}");
    let text = content.first().and_then(|one| one["text"].as_str());
    serde_json::from_str(text.context("no text")?).with_context(|| format!("{which}: {result}"))
}

fn refusals(report: &Value) -> anyhow::Result<()> {
    let absent = error_of(report, "absent")?;
    assert_eq!(absent["code"], "access_denied");
    assert_eq!(report["refusals"]["absent"], report["refusals"]["anothers"]);
    assert_eq!(
        error_of(report, "absentUpgrade")?["message"],
        "Access Denied"
    );
    assert_eq!(
        report["refusals"]["absentUpgrade"],
        report["refusals"]["anothersUpgrade"]
    );
    let template = error_of(report, "badTemplate")?;
    assert!(
        template["message"]
            .as_str()
            .is_some_and(|text| text.contains("there-is-none"))
    );
    assert_eq!(report["refusals"]["badArguments"]["isError"], true);
    assert!(
        !report["unknownTool"].is_null(),
        "a tool that is not there was called"
    );
    Ok(())
}

/// Nobody gets in without a token that counts, and everyone is told where to get one.
fn signing_in(site: &Site, report: &Value) {
    for which in ["without", "forged"] {
        let failure = &report["unauthenticated"][which];
        let text = failure.to_string();
        assert!(
            text.contains("401") || text.contains("Unauthorized"),
            "{which}: {text}"
        );
    }
    let ready = site.ready();
    assert_eq!(report["resource"]["resource"], ready.mcp_url.as_str());
    assert_eq!(
        report["issuer"]["issuer"]
            .as_str()
            .map(|issuer| issuer.trim_end_matches('/')),
        Some(ready.issuer.as_str().trim_end_matches('/'))
    );
    for endpoint in ["authorization_endpoint", "token_endpoint"] {
        assert!(report["issuer"][endpoint].is_string(), "{endpoint}");
    }
    assert!(
        report["challenge"]["resourceMetadataUrl"].is_string(),
        "{}",
        report["challenge"]
    );
}
