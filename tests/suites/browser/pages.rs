//! Pages of workspaces: on the ports beside the main one, and before they are there.

use super::{browse, only_of_status, spawn_unready};
use anyhow::Context as _;
use nogoo9_tests::{Site, Template};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn extra_port(site: Arc<Site>) -> anyhow::Result<()> {
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
    // keeps the cookie back: so nobody is signed in there, which the page is told.
    assert_eq!(report["fromOwn"], json!({"own": 200, "port": 401}));
    Ok(())
}

pub(super) async fn waiting(site: Arc<Site>) -> anyhow::Result<()> {
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
    // Whatever comes from in between, it is there, and says what is so now; one word that there is nothing
    // ends it.
    let stopping = json!({"status": "stopping", "message": "It ends."});
    let between = &report["between"];
    assert_eq!(
        between["statuses"],
        json!([502, 429, 500, 503, stopping, {"status": "starting"}, 404])
    );
    let headings: Vec<_> = [false, false, false, false, false, true, false]
        .map(|stopping| {
            if stopping {
                "early is stopping"
            } else {
                "early is on its way"
            }
        })
        .into();
    assert_eq!(between["headings"], json!(headings));
    assert_eq!(between["titles"], json!(headings));
    let once = [1; 7];
    assert_eq!(between["navigations"], json!(once));
    assert_eq!(
        report["plain"],
        json!({"status": 503, "heading": "early is on its way"})
    );
    only_of_status(&report, &["503"])
}
