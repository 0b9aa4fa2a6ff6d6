//! The real kubectl beside an upgrade, as an admin uses it who does not trust anything else.

use anyhow::{Context as _, bail};
use nogoo9_model::keys;
use nogoo9_tests::{Observation, Options, Site, Suite, Template, until};
use serde_json::json;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;

/// Longest run of one command.
const LONG: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    Suite::new(Options::default())
        .scenario(
            "an_upgrade_as_kubectl_shows_it",
            an_upgrade_as_kubectl_shows_it,
        )
        .scenario(
            "templates_are_made_with_kubectl",
            templates_are_made_with_kubectl,
        )
        .scenario(
            "the_proxys_token_reads_pods_alone",
            the_proxys_token_reads_pods_alone,
        )
        .main()
}

fn kubectl(site: &Site) -> Command {
    let mut command = Command::new("kubectl");
    command
        .arg("--kubeconfig")
        .arg(&site.ready().kubeconfig)
        .arg("--cache-dir")
        .arg(site.data_dir().join("kubectl-cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn finished(
    mut command: Command,
    input: Option<String>,
) -> anyhow::Result<(bool, String, String)> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().context("kubectl")?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        stdin.write_all(input.as_bytes()).await?;
    }
    let output = tokio::time::timeout(LONG, child.wait_with_output())
        .await
        .context("kubectl runs on")??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    ))
}

/// Standard output of a command that succeeds.
async fn run(site: &Site, args: &[&str]) -> anyhow::Result<String> {
    let mut command = kubectl(site);
    command.args(args);
    match finished(command, None).await? {
        (true, output, _) => Ok(output),
        (false, output, errors) => bail!("kubectl {}: {output}{errors}", args.join(" ")),
    }
}

/// Cells of a table's line.
fn cells(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

async fn an_upgrade_as_kubectl_shows_it(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let template = Template::new("watched", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let selector = format!("{}={id}", keys::WORKSPACE_ID);
    let old = run(
        &site,
        &[
            "get",
            "pods",
            "-l",
            &selector,
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ],
    )
    .await?;
    let table = run(&site, &["get", "pods", "-l", &selector]).await?;
    let lines: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(
        (lines.len(), &lines[1][..4]),
        (2, &[old.as_str(), "1/1", "Running", "0"][..])
    );
    let wide = run(&site, &["get", "pod", &old, "-o", "wide"]).await?;
    assert!(wide.contains("127.") && wide.contains(" local "), "{wide}");

    // The watch that an admin leaves open during an upgrade.
    let mut watch = kubectl(&site)
        .args(["get", "pods", "-l", &selector, "-w"])
        .spawn()?;
    let mut rows = BufReader::new(watch.stdout.take().context("its output")?).lines();
    let header = rows.next_line().await?.unwrap_or_default();
    assert_eq!(cells(&header)[..3], ["NAME", "READY", "STATUS"]);
    site.cluster()
        .await?
        .apply(&template.version("2.0_slow-pull-2s"))
        .await?;
    let answer = alice.upgrade(&id).await?;
    let new = answer["podName"].as_str().unwrap_or_default().to_owned();
    let mut seen: Vec<(bool, String)> = Vec::new();
    let gone = async {
        while let Some(row) = rows.next_line().await? {
            let row = cells(&row);
            let state = (row[0] == new, format!("{} {}", row[1], row[2]));
            if seen.last() != Some(&state) {
                seen.push(state);
            }
            if !seen.iter().all(|(is_new, _)| *is_new) && row[0] == old && row[2] != "Running" {
                // The last that a watch shows of a pod is how it went.
                let left = run(&site, &["get", "pods", "-l", &selector, "-o", "name"]).await?;
                if left.trim() == format!("pod/{new}") {
                    return anyhow::Ok(());
                }
            }
        }
        bail!("the watch has ended")
    };
    tokio::time::timeout(LONG, gone)
        .await
        .with_context(|| format!("{old} stays"))??;
    watch.start_kill()?;
    watch.wait().await?;
    let states = |of_new: bool| {
        seen.iter()
            .filter(|(is_new, _)| *is_new == of_new)
            .map(|(_, state)| state.as_str())
            .collect::<Vec<_>>()
    };
    let news = states(true);
    let order = [
        "0/1 Pending",
        "0/1 ContainerCreating",
        "0/1 Running",
        "1/1 Running",
    ];
    assert!(news.iter().all(|state| order.contains(state)), "{seen:?}");
    let ranks: Vec<_> = news
        .iter()
        .filter_map(|state| order.iter().position(|o| o == state))
        .collect();
    assert!(
        ranks.is_sorted()
            && news.contains(&"0/1 ContainerCreating")
            && news.last() == Some(&"1/1 Running"),
        "{seen:?}"
    );
    assert_eq!(states(false).first(), Some(&"1/1 Running"));
    assert!(
        states(false)
            .iter()
            .any(|state| state.ends_with("Terminating")),
        "{seen:?}"
    );

    let described = run(&site, &["describe", "pod", &new]).await?;
    for word in [
        "nogoo9/workspace-id=watched",
        "nogoo9/template-ref: watched",
        "Started container",
        "Pulled",
    ] {
        assert!(
            described.contains(word),
            "describe lacks {word}:\n{described}"
        );
    }
    the_story_is_told(&site, &old, &new).await?;
    let logs = run(&site, &["logs", &new]).await?;
    assert!(
        !logs.trim().is_empty(),
        "the sample says something when it starts"
    );
    assert_eq!(
        run(&site, &["logs", &new, "--tail=1"])
            .await?
            .lines()
            .count(),
        1
    );

    // Deleted by hand, it comes back; `--wait` returns once the old object is gone.
    run(&site, &["delete", "pod", &new, "--wait"]).await?;
    let after = until("another pod", LONG, || async {
        let names = run(&site, &["get", "pods", "-l", &selector, "-o", "name"]).await?;
        let name = names.trim().trim_start_matches("pod/").to_owned();
        Ok(Observation::when(
            !name.is_empty() && name != new && !name.contains('\n'),
            name,
            names,
        ))
    })
    .await?;
    run(
        &site,
        &[
            "wait",
            "--for=condition=Ready",
            "--timeout=120s",
            &format!("pod/{after}"),
        ],
    )
    .await?;
    assert_eq!(site.routed(&id, Some(&after)).await?, after);
    Ok(())
}

/// What control did to the two pods stands in their Events, and stays there for the one that is gone.
async fn the_story_is_told(site: &Site, old: &str, new: &str) -> anyhow::Result<()> {
    let of_old = format!("--field-selector=involvedObject.name={old}");
    until("the story of the upgrade", LONG, || async {
        let new = run(site, &["describe", "pod", new]).await?;
        let old = run(site, &["get", "events", &of_old]).await?;
        let told = ["UpgradeStarted", "UpgradeTookOver", "UpgradeFinished"]
            .iter()
            .all(|reason| new.contains(reason) && new.contains("nogoo9-control"));
        let of_old = old.contains("UpgradeStarted") && old.contains("UpgradeTookOver");
        Ok(Observation::when(
            told && of_old,
            (),
            format!("{new}\n{old}"),
        ))
    })
    .await
}

async fn templates_are_made_with_kubectl(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let template = Template::new("byhand", "1.0");
    let manifest = serde_json::to_value(template.config_map())?;
    let mut create = kubectl(&site);
    create.args(["-n", "nogoo9-system", "create", "-f", "-"]);
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    object
        .as_object_mut()
        .context("an object")?
        .extend(manifest.as_object().cloned().unwrap_or_default());
    let (good, output, errors) = finished(create, Some(object.to_string())).await?;
    assert!(
        good && output.trim() == "configmap/byhand created",
        "{output}{errors}"
    );
    let listed = run(
        &site,
        &[
            "-n",
            "nogoo9-system",
            "get",
            "configmaps",
            "-l",
            "nogoo9/pod-template=true",
            "-o",
            "name",
        ],
    )
    .await?;
    assert!(
        listed.lines().any(|line| line == "configmap/byhand")
            && listed.lines().any(|line| line == "configmap/sample"),
        "{listed}"
    );
    let id = site.spawn(&alice, &template, json!({})).await?;

    // Three ways to edit it; each is a new version, and the third upgrade brings all of them.
    let spec = serde_json::to_value(template.version("2.0").config_map())?["data"]["spec"].clone();
    let patch = json!({"data": {"spec": spec}}).to_string();
    let system = ["-n", "nogoo9-system"];
    let mut versions = vec![alice.workspace(&id).await?["version"].clone()];
    for edit in [
        vec!["patch", "configmap", "byhand", "--type=merge", "-p", &patch],
        vec![
            "annotate",
            "configmap",
            "byhand",
            "nogoo9/workspace-type=made-by-hand",
        ],
        vec![
            "patch",
            "configmap",
            "byhand",
            "--type=json",
            "-p",
            r#"[{"op": "add", "path": "/metadata/annotations/nogoo9~1preview-path", "value": "/preview"}]"#,
        ],
    ] {
        run(&site, &[&system[..], &edit[..]].concat()).await?;
        let latest = alice.get("/api/v1/templates/byhand").await?.expect(200)?["version"].clone();
        assert!(!versions.contains(&latest), "{edit:?} made no new version");
        versions.push(latest);
    }
    let answer = alice.upgrade(&id).await?;
    assert_eq!(Some(&answer["toVersion"]), versions.last());
    let new = answer["podName"].as_str().unwrap_or_default().to_owned();
    site.cluster().await?.only_pod(&id, &new, LONG).await?;
    let path = "jsonpath={.spec.containers[0].image} {.metadata.annotations.nogoo9/workspace-type} {.metadata.annotations.nogoo9/preview-path}";
    assert_eq!(
        run(&site, &["get", "pod", &new, "-o", path]).await?,
        "nogoo9-sample:2.0 made-by-hand /preview"
    );
    Ok(())
}

async fn the_proxys_token_reads_pods_alone(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    site.spawn(&alice, &Template::new("unlabelled", "1.0"), json!({}))
        .await?;
    let own = site.data_dir().join("proxy.kubeconfig");
    let attempt = |args: &'static [&'static str]| {
        let mut command = kubectl(&site);
        // The later of two flags counts.
        command.arg("--kubeconfig").arg(&own).args(args);
        finished(command, None)
    };
    let (good, _, errors) = attempt(&["-n", "nogoo9-workspaces", "get", "pods"]).await?;
    assert!(good, "{errors}");
    for refused in [
        &["-n", "nogoo9-system", "get", "secrets"][..],
        &["-n", "nogoo9-system", "get", "configmaps"],
        &["-n", "nogoo9-workspaces", "delete", "pods", "--all"],
        &["-n", "nogoo9-workspaces", "label", "pods", "--all", "a=b"],
    ] {
        let (good, output, errors) = attempt(refused).await?;
        assert!(
            !good && errors.contains("Forbidden"),
            "{refused:?}: {output}{errors}"
        );
    }
    Ok(())
}
