//! Brings one container up: image, volumes, environment, command, process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{self as core, ConfigMap, PersistentVolumeClaim, Pod, Secret};
use kube::api::Api;

use super::agent::{Agent, DEFAULT_PATH};
use super::api::call;
use super::env::{self, Facts, Source, SourceData};
use super::events::Level;
use super::images::{Image, ImageError};
use super::process::{self, Process, Running, Surroundings, find_program};
use super::state::Failure;
use super::status::HOST_IP;
use super::volumes::{self, Content};

/// Longest termination message from a file, as Kubernetes has it.
const MESSAGE_BYTES: usize = 4096;
/// Longest termination message from a log.
const LOG_MESSAGE_BYTES: u64 = 2048;
const LOG_MESSAGE_LINES: usize = 80;

/// What to launch.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) pod: Arc<Pod>,
    pub(crate) spec: core::Container,
    pub(crate) init: bool,
    pub(crate) pod_ip: String,
    pub(crate) restart_count: i32,
    /// An earlier attempt of this life pulled the image.
    pub(crate) pulled: bool,
    /// Containers of a pod share its volumes; one at a time writes them.
    pub(crate) volumes: Arc<tokio::sync::Mutex<()>>,
}

/// A launched container.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) process: Process,
    pub(crate) running: Running,
    pub(crate) around: Surroundings,
    pub(crate) image_id: String,
    pub(crate) message: MessageSource,
}

/// Where a container's termination message comes from.
#[derive(Debug, Clone)]
pub(crate) struct MessageSource {
    file: PathBuf,
    log: PathBuf,
    fallback_to_log: bool,
}

impl Order {
    fn container(&self) -> Option<(bool, &str)> {
        Some((self.init, &self.spec.name))
    }

    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Does it all; every step may be repeated.
pub(crate) async fn launch(agent: &Agent, order: &Order) -> Result<Launched, Failure> {
    let image = pull(agent, order).await?;
    let pod_dir = agent.pod_dir(order.uid());
    let sandbox = pod_dir.join(&order.spec.name);
    let home = pod_dir.join("home");
    for dir in [&sandbox, &home] {
        std::fs::create_dir_all(dir).map_err(|error| creating(dir, &error))?;
    }
    let folders = provide_volumes(agent, order, &pod_dir).await?;
    let message = MessageSource {
        file: sandbox.join(format!("{}.message", order.restart_count)),
        log: sandbox.join(format!("{}.log", order.restart_count)),
        fallback_to_log: order.spec.termination_message_policy.as_deref()
            == Some("FallbackToLogsOnError"),
    };
    forget_old_runs(&sandbox, order.restart_count);

    let data = fetch(agent, order.namespace(), env::sources(&order.spec)).await?;
    let mut base = volumes::variables(&order.spec, &folders).map_err(unconfigurable)?;
    for path in base.values() {
        let path = Path::new(path);
        std::fs::create_dir_all(path).map_err(|error| creating(path, &error))?;
    }
    base.insert("PATH".to_owned(), DEFAULT_PATH.to_owned());
    base.insert("HOME".to_owned(), home.to_string_lossy().into_owned());
    base.insert(
        "HOSTNAME".to_owned(),
        order.pod.metadata.name.clone().unwrap_or_default(),
    );
    base.insert("NOGOO9_IMAGE_TAG".to_owned(), image.tag.clone());
    base.insert(
        "NOGOO9_TERMINATION_MESSAGE".to_owned(),
        message.file.to_string_lossy().into_owned(),
    );
    let env = env::environment(&order.pod, &order.spec, &facts(agent, order), &data, base)
        .map_err(unconfigurable)?;

    let cwd = match &order.spec.working_dir {
        Some(dir) if Path::new(dir).is_dir() => PathBuf::from(dir),
        Some(dir) => {
            return Err(Failure::Start {
                message: format!("workingDir {dir} does not exist on this node"),
            });
        }
        None => home,
    };
    let command = command(&order.spec, &image, &env, &cwd)?;
    agent.recorder.record(
        &order.pod,
        order.container(),
        Level::Normal,
        "Created",
        format!("Created container: {}", order.spec.name),
    );
    let around = Surroundings { env, cwd, sandbox };
    let (process, running) = match command {
        Some((program, args)) => {
            process::spawn(&agent.shim, &program, &args, &around, Some(&message.log)).map_err(
                |error| Failure::Start {
                    message: format!("cannot start the pod shim: {error}"),
                },
            )?
        }
        None => process::nothing(),
    };
    agent.recorder.record(
        &order.pod,
        order.container(),
        Level::Normal,
        "Started",
        format!("Started container {}", order.spec.name),
    );
    let program = image.program.as_deref().unwrap_or(Path::new("nothing"));
    let image_id = format!("local://{}@{}", program.display(), image.tag);
    Ok(Launched {
        process,
        running,
        around,
        image_id,
        message,
    })
}

/// What the downward API says of the pod.
fn facts(agent: &Agent, order: &Order) -> Facts {
    Facts {
        pod_ip: order.pod_ip.clone(),
        host_ip: HOST_IP.to_owned(),
        node_name: agent.node_name.clone(),
    }
}

async fn pull(agent: &Agent, order: &Order) -> Result<Image, Failure> {
    let name = order.spec.image.as_deref().unwrap_or_default();
    let record = |level, reason, message: String| {
        agent
            .recorder
            .record(&order.pod, order.container(), level, reason, message);
    };
    let image = match agent.images.resolve(name) {
        Ok(image) => image,
        Err(ImageError::Invalid(message)) => {
            record(Level::Warning, "InspectFailed", message.clone());
            record(
                Level::Warning,
                "Failed",
                "Error: InvalidImageName".to_owned(),
            );
            return Err(Failure::Pull {
                reason: "InvalidImageName",
                message,
            });
        }
        Err(ImageError::NotFound(message)) => {
            record(
                Level::Normal,
                "Pulling",
                format!("Pulling image \"{name}\""),
            );
            record(
                Level::Warning,
                "Failed",
                format!("Failed to pull image \"{name}\": {message}"),
            );
            record(Level::Warning, "Failed", "Error: ErrImagePull".to_owned());
            return Err(Failure::Pull {
                reason: "ErrImagePull",
                message,
            });
        }
    };
    if order.pulled || image.pull.is_zero() {
        let message = format!("Container image \"{name}\" already present on machine");
        record(Level::Normal, "Pulled", message);
    } else {
        record(
            Level::Normal,
            "Pulling",
            format!("Pulling image \"{name}\""),
        );
        tokio::time::sleep(image.pull).await;
        let message = format!(
            "Successfully pulled image \"{name}\" in {}s",
            image.pull.as_secs()
        );
        record(Level::Normal, "Pulled", message);
    }
    Ok(image)
}

async fn provide_volumes(
    agent: &Agent,
    order: &Order,
    pod_dir: &Path,
) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let _one_at_a_time = order.volumes.lock().await;
    let contents = volumes::contents(&order.pod).map_err(unmountable)?;
    let data = fetch(agent, order.namespace(), volumes::sources(&contents)).await?;
    let facts = facts(agent, order);
    let mut folders = BTreeMap::new();
    for (name, content) in contents {
        let folder = match &content {
            Content::Claim(claim) => claim_folder(agent, order, claim).await?,
            _ => pod_dir.join("volumes").join(&name),
        };
        let files = match &content {
            Content::Files(parts) => {
                volumes::files(&order.pod, parts, &facts, &data).map_err(|problem| {
                    unmountable(format!(
                        "MountVolume.SetUp failed for volume \"{name}\" : {problem}"
                    ))
                })?
            }
            _ => Vec::new(),
        };
        volumes::write(&folder, &files).map_err(|error| creating(&folder, &error))?;
        folders.insert(name, folder);
    }
    Ok(folders)
}

/// A claim's folder, exclusively unless the claim may be shared.
async fn claim_folder(agent: &Agent, order: &Order, claim: &str) -> Result<PathBuf, Failure> {
    let api: Api<PersistentVolumeClaim> = Api::namespaced(agent.client(), order.namespace());
    let found = call(api.get_opt(claim))
        .await
        .map_err(|error| unmountable(error.to_string()))?;
    let Some(found) = found else {
        return Err(unmountable(format!(
            "persistentvolumeclaim \"{claim}\" not found"
        )));
    };
    // A pod that starts now would keep it from going.
    if found.metadata.deletion_timestamp.is_some() {
        return Err(unmountable(format!(
            "persistentvolumeclaim \"{claim}\" is being deleted"
        )));
    }
    let uid = found.metadata.uid.unwrap_or_default();
    let modes = found
        .spec
        .and_then(|spec| spec.access_modes)
        .unwrap_or_default();
    let shared = modes
        .iter()
        .any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany");
    if !shared && let Err(holder) = agent.claims.take(&uid, order.uid()) {
        return Err(unmountable(format!(
            "Multi-Attach error for volume \"{claim}\" Volume is already used by the pod with uid {holder}"
        )));
    }
    Ok(agent.claim_dir(order.namespace(), claim, &uid))
}

async fn fetch(
    agent: &Agent,
    namespace: &str,
    wanted: BTreeSet<Source>,
) -> Result<SourceData, Failure> {
    let mut data = SourceData::new();
    for source in wanted {
        let found = match &source {
            Source::ConfigMap(name) => {
                let api: Api<ConfigMap> = Api::namespaced(agent.client(), namespace);
                call(api.get_opt(name))
                    .await
                    .map(|map| map.map(config_map_data))
            }
            Source::Secret(name) => {
                let api: Api<Secret> = Api::namespaced(agent.client(), namespace);
                call(api.get_opt(name)).await.map(|secret| {
                    secret.map(|secret| {
                        let data = secret.data.into_iter().flatten();
                        data.map(|(key, ByteString(value))| (key, value)).collect()
                    })
                })
            }
        };
        match found {
            Ok(Some(entries)) => drop(data.insert(source, entries)),
            Ok(None) => {}
            // The error may quote what was asked for, never what a Secret holds.
            Err(error) => {
                return Err(unconfigurable(format!(
                    "cannot read {}: {error}",
                    source.describe()
                )));
            }
        }
    }
    Ok(data)
}

fn config_map_data(map: ConfigMap) -> BTreeMap<String, Vec<u8>> {
    let text = map
        .data
        .into_iter()
        .flatten()
        .map(|(key, value)| (key, value.into_bytes()));
    let binary = map
        .binary_data
        .into_iter()
        .flatten()
        .map(|(key, ByteString(value))| (key, value));
    text.chain(binary).collect()
}

/// `command` replaces the image's program, `args` are passed to either. `None`: the image is
/// nothing, and nothing replaces it.
fn command(
    spec: &core::Container,
    image: &Image,
    env: &BTreeMap<String, String>,
    cwd: &Path,
) -> Result<Option<(PathBuf, Vec<String>)>, Failure> {
    let expanded = |list: Option<&Vec<String>>| -> Vec<String> {
        list.into_iter()
            .flatten()
            .map(|text| env::expand(text, env))
            .collect()
    };
    let mut words = expanded(spec.command.as_ref());
    let args = expanded(spec.args.as_ref());
    let program = match (&image.program, words.is_empty()) {
        (_, false) => words.remove(0),
        (Some(program), true) => program.to_string_lossy().into_owned(),
        (None, true) => return Ok(None),
    };
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let file = find_program(&program, path, cwd).ok_or_else(|| Failure::Start {
        message: format!("exec: \"{program}\": executable file not found in $PATH"),
    })?;
    words.extend(args);
    Ok(Some((file, words)))
}

/// Keeps the logs of this run and the one before, as `kubectl logs -p` needs them.
fn forget_old_runs(sandbox: &Path, restart_count: i32) {
    let Some(old) = restart_count.checked_sub(2).filter(|old| *old >= 0) else {
        return;
    };
    for suffix in ["log", "log.1", "message"] {
        let _ = std::fs::remove_file(sandbox.join(format!("{old}.{suffix}")));
    }
}

impl MessageSource {
    /// What the container left behind to say why it ended.
    pub(crate) async fn read(&self, exit_code: i32) -> Option<String> {
        if let Ok(bytes) = tokio::fs::read(&self.file).await {
            let bytes = bytes
                .get(..bytes.len().min(MESSAGE_BYTES))
                .unwrap_or_default();
            let text = String::from_utf8_lossy(bytes).into_owned();
            if !text.is_empty() {
                return Some(text);
            }
        }
        if !self.fallback_to_log || exit_code == 0 {
            return None;
        }
        tail(&self.log).await.ok().filter(|text| !text.is_empty())
    }
}

/// The last lines of a CRI log, without what the format adds to each.
async fn tail(log: &Path) -> io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncSeekExt};
    let mut file = tokio::fs::File::open(log).await?;
    let length = file.metadata().await?.len();
    // Twice as much as is wanted, since the format adds some forty bytes a line.
    let start = length.saturating_sub(LOG_MESSAGE_BYTES * 4);
    file.seek(io::SeekFrom::Start(start)).await?;
    let mut bytes = Vec::new();
    file.take(LOG_MESSAGE_BYTES * 4)
        .read_to_end(&mut bytes)
        .await?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(last_lines(&text, start > 0))
}

fn last_lines(log: &str, cut: bool) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut bytes = 0;
    let limit = usize::try_from(LOG_MESSAGE_BYTES).unwrap_or(usize::MAX);
    for line in log
        .lines()
        .skip(usize::from(cut))
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let text = line.splitn(4, ' ').nth(3).unwrap_or_default();
        bytes += text.len() + 1;
        if kept.len() >= LOG_MESSAGE_LINES || bytes > limit {
            break;
        }
        kept.push(text);
    }
    kept.iter().rev().map(|text| format!("{text}\n")).collect()
}

fn unconfigurable(message: String) -> Failure {
    Failure::Config {
        reason: "CreateContainerConfigError",
        message,
    }
}

fn unmountable(message: String) -> Failure {
    Failure::Config {
        reason: "ContainerCreating",
        message,
    }
}

fn creating(path: &Path, error: &io::Error) -> Failure {
    unmountable(format!("cannot create {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_log() {
        let log = "2026-01-01T00:00:00.000000000Z stdout F one\n2026-01-01T00:00:00.000000000Z stderr F two words\n";
        assert_eq!(last_lines(log, false), "one\ntwo words\n");
        assert_eq!(last_lines(log, true), "two words\n");
        let long: String = (0..200)
            .map(|n| format!("2026-01-01T00:00:00.000000000Z stdout F {n}\n"))
            .collect();
        let kept = last_lines(&long, false);
        assert_eq!(
            (
                kept.lines().count(),
                kept.lines().next(),
                kept.lines().last()
            ),
            (80, Some("120"), Some("199"))
        );
    }
}
