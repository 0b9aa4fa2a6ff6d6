//! Whose call it is, how many of them there were, and at which one control dies.

use http::Method;
use nogoo9_model::name;
use nogoo9_tests::{Call, Judge, Verdict};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a control dies. Calls are counted by kind, since a blow at one workspace makes the others'
/// upgrades look once more at what is there: the third write of the record stays the third.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Aim {
    /// Of which kind the call is, as in `PATCH pods`.
    pub(super) call: String,
    /// The which of that kind it is, whichever control makes it; the first is 1.
    pub(super) nth: usize,
    pub(super) verdict: Verdict,
}

/// What is known of one workspace in this round.
#[derive(Debug, Default)]
struct Watched {
    /// What the names of its objects begin with, or hold.
    names: Vec<String>,
    aim: Option<Aim>,
    /// Calls so far, by kind.
    calls: BTreeMap<String, usize>,
    struck: Option<(String, Instant)>,
    went_on: Option<Duration>,
}

/// A blow that fell.
#[derive(Debug, Clone)]
pub(super) struct Blow {
    /// The call, as in `PATCH pods`.
    pub(super) call: String,
    /// How long it took until the next call for the same workspace.
    pub(super) pause: Option<Duration>,
}

/// All workspaces that are struck at.
#[derive(Debug, Default)]
pub(super) struct Strikes(Mutex<BTreeMap<String, Watched>>);

impl Strikes {
    /// Judges the calls of a control.
    pub(super) fn judge(self: &Arc<Self>) -> Judge {
        let strikes = Arc::clone(self);
        Arc::new(move |call| strikes.verdict(call))
    }

    /// Begins to count the calls for these workspaces, from the first on, each with its aim.
    pub(super) fn watch(&self, aims: impl IntoIterator<Item = (String, Option<Aim>)>) {
        let watched = aims.into_iter().map(|(id, aim)| {
            let names = vec![
                name::record(&id),
                format!("ws-alice-{id}-"),
                format!("workspace-id%3D{id}"),
            ];
            let watched = Watched {
                names,
                aim,
                ..Watched::default()
            };
            (id, watched)
        });
        *self.lock() = watched.collect();
    }

    /// How many calls of each kind there were for a workspace.
    pub(super) fn calls(&self, id: &str) -> BTreeMap<String, usize> {
        let all = self.lock();
        let watched = all.get(id);
        watched.map_or_else(BTreeMap::new, |watched| watched.calls.clone())
    }

    /// The blow that fell on a workspace, if one did.
    pub(super) fn blow(&self, id: &str) -> Option<Blow> {
        let all = self.lock();
        let watched = all.get(id)?;
        let (call, _) = watched.struck.clone()?;
        Some(Blow {
            call,
            pause: watched.went_on,
        })
    }

    fn verdict(&self, call: &Call) -> Verdict {
        let body = String::from_utf8_lossy(&call.body);
        let mut all = self.lock();
        let found = all
            .iter_mut()
            .find(|(id, watched)| watched.concerns(id, call, &body));
        let Some((_, watched)) = found else {
            return Verdict::Pass;
        };
        let described = describe(call);
        // What is made for it is its own from now on, such as its operation.
        watched.names.extend(created(call));
        let calls = watched.calls.entry(described.clone()).or_default();
        *calls += 1;
        if let (Some((_, when)), None) = (&watched.struck, watched.went_on) {
            watched.went_on = Some(when.elapsed());
        }
        match &watched.aim {
            Some(aim) if aim.call == described && aim.nth == *calls => {
                watched.struck = Some((described, Instant::now()));
                aim.verdict
            }
            _ => Verdict::Pass,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn concerns(&self, id: &str, call: &Call, body: &str) -> bool {
        let named = |text: &str| self.names.iter().any(|name| text.contains(name.as_str()));
        let operation = format!("\\\"workspace\\\":\\\"{id}\\\"");
        named(&call.target)
            || (call.method == Method::POST && (named(body) || body.contains(&operation)))
    }
}

/// The name of the object that the call creates.
fn created(call: &Call) -> Option<String> {
    if call.method != Method::POST {
        return None;
    }
    let object: serde_json::Value = serde_json::from_slice(&call.body).ok()?;
    Some(object["metadata"]["name"].as_str()?.to_owned())
}

/// Method and kind, as in `PATCH pods`, `LIST pods`.
fn describe(call: &Call) -> String {
    let (path, query) = call
        .target
        .split_once('?')
        .unwrap_or((call.target.as_str(), ""));
    let mut parts = path.split('/').skip_while(|part| *part != "namespaces");
    let kind = parts.nth(2).unwrap_or_default();
    let verb = match (call.method.as_str(), parts.next()) {
        ("GET", None) => "LIST",
        (verb, _) => verb,
    };
    let dry = if query.contains("dryRun") {
        " (dry run)"
    } else {
        ""
    };
    format!("{verb} {kind}{dry}")
}
