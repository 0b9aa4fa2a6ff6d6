//! Extra ports of a workspace: what its pod serves beside its main port.
//!
//! `api.NAME.port` makes one, which has a host of its own, `{NAME}--{id}`. `api.NAME.path` publishes it
//! under a path of the workspace's own host too, and `api.NAME.visibility` says who may open it, where
//! that is not who may open the workspace. What is not understood is left out, and told.

use crate::access::Visibility;
use crate::{id, keys};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// Most extra ports of one workspace.
pub const MAX_PORTS: usize = 20;
/// Longest path of one, in bytes.
pub const MAX_PATH: usize = 128;
/// Most problems that are told of one pod.
const MAX_PROBLEMS: usize = 20;
/// What is shown of a text that is not understood, in characters.
const SHOWN: usize = 60;

/// The extra ports of a workspace. Clones share them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtraPorts(Option<Arc<Read>>);

/// What the annotations say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    /// By name.
    ports: Vec<ExtraPort>,
    /// Indices of those with a path, the longest first.
    by_path: Vec<usize>,
    problems: Vec<String>,
}

/// One extra port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraPort {
    /// Its name.
    pub name: Arc<str>,
    /// The port of the pod, from 1 on.
    pub port: u16,
    /// Path of the workspace's own host under which it is: from its slash on, without a final one.
    pub path: Option<Arc<str>>,
    /// Who besides the owner may open it; `None`: whoever may open the workspace.
    pub visibility: Option<Visibility>,
}

impl ExtraPort {
    /// Who besides the owner may open it, in a workspace that `workspace` may be opened by.
    #[must_use]
    pub fn visibility<'a>(&'a self, workspace: &'a Visibility) -> &'a Visibility {
        self.visibility.as_ref().unwrap_or(workspace)
    }
}

impl ExtraPorts {
    /// None.
    pub const NONE: Self = Self(None);

    /// Reads a pod's annotations.
    #[must_use]
    pub fn parse(annotations: &BTreeMap<String, String>) -> Self {
        let main = annotations.get(keys::WORKSPACE_PORT);
        let mut reader = Reader {
            main: main
                .and_then(|port| port.parse().ok())
                .unwrap_or(keys::DEFAULT_PORT),
            ..Reader::default()
        };
        let from = (Bound::Included(keys::API), Bound::Unbounded);
        for (key, value) in annotations.range::<str, _>(from) {
            let Some(setting) = key.strip_prefix(keys::API) else {
                break;
            };
            reader.setting(key, setting, value);
        }
        let read = reader.finish();
        let nothing = read.ports.is_empty() && read.problems.is_empty();
        Self((!nothing).then(|| Arc::new(read)))
    }

    /// Reads those of a pod's manifest.
    #[must_use]
    pub fn of_manifest(manifest: &Value) -> Self {
        let annotations = manifest.pointer("/metadata/annotations");
        let all = annotations.and_then(Value::as_object).into_iter().flatten();
        let ours =
            all.filter(|(key, _)| key.starts_with(keys::API) || *key == keys::WORKSPACE_PORT);
        let texts = ours.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        Self::parse(&texts.collect())
    }

    /// The one of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&ExtraPort> {
        let ports = &self.0.as_ref()?.ports;
        let at = ports.binary_search_by(|port| (*port.name).cmp(name)).ok()?;
        ports.get(at)
    }

    /// The one that a path inside the workspace (without the query) belongs to: of those whose segments
    /// it begins with, byte for byte, the one with the most.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&ExtraPort> {
        let read = self.0.as_ref()?;
        let mut with_path = read.by_path.iter().filter_map(|at| read.ports.get(*at));
        with_path.find(|port| port.path.as_deref().is_some_and(|own| is_under(path, own)))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ExtraPort> {
        self.0.iter().flat_map(|read| &read.ports)
    }

    /// What was left out, each in a sentence that says what would be right.
    pub fn problems(&self) -> impl Iterator<Item = &str> {
        let problems = self.0.iter().flat_map(|read| &read.problems);
        problems.map(String::as_str)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

/// Whether `path` is `prefix` or below it.
fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What the annotations say of one name.
#[derive(Default)]
struct Said<'a> {
    port: Option<Option<u16>>,
    path: Option<&'a str>,
    visibility: Option<Visibility>,
}

#[derive(Default)]
struct Reader<'a> {
    said: BTreeMap<&'a str, Said<'a>>,
    /// The workspace's own port.
    main: u16,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    fn setting(&mut self, key: &'a str, setting: &'a str, value: &'a str) {
        let Some((name, what)) = setting.rsplit_once('.') else {
            return self.problem(format!(
                "annotation {key}: use api.NAME.port, .path and .visibility"
            ));
        };
        if let Err(error) = id::check_port_name(name) {
            return self.problem(format!("annotation {key}: {error}"));
        }
        let value = value.trim();
        match what {
            "port" => {
                let port = value.parse().ok().filter(|port| *port != 0);
                if port.is_none() {
                    self.problem(format!(
                        "annotation {key} is '{}'; use a port from 1 to 65535",
                        shown(value)
                    ));
                }
                self.of(name).port = Some(port);
            }
            "path" => match checked_path(value) {
                Ok(path) => self.of(name).path = Some(path),
                Err(rule) => {
                    self.of(name);
                    self.problem(format!("annotation {key} is '{}'; {rule}", shown(value)));
                }
            },
            "visibility" => {
                let visibility = Visibility::parse(Some(value));
                if let Visibility::Unclear(said) = &visibility {
                    self.problem(format!(
                        "annotation {key} is '{said}', so nobody but the owner opens it; use private, \
                         authenticated, or a list of user:SUB and role:ROLE"
                    ));
                }
                self.of(name).visibility = Some(visibility);
            }
            _ => self.problem(format!(
                "annotation {key}: use api.NAME.port, .path and .visibility"
            )),
        }
    }

    fn of(&mut self, name: &'a str) -> &mut Said<'a> {
        self.said.entry(name).or_default()
    }

    fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        }
    }

    fn finish(mut self) -> Read {
        let mut ports = Vec::new();
        for (name, said) in std::mem::take(&mut self.said) {
            match said.port {
                // Told already.
                Some(None) => {}
                None => self.problem(format!(
                    "annotation {}{name}.port is missing; say which port it is",
                    keys::API
                )),
                Some(Some(_)) if ports.len() == MAX_PORTS => self.problem(format!(
                    "port '{name}' is one too many; use {MAX_PORTS} at most"
                )),
                Some(Some(port)) => {
                    if port == self.main {
                        self.problem(format!(
                            "annotation {}{name}.port is the workspace's own port, so whoever may open either \
                             opens both; give it another one, or leave it out",
                            keys::API
                        ));
                    }
                    ports.push(ExtraPort {
                        name: Arc::from(name),
                        port,
                        path: said.path.map(Arc::from),
                        visibility: said.visibility,
                    });
                }
            }
        }
        self.drop_shared_paths(&mut ports);
        let mut by_path: Vec<(usize, usize)> = ports
            .iter()
            .enumerate()
            .filter_map(|(at, port)| Some((port.path.as_deref()?.len(), at)))
            .collect();
        by_path.sort_unstable_by(|one, other| other.cmp(one));
        Read {
            by_path: by_path.into_iter().map(|(_, at)| at).collect(),
            ports,
            problems: self.problems,
        }
    }

    /// A path that two ports claim is neither's: whose it is would be a guess, and so who may open it.
    fn drop_shared_paths(&mut self, ports: &mut [ExtraPort]) {
        let mut seen = BTreeSet::new();
        let paths = ports.iter().filter_map(|port| port.path.clone());
        let shared: BTreeSet<_> = paths.filter(|path| !seen.insert(path.clone())).collect();
        for path in shared {
            self.problem(format!(
                "path '{path}' is that of several ports, and so of none; give each its own"
            ));
            for port in ports.iter_mut() {
                port.path.take_if(|own| *own == path);
            }
        }
    }
}

/// A path that can be told from any other by its bytes alone: no encoding, nothing that climbs.
fn checked_path(text: &str) -> Result<&str, &'static str> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment != "." && segment != ".." && segment.bytes().all(plain)
    };
    let Some(inner) = path.strip_prefix('/') else {
        return Err("use a path such as /api; '/' is the workspace's main port");
    };
    if path.len() > MAX_PATH || !inner.split('/').all(is_segment) {
        return Err(
            "use /-separated segments of letters, digits, '-', '.', '_' and '~', 128 bytes at most",
        );
    }
    if is_under(path, "/.nogoo9") {
        return Err("/.nogoo9 is nogoo9's own");
    }
    Ok(path)
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
