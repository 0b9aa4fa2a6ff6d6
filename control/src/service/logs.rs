//! What a workspace's containers write: the end of it, bounded in lines and bytes.

use super::types::{GetWorkspaceLogs, MAX_LINES, WorkspaceLogs};
use super::{Answer, Parts, ServiceError, workspaces};
use crate::cluster::{ClusterError, LogEnd};
use k8s_openapi::api::core::v1::Pod;
use nogoo9_model::access::Caller;
use nogoo9_model::adopt::Found;
use nogoo9_model::record::Record;
use nogoo9_model::select;

/// What is handed out of a log, in bytes: the end of it.
const MAX_BYTES: usize = 64 * 1024;

pub(super) async fn logs(
    parts: &Parts,
    caller: &Caller,
    args: &GetWorkspaceLogs,
) -> Answer<WorkspaceLogs> {
    if args.tail_lines == 0 || args.tail_lines > MAX_LINES {
        return Err(ServiceError::Invalid {
            argument: "tailLines",
            problem: format!("use 1 to {MAX_LINES}"),
        });
    }
    let record = &workspaces::readable(parts, caller, &args.id).await?;
    let pods = pods(parts, record).await?;
    let found = choose(&pods, args.pod.as_deref())?;
    let containers = containers(&found.pod);
    let container = match &args.container {
        None => containers.first(),
        Some(asked) => containers.iter().find(|name| *name == asked),
    };
    let container = container.cloned().ok_or_else(|| ServiceError::Invalid {
        argument: "container",
        problem: format!("the pod has these: {}", containers.join(", ")),
    })?;
    let name = found.view.name.clone();
    let end = LogEnd {
        pod: &name,
        container: &container,
        previous: args.previous,
        lines: args.tail_lines,
    };
    let (bytes, cut) = match parts.cluster.log_end(&end).await {
        Ok(read) => read,
        // It has not started, or was never restarted; the API server says which.
        Err(ClusterError::Rejected { trouble, .. }) => {
            return Err(ServiceError::NoLog(trouble.message));
        }
        Err(ClusterError::NotFound { .. }) => {
            return Err(ServiceError::NoLog(format!("pod {name} has just gone")));
        }
        Err(error) => return Err(error.into()),
    };
    let (kept, shortened) = last_lines(&bytes, MAX_BYTES);
    Ok(WorkspaceLogs {
        id: record.id.clone(),
        pod: name,
        container,
        containers,
        pods: pods.iter().map(|found| found.view.name.clone()).collect(),
        log: String::from_utf8_lossy(kept).into_owned(),
        truncated: cut || shortened,
    })
}

/// The workspace's own pods, newest first.
async fn pods(parts: &Parts, record: &Record) -> Answer<Vec<Found>> {
    let mut pods = parts.cluster.found_pods(&record.id).await?;
    pods.retain(|found| record.holds(&found.view));
    pods.sort_by_key(|found| std::cmp::Reverse((found.view.created, found.view.generation)));
    Ok(pods)
}

/// The pod that is asked for; else the one that serves; else the newest.
fn choose<'a>(pods: &'a [Found], asked: Option<&str>) -> Answer<&'a Found> {
    let Some(newest) = pods.first() else {
        return Err(ServiceError::NoLog(
            "the workspace has no pod: what it wrote went with the last one".to_owned(),
        ));
    };
    let Some(asked) = asked else {
        let active = select::active(pods.iter().map(|found| &found.view));
        let active = active.and_then(|active| pods.iter().find(|it| it.view.uid == active.uid));
        return Ok(active.unwrap_or(newest));
    };
    let named = pods.iter().find(|found| found.view.name == asked);
    named.ok_or_else(|| {
        let names: Vec<&str> = pods.iter().map(|found| found.view.name.as_str()).collect();
        ServiceError::Invalid {
            argument: "pod",
            problem: format!("the workspace has these: {}", names.join(", ")),
        }
    })
}

/// The first one is the workspace's own; those that run before it come last.
fn containers(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else {
        return Vec::new();
    };
    let before = spec.init_containers.iter().flatten();
    let all = spec.containers.iter().chain(before);
    all.map(|container| container.name.clone()).collect()
}

/// The last whole lines that fit, and whether others do not. Of one line that does not, its end.
fn last_lines(bytes: &[u8], most: usize) -> (&[u8], bool) {
    let Some(from) = bytes.len().checked_sub(most).filter(|from| *from > 0) else {
        return (bytes, false);
    };
    // From the byte before on: if that ends a line, the line after it is whole.
    let rest = bytes.get(from.saturating_sub(1)..).unwrap_or_default();
    let line = rest.iter().position(|byte| *byte == b'\n');
    let whole = line.and_then(|at| rest.get(at + 1..));
    let whole = whole.filter(|lines| !lines.is_empty());
    (whole.unwrap_or(bytes.get(from..).unwrap_or_default()), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_lines_are_kept() {
        let text = |(bytes, cut): (&'static [u8], bool)| (std::str::from_utf8(bytes).unwrap(), cut);
        let log = b"one\ntwo\nthree\n";
        for (most, kept) in [
            (14, ("one\ntwo\nthree\n", false)),
            (99, ("one\ntwo\nthree\n", false)),
            (13, ("two\nthree\n", true)),
            (10, ("two\nthree\n", true)),
            (9, ("three\n", true)),
            (6, ("three\n", true)),
            (5, ("hree\n", true)),
        ] {
            assert_eq!(text(last_lines(log, most)), kept, "{most}");
        }
        assert_eq!(text(last_lines(b"endless", 3)), ("ess", true));
        assert_eq!(text(last_lines(b"", 3)), ("", false));
    }
}
