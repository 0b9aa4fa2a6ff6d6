//! What a session has open at other proxies, for workspaces whose requests follow it
//! ([`crate::affinity`]). Asked at the admin listeners of the others, all at the same time, behind the
//! shared token, and only while an upgrade drains a pod of such a workspace. A session is named by its
//! hash. Whoever gives no answer has nothing, and is left alone for a while.
//!
//! **No request comes to a pod that control has found unused.** Control asks all proxies at once, each
//! within 2 s, whether they route past a pod and then what is open on it. Say that all do and nothing is,
//! as read from each proxy P at its moment t(P). Then no request is entered on the pod at a proxy B after
//! t(B); for take the first that is, in the order of all such and of what they follow. It follows what
//! is open at B, or what is at A, by A's word.
//! - What is open, at B or at A, was not as control looked there, so it was entered later: not the first.
//!   A looks for it after its lease began ([`Sessions::lend`](crate::sessions::Sessions::lend)), and
//!   control for leases after it has looked for what is open. So either control saw the lease, or it had
//!   looked for what is open before A did.
//! - A's lease was over as control asked A, at t(A). It lasts for [`LEASE`](crate::sessions::LEASE) from
//!   A's answer; B goes by that for [`word::KEPT`] from before it asked, and looks whether it still may
//!   after it has entered the request. So between t(B), before the request, and t(A) there is more time
//!   than control takes for all proxies.
//!
//! What is silent for ten minutes and then not is open by neither count, as within one proxy.

mod names;
pub mod word;

use crate::affinity::{SessionKey, others};
use crate::control::{self, Control};
use crate::metrics::{PeerLabels, PeerSaid};
use crate::table::Route;
use moka::sync::Cache;
use names::Names;
use nogoo9_runtime::args::Admin;
use nogoo9_runtime::secret::Secret;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use word::{NOTHING, is_about};

pub use word::Word;

/// Where proxies are asked.
pub const PATH: &str = "/holding";
/// Longest wait for the others, all together; they answer from memory.
const ANSWER: Duration = Duration::from_millis(500);
/// How long one that gave no answer is not asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// Most sessions of which something is remembered.
const MOST: u64 = 10_000;
/// Most questions at once, each to all others: what finds no place at once goes where all go.
const QUESTIONS: usize = 256;
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// What another proxy is asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The workspace's id.
    pub workspace: String,
    /// Hash of the session.
    pub session: String,
    /// Uids of the pods that it may follow.
    pub pods: Vec<String>,
}

/// What it answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Said {
    /// Uids of those on which something of the session is open there.
    pub pods: Vec<Arc<str>>,
    /// Whether it routes past all that were asked about.
    #[serde(default)]
    pub past: bool,
}

/// Asks other proxies, and remembers. Clones share what is remembered.
#[derive(Debug, Clone)]
pub struct Peers(Option<Arc<Inner>>);

struct Inner {
    names: Names,
    client: reqwest::Client,
    token: Secret,
    /// By workspace and session: of many requests of one session one asks.
    recent: Cache<(Arc<str>, SessionKey), Arc<Question>>,
    places: Semaphore,
    /// Those that gave no answer, and when they are asked again.
    silent: Mutex<HashMap<SocketAddr, Instant>>,
    counted: Family<PeerLabels, Counter>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// One that is under way or answered.
struct Question {
    route: Weak<Route>,
    word: OnceCell<Arc<Word>>,
}

impl Question {
    fn counts(&self, route: &Arc<Route>) -> bool {
        match self.word.get() {
            Some(word) => word.counts(route, Instant::now()),
            None => is_about(&self.route, route),
        }
    }
}

impl Peers {
    /// Proxies at these names, each `HOST:PORT`, by one that has this admin listener.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(
        names: Vec<String>,
        admin: &Admin,
        counted: Family<PeerLabels, Counter>,
    ) -> Result<Self, reqwest::Error> {
        let (false, Some(token)) = (names.is_empty(), admin.token.clone()) else {
            return Ok(Self(None));
        };
        Ok(Self(Some(Arc::new(Inner {
            names: Names::new(names, admin.listen),
            client: Control::client().build()?,
            token,
            recent: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(NOTHING)
                .build(),
            places: Semaphore::new(QUESTIONS),
            silent: Mutex::default(),
            counted,
        }))))
    }

    /// On which pods that `route` has beside its active one the session has something open at other
    /// proxies. Asks if that is not remembered; `None`: there is nobody to ask.
    pub async fn word(
        &self,
        workspace: &Arc<str>,
        session: SessionKey,
        route: &Arc<Route>,
    ) -> Option<Arc<Word>> {
        let inner = self.0.as_ref()?;
        let question = inner.recent.entry((workspace.clone(), session));
        let new = || {
            Arc::new(Question {
                route: Arc::downgrade(route),
                word: OnceCell::new(),
            })
        };
        let question = question.or_insert_with_if(new, |known| !known.counts(route));
        let question = question.into_value();
        let asking = question
            .word
            .get_or_init(|| inner.ask(workspace, session, route));
        Some(asking.await.clone())
    }
}

impl Inner {
    async fn ask(
        self: &Arc<Self>,
        workspace: &Arc<str>,
        session: SessionKey,
        route: &Arc<Route>,
    ) -> Arc<Word> {
        let addresses = self.names.addresses().await;
        let mut word = Word {
            asked: Instant::now(),
            route: Arc::downgrade(route),
            pods: Vec::new(),
            past: true,
        };
        let Ok(_place) = self.places.try_acquire() else {
            word.past = false;
            return Arc::new(word);
        };
        let question = Arc::new(Asked {
            workspace: workspace.to_string(),
            session: session.to_hex(),
            pods: others(route).map(|pod| pod.uid.to_string()).collect(),
        });
        let mut asking = JoinSet::new();
        self.silent().retain(|known, _| addresses.contains(known));
        for address in addresses.iter().copied() {
            let answer = self.clone().answer(address, question.clone());
            match self.is_silent(address) {
                None => drop(asking.spawn(answer)),
                Some(again) => {
                    word.past = false;
                    if again {
                        // Nobody waits for it a second time.
                        drop(tokio::spawn(answer));
                    }
                }
            }
        }
        while let Some(answer) = asking.join_next().await {
            let said = answer.ok().flatten().unwrap_or_default();
            word.past &= said.past;
            word.pods.extend(said.pods);
        }
        Arc::new(word)
    }

    /// Whether a proxy gave no answer, and whether to ask it again all the same.
    fn is_silent(&self, address: SocketAddr) -> Option<bool> {
        let now = Instant::now();
        let mut silent = self.silent();
        let again = silent.get_mut(&address)?;
        let due = now >= *again;
        if due {
            *again = now + ANSWER + PAUSE;
        }
        Some(due)
    }

    fn silent(&self) -> MutexGuard<'_, HashMap<SocketAddr, Instant>> {
        // Whoever panicked left whole entries behind.
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a proxy says; `None`: nothing in time, or nothing of use.
    async fn answer(self: Arc<Self>, address: SocketAddr, question: Arc<Asked>) -> Option<Said> {
        let answer = tokio::time::timeout(ANSWER, self.exchange(address, &question)).await;
        let answer = answer.unwrap_or(Err("no answer came in time"));
        let said = match &answer {
            Ok(said) if said.pods.is_empty() => PeerSaid::Nothing,
            Ok(_) => PeerSaid::Holding,
            Err(_) => PeerSaid::Silent,
        };
        let labels = PeerLabels { answer: said };
        self.counted.get_or_create(&labels).inc();
        let mut silent = self.silent();
        match answer {
            Ok(said) => {
                if silent.remove(&address).is_some() {
                    tracing::info!(proxy = %address, "another proxy answers again");
                }
                Some(said)
            }
            Err(reason) => {
                if silent.insert(address, Instant::now() + PAUSE).is_none() {
                    tracing::warn!(proxy = %address, reason, "another proxy gives no answer; sessions do not follow what is open there");
                }
                None
            }
        }
    }

    async fn exchange(&self, address: SocketAddr, question: &Asked) -> Result<Said, &'static str> {
        let body = serde_json::to_vec(question).map_err(|_| "it cannot be asked")?;
        let request = self
            .client
            .post(format!("http://{address}{PATH}"))
            .bearer_auth(self.token.expose())
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        let answer = request.send().await.map_err(|_| "it cannot be reached")?;
        if !answer.status().is_success() {
            return Err("it refuses");
        }
        let body = control::body(answer, MAX_ANSWER).await;
        let body = body.map_err(control::Spoilt::as_str)?;
        serde_json::from_slice(&body).map_err(|_| "its answer cannot be read")
    }
}
