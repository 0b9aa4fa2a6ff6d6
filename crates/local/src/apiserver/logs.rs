//! The `log` subresource: reads what the kubelet writes, one file a container run, in the format
//! of the container runtime interface (`TIMESTAMP stdout F text`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, SeekFrom};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::object::{self, list, text};
use super::pods;
use super::registry::Resource;
use super::request::Query;
use super::store::{Key, Store};

/// How often a followed file is looked at: files have no wake-up call that every system offers.
const POLL: Duration = Duration::from_millis(100);
/// Read in one go.
const CHUNK: usize = 64 * 1024;

/// What part of a log is asked for.
#[derive(Debug, Clone, Default)]
struct LogOptions {
    follow: bool,
    timestamps: bool,
    tail: Option<u64>,
    since: Option<Timestamp>,
    limit: Option<u64>,
}

/// The stream of a container's log.
pub(crate) async fn stream(
    store: Arc<Store>,
    data_dir: &Path,
    key: Key,
    query: &Query,
    shutdown: CancellationToken,
) -> Result<impl Stream<Item = std::io::Result<Bytes>> + Send + use<>, Failure> {
    let pod = store
        .get(Resource::Pods, &key)
        .ok_or_else(|| Failure::not_found(Resource::Pods, &key.name))?;
    let container = container(&pod, query)?;
    let previous = query.flag("previous");
    let folder = data_dir
        .join("pods")
        .join(object::uid(&pod))
        .join(&container);
    let runs = runs(&folder).await;
    let run = if previous {
        runs.iter().rev().nth(1)
    } else {
        runs.last()
    };
    let Some(run) = run.copied() else {
        return Err(no_log(&pod, &container, previous));
    };
    let options = LogOptions {
        follow: query.flag("follow") && !previous,
        timestamps: query.flag("timestamps"),
        tail: query.number("tailLines")?,
        since: since(query)?,
        limit: query.number("limitBytes")?,
    };
    let path = folder.join(format!("{run}.log"));
    let mut file = File::open(&path)
        .await
        .map_err(|_| Failure::internal(format!("the log of container {container:?} is gone")))?;
    let start = start_of_tail(&mut file, options.tail)
        .await
        .map_err(|error| Failure::internal(format!("the log cannot be read: {error}")))?;
    let source = Follower {
        file,
        offset: start,
        carry: BytesMut::new(),
        store,
        key,
        uid: object::uid(&pod).to_owned(),
        container,
        run,
        folder,
        follow: options.follow,
        shutdown,
        ended: false,
    };
    Ok(render(source, options))
}

fn container(pod: &Value, query: &Query) -> Result<String, Failure> {
    let names: Vec<&str> = ["/spec/containers", "/spec/initContainers"]
        .into_iter()
        .flat_map(|pointer| list(pod, pointer))
        .map(|container| text(container, "/name"))
        .collect();
    let pod_name = object::name(pod);
    match query.get("container") {
        Some(asked) if names.contains(&asked) => Ok(asked.to_owned()),
        Some(asked) => Err(Failure::bad_request(format!(
            "container {asked} is not valid for pod {pod_name}"
        ))),
        None => match list(pod, "/spec/containers") {
            [one] => Ok(text(one, "/name").to_owned()),
            _ => Err(Failure::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                names.join(" ")
            ))),
        },
    }
}

fn since(query: &Query) -> Result<Option<Timestamp>, Failure> {
    if let Some(seconds) = query.number("sinceSeconds")? {
        let back = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        return Ok(Timestamp::now().checked_sub(back).ok());
    }
    query
        .get("sinceTime")
        .map(|text| {
            text.parse()
                .map_err(|_| Failure::bad_request(format!("sinceTime: {text:?} is not RFC 3339")))
        })
        .transpose()
}

/// The runs of a container that have a log, oldest first.
async fn runs(folder: &Path) -> Vec<u64> {
    let mut runs = Vec::new();
    if let Ok(mut entries) = tokio::fs::read_dir(folder).await {
        while let Ok(Some(entry)) = entries.next_entry().await {
            let name = entry.file_name();
            if let Some(run) = name.to_str().and_then(|n| n.strip_suffix(".log"))
                && let Ok(run) = run.parse()
            {
                runs.push(run);
            }
        }
    }
    runs.sort_unstable();
    runs
}

fn no_log(pod: &Value, container: &str, previous: bool) -> Failure {
    let name = object::name(pod);
    if previous {
        return Failure::bad_request(format!(
            "previous terminated container {container:?} in pod {name:?} not found"
        ));
    }
    let why = status_of(pod, container)
        .map(|status| text(status, "/state/waiting/reason"))
        .filter(|reason| !reason.is_empty())
        .unwrap_or("ContainerCreating");
    Failure::bad_request(format!(
        "container {container:?} in pod {name:?} is waiting to start: {why}"
    ))
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    ["/status/containerStatuses", "/status/initContainerStatuses"]
        .into_iter()
        .flat_map(|pointer| list(pod, pointer))
        .find(|status| text(status, "/name") == container)
}

/// Where the last `tail` lines of a file begin. Reads backwards, so a long file costs no more
/// than its tail.
async fn start_of_tail(file: &mut File, tail: Option<u64>) -> std::io::Result<u64> {
    let Some(tail) = tail else { return Ok(0) };
    let end = file.metadata().await?.len();
    if tail == 0 {
        return Ok(end);
    }
    let mut block = vec![0_u8; CHUNK];
    let mut start = end;
    let mut seen = 0_u64;
    while start > 0 {
        let size = start.min(CHUNK as u64);
        let at = start - size;
        let part = block
            .get_mut(..usize::try_from(size).unwrap_or(CHUNK))
            .unwrap_or_default();
        file.seek(SeekFrom::Start(at)).await?;
        file.read_exact(part).await?;
        for (index, byte) in part.iter().enumerate().rev() {
            let position = at + index as u64;
            // The newline that ends the file ends a line, it begins none.
            if *byte == b'\n' && position + 1 != end {
                seen += 1;
                if seen == tail {
                    return Ok(position + 1);
                }
            }
        }
        start = at;
    }
    Ok(0)
}

/// Reads a file line by line, and waits for more while its container runs.
struct Follower {
    file: File,
    offset: u64,
    carry: BytesMut,
    store: Arc<Store>,
    key: Key,
    uid: String,
    container: String,
    run: u64,
    folder: PathBuf,
    follow: bool,
    shutdown: CancellationToken,
    ended: bool,
}

impl Follower {
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.carry.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.carry.split_to(end + 1).freeze()));
            }
            if self.fill().await? > 0 {
                continue;
            }
            if self.ended {
                let rest = self.carry.split().freeze();
                return Ok((!rest.is_empty()).then_some(rest));
            }
            if !self.follow || self.finished().await {
                // One more look: the last lines may have come just before the end was seen.
                self.ended = true;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = self.shutdown.cancelled() => self.ended = true,
            }
        }
    }

    async fn fill(&mut self) -> std::io::Result<usize> {
        let length = self.file.metadata().await?.len();
        if length < self.offset {
            // The kubelet has cut the file short.
            self.offset = 0;
            self.carry.clear();
        }
        self.file.seek(SeekFrom::Start(self.offset)).await?;
        self.carry.reserve(CHUNK);
        let read = (&mut self.file)
            .take(CHUNK as u64)
            .read_buf(&mut self.carry)
            .await?;
        self.offset += read as u64;
        Ok(read)
    }

    /// Whether this run will write no more.
    async fn finished(&self) -> bool {
        let Some(pod) = self.store.get(Resource::Pods, &self.key) else {
            return true;
        };
        if object::uid(&pod) != self.uid || pods::terminal(&pod) {
            return true;
        }
        let ended = status_of(&pod, &self.container).is_some_and(|status| {
            let current = status.get("restartCount").and_then(Value::as_u64) == Some(self.run);
            current && status.pointer("/state/terminated").is_some()
        });
        ended
            || runs(&self.folder)
                .await
                .last()
                .is_some_and(|newest| *newest > self.run)
    }
}

fn render(
    source: Follower,
    options: LogOptions,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    let budget = options.limit;
    let lines = futures::stream::unfold(source, |mut source| async move {
        source.next().await.transpose().map(|line| (line, source))
    });
    let mut skipping = false;
    let shown = lines.filter_map(move |line| {
        let out = match line {
            Ok(line) => show(&line, &options, &mut skipping).map(Ok),
            Err(error) => Some(Err(error)),
        };
        futures::future::ready(out)
    });
    let mut left = budget;
    shown.scan((), move |(), chunk| {
        let out = match (&mut left, chunk) {
            (Some(0), _) => None,
            (Some(left), Ok(chunk)) => {
                let size = (chunk.len() as u64).min(*left);
                *left -= size;
                Some(Ok(
                    chunk.slice(..usize::try_from(size).unwrap_or(chunk.len()))
                ))
            }
            (_, chunk) => Some(chunk),
        };
        futures::future::ready(out)
    })
}

/// One stored line as the client sees it; `None` when it is older than asked for. `mid_line`:
/// the line before was a partial one.
fn show(line: &[u8], options: &LogOptions, mid_line: &mut bool) -> Option<Bytes> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let (stamp, _stream, tag, content) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let stamp = std::str::from_utf8(stamp).ok()?;
    let continues = std::mem::replace(mid_line, tag == b"P");
    if let Some(since) = options.since {
        let at: Timestamp = stamp.parse().ok()?;
        if at < since {
            return None;
        }
    }
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    let mut out = BytesMut::with_capacity(stamp.len() + content.len() + 2);
    if options.timestamps && !continues {
        out.extend_from_slice(stamp.as_bytes());
        out.extend_from_slice(b" ");
    }
    out.extend_from_slice(content);
    if tag != b"P" {
        out.extend_from_slice(b"\n");
    }
    Some(out.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str], options: &LogOptions) -> String {
        let mut mid_line = false;
        lines
            .iter()
            .filter_map(|line| show(line.as_bytes(), options, &mut mid_line))
            .map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn lines_lose_their_prefix_and_partial_ones_are_joined() {
        let lines = [
            "2026-01-01T00:00:00.000000000Z stdout F one two  three\n",
            "2026-01-01T00:00:01.000000000Z stderr P left-\n",
            "2026-01-01T00:00:02.000000000Z stderr F right\n",
            "2026-01-01T00:00:03.000000000Z stdout F \n",
        ];
        assert_eq!(
            shown(&lines, &LogOptions::default()),
            "one two  three\nleft-right\n\n"
        );
        let stamped = LogOptions {
            timestamps: true,
            ..LogOptions::default()
        };
        assert_eq!(
            shown(&lines, &stamped),
            "2026-01-01T00:00:00.000000000Z one two  three\n\
             2026-01-01T00:00:01.000000000Z left-right\n\
             2026-01-01T00:00:03.000000000Z \n"
        );
        let since = LogOptions {
            since: Some("2026-01-01T00:00:03Z".parse().unwrap()),
            ..LogOptions::default()
        };
        assert_eq!(shown(&lines, &since), "\n");
    }

    #[tokio::test]
    async fn the_tail_begins_after_the_right_newline() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        std::fs::write(file.path(), &text).unwrap();
        let mut open = File::open(file.path()).await.unwrap();
        for (tail, expected) in [
            (Some(0), text.len()),
            (Some(1), text.rfind("line 19999").unwrap()),
            (Some(12_000), text.find("line 8000\n").unwrap()),
            (Some(20_000), 0),
            (Some(90_000), 0),
            (None, 0),
        ] {
            let start = start_of_tail(&mut open, tail).await.unwrap();
            assert_eq!(start, expected as u64, "{tail:?}");
        }
    }
}
