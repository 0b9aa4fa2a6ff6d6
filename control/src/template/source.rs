//! Where templates come from: labelled ConfigMaps in control's namespace, and a folder of files,
//! which wins where both have a name.
//!
//! Views read what the watch has learnt, each template parsed once a change. Commands read live, so
//! that an upgrade right after `kubectl apply` goes to what was applied.

use super::{Document, Template, TemplateError, folder, parse};
use crate::cluster::{Cluster, is_template};
use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::ConfigMap;
use nogoo9_model::keys;
use nogoo9_watch::{Change, Config, Watch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Longest wait for a live read.
const CALL: Duration = Duration::from_secs(10);
/// How often the folder is read.
const FOLDER_EVERY: Duration = Duration::from_secs(5);
/// Longest time that a command waits until lists show what it did.
const SHOWN: Duration = Duration::from_secs(3);

/// A template, or why there is none to work with.
pub type Parsed = Result<Arc<Template>, TemplateError>;
type Files = BTreeMap<String, Parsed>;

/// The templates. Clones share them.
#[derive(Clone)]
pub struct Source(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    maps: Watch<(String, Parsed)>,
    changed: watch::Sender<u64>,
    folder: Option<PathBuf>,
    files: Arc<ArcSwap<Files>>,
    _poll: Option<AbortOnDropHandle<()>>,
}

impl Source {
    /// Starts watching.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn start(cluster: &Cluster, folder: Option<PathBuf>) -> std::io::Result<Self> {
        let files = Arc::new(ArcSwap::from_pointee(match &folder {
            Some(folder) => read_folder(folder)?,
            None => Files::new(),
        }));
        let poll = folder
            .clone()
            .map(|folder| AbortOnDropHandle::new(tokio::spawn(poll(folder, files.clone()))));
        let changed = watch::Sender::new(0_u64);
        let bump = changed.clone();
        let maps = Watch::start(
            cluster.config_maps_api(),
            Config::labels(format!("{}=true", keys::POD_TEMPLATE)),
            |map: ConfigMap| Some((map.metadata.name.clone().unwrap_or_default(), read_map(map))),
            move |_: Change<(String, Parsed)>| {
                bump.send_modify(|count| *count = count.wrapping_add(1));
            },
        );
        Ok(Self(Arc::new(Inner {
            cluster: cluster.clone(),
            maps,
            changed,
            folder,
            files,
            _poll: poll,
        })))
    }

    /// Whether the first list was taken in.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.0.maps.status().is_synced()
    }

    /// Resolves once the first list was taken in.
    pub async fn synced(&self) {
        self.0.maps.synced().await;
    }

    /// All templates as last seen, by name, the broken ones too.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<String, Parsed> {
        let maps = self.0.maps.store().list();
        let mut all: BTreeMap<_, _> = maps
            .iter()
            .map(|map| (map.0.clone(), map.1.clone()))
            .collect();
        all.extend(
            self.0
                .files
                .load()
                .iter()
                .map(|(name, file)| (name.clone(), file.clone())),
        );
        all
    }

    /// One template, read live.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub async fn read(&self, name: &str) -> Parsed {
        if let Some(file) = self.read_file(name).await {
            return file;
        }
        let not_found = || TemplateError::not_found(name);
        if !is_object_name(name) {
            return Err(not_found());
        }
        let unreadable = |reason: String| TemplateError::Unreadable {
            name: name.to_owned(),
            reason,
        };
        let api = self.0.cluster.config_maps_api();
        match tokio::time::timeout(CALL, api.get_opt(name)).await {
            Ok(Ok(Some(map))) if is_template(&map) => read_map(map),
            Ok(Ok(_)) => Err(not_found()),
            Ok(Err(kube::Error::Api(status))) => {
                Err(unreadable(format!("{} ({})", status.reason, status.code)))
            }
            Ok(Err(_)) => Err(unreadable("the API server cannot be reached".into())),
            Err(_) => Err(unreadable(format!("no answer within {} s", CALL.as_secs()))),
        }
    }

    /// Waits until lists show the template as a command has left it, so that whoever asks next sees it;
    /// not for ever, since the watch may be down while writes work.
    pub(crate) async fn shown(&self, name: &str, is: impl Fn(Option<&Parsed>) -> bool) {
        let mut changes = self.0.changed.subscribe();
        let look = async {
            loop {
                changes.mark_unchanged();
                if is(self.seen().get(name)) || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _late = tokio::time::timeout(SHOWN, look).await;
    }

    /// The file of that name; `None`: there is none.
    pub(crate) async fn read_file(&self, name: &str) -> Option<Parsed> {
        let folder = self.0.folder.clone()?;
        let unreadable = |reason: String| {
            Some(Err(TemplateError::Unreadable {
                name: name.to_owned(),
                reason,
            }))
        };
        match tokio::task::spawn_blocking(move || read_folder(&folder)).await {
            Ok(Ok(mut files)) => files.remove(name),
            Ok(Err(error)) => unreadable(format!("the templates folder cannot be read: {error}")),
            Err(_) => unreadable("reading the templates folder was interrupted".into()),
        }
    }
}

async fn poll(folder: PathBuf, files: Arc<ArcSwap<Files>>) {
    let mut tick = tokio::time::interval(FOLDER_EVERY);
    loop {
        tick.tick().await;
        let folder = folder.clone();
        match tokio::task::spawn_blocking(move || read_folder(&folder)).await {
            Ok(Ok(read)) => files.store(Arc::new(read)),
            // What was read before stays: a folder that is away for a moment is no change.
            Ok(Err(error)) => tracing::warn!(%error, "the templates folder cannot be read"),
            Err(_) => {}
        }
    }
}

fn read_folder(path: &std::path::Path) -> std::io::Result<Files> {
    let documents = folder::read(path)?;
    Ok(documents
        .into_iter()
        .map(|(name, document)| (name, document.and_then(|d| parse(&d).map(Arc::new))))
        .collect())
}

fn read_map(map: ConfigMap) -> Parsed {
    let document = Document {
        name: map.metadata.name.unwrap_or_default(),
        annotations: map.metadata.annotations.unwrap_or_default(),
        data: map.data.unwrap_or_default(),
    };
    parse(&document).map(Arc::new)
}

/// A DNS subdomain, as ConfigMaps are named: anything else must not get into a request's path.
pub(crate) fn is_object_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = name.as_bytes();
    name.len() <= 253 && name.bytes().all(inner) && edge(bytes.first()) && edge(bytes.last())
}
