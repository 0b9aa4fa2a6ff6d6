//! Named readiness checks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

type Checks = BTreeMap<&'static str, Option<String>>;

/// A figure to be read at the moment at which somebody asks.
type Figure = Box<dyn Fn() -> String + Send + Sync>;

/// What must be green before traffic may come. Clones share the checks.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    checks: Arc<Mutex<Checks>>,
    figures: Arc<Figures>,
}

#[derive(Default)]
struct Figures(Mutex<BTreeMap<&'static str, Figure>>);

impl std::fmt::Debug for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Figures")
    }
}

/// One named check; red until [`Check::ready`] is called.
#[derive(Clone, Debug)]
pub struct Check {
    readiness: Readiness,
    name: &'static str,
}

impl Readiness {
    /// No checks: ready at once. Register all checks before serving.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check that is red with `reason`, as in "waiting for the first list of pods".
    pub fn register(&self, name: &'static str, reason: impl Into<String>) -> Check {
        self.checks().insert(name, Some(reason.into()));
        Check {
            readiness: self.clone(),
            name,
        }
    }

    /// Shows a figure beside the checks. It decides nothing.
    pub fn show(&self, name: &'static str, figure: impl Fn() -> String + Send + Sync + 'static) {
        self.figures().insert(name, Box::new(figure));
    }

    /// All figures as they are now, by name.
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let figures = self.figures();
        let read = figures.iter().map(|(name, figure)| (*name, figure()));
        read.collect()
    }

    fn figures(&self) -> MutexGuard<'_, BTreeMap<&'static str, Figure>> {
        let figures = self.figures.0.lock();
        figures.unwrap_or_else(PoisonError::into_inner)
    }

    /// The red checks with their reasons, by name.
    pub fn waiting(&self) -> Vec<(&'static str, String)> {
        self.checks()
            .iter()
            .filter_map(|(name, reason)| reason.clone().map(|reason| (*name, reason)))
            .collect()
    }

    /// Whether all checks are green.
    pub fn is_ready(&self) -> bool {
        self.checks().values().all(Option::is_none)
    }

    /// Whoever held the lock left a whole map behind, panic or not.
    fn checks(&self) -> MutexGuard<'_, Checks> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Check {
    /// Turns it green.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Turns it red.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, reason: Option<String>) {
        let old = self.readiness.checks().insert(self.name, reason.clone());
        match (old.flatten(), reason) {
            (Some(_), None) => tracing::info!(check = self.name, "check is ready"),
            (None, Some(reason)) => {
                tracing::warn!(check = self.name, reason, "check is not ready");
            }
            _ => {}
        }
    }
}
