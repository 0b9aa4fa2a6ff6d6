//! The proxies: each routes by what it knows of the pods, which may be some time ago, has sessions on
//! the pods that it routed to, and gives no answer at times, some for longer than any pod is kept for
//! them. What they say is what control lets old pods go by.

use crate::api::{Change, Kind, workspace};
use crate::bites::Bite;
use crate::kubelet::uid;
use crate::laws::view;
use crate::rng::Rng;
use nogoo9_control::upgrade::Reports;
use nogoo9_model::pod::{Phase, PodView, UpgradeState};
use nogoo9_model::select;
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::{Sessions, VERSION};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// How many proxies there are, where there are any.
const PROXIES: usize = 2;
/// Sessions that are opened through each.
const SESSIONS: usize = 4;
/// A proxy is away for so long at most, or single answers get lost, in seconds.
const TROUBLED: i64 = 400;

/// Something open on a pod.
struct Session {
    pod: String,
    /// Whether it is a request, and no socket.
    request: bool,
    end: i64,
}

/// What happened to a pod, on its way to a proxy.
struct Event {
    at: i64,
    uid: String,
    workspace: String,
    pod: Option<PodView>,
}

struct Proxy {
    /// Pods as it knows them, by uid.
    pods: BTreeMap<String, PodView>,
    coming: VecDeque<Event>,
    sessions: Vec<Session>,
    /// How many are yet to be opened.
    openings: usize,
    /// It gives no answer from then until then.
    silent: (i64, i64),
}

impl Proxy {
    fn active(&self, workspace: &str) -> Option<&PodView> {
        let pods = self.pods.values();
        select::active(pods.filter(|pod| pod.workspace == workspace))
    }

    /// Where a session goes if the active pod is a candidate that cannot be reached.
    fn spare(&self, workspace: &str) -> Option<&PodView> {
        let active = self.active(workspace)?;
        let pods = self.pods.values().filter(|pod| {
            pod.workspace == workspace && pod.uid != active.uid && select::is_routable(pod)
        });
        pods.filter(|_| active.state == UpgradeState::Candidate)
            .max_by_key(|pod| select::order(pod))
    }

    fn says(&self, workspace: &str) -> Sessions {
        let count = |which: fn(&Session) -> bool| {
            let mut counts = BTreeMap::new();
            for session in self.sessions.iter().filter(|session| which(session)) {
                *counts.entry(session.pod.clone()).or_insert(0) += 1;
            }
            counts
        };
        Sessions {
            version: VERSION,
            active: self.active(workspace).map(|pod| pod.uid.clone()),
            spare: Vec::from_iter(self.spare(workspace).map(|pod| pod.uid.clone())),
            sessions: count(|_| true),
            requests: count(|session| session.request),
        }
    }
}

/// All proxies.
pub(crate) struct Edge {
    proxies: Vec<Proxy>,
    /// Pods that can be reached, whoever knows of them.
    there: BTreeSet<String>,
    rng: Rng,
    /// Until when single questions get no answer.
    lossy: i64,
    bite: Option<Bite>,
    /// What each actor was told last, as it truly was.
    told: BTreeMap<usize, Vec<ProxyReport>>,
    pub(crate) now: i64,
}

impl Edge {
    /// `exists`: whether anybody uses the workspaces; `random`: whether proxies are silent at times.
    pub(crate) fn new(
        exists: bool,
        random: bool,
        seed: u64,
        bite: Option<Bite>,
        now: i64,
    ) -> Arc<Mutex<Self>> {
        let mut rng = Rng::new(!seed);
        let proxies = if exists { PROXIES } else { 0 };
        let proxies = (0..proxies).map(|_| Proxy {
            pods: BTreeMap::new(),
            coming: VecDeque::new(),
            sessions: Vec::new(),
            openings: SESSIONS,
            silent: silence(&mut rng, random, now),
        });
        Arc::new(Mutex::new(Self {
            proxies: proxies.collect(),
            there: BTreeSet::new(),
            lossy: if random { now + TROUBLED } else { now },
            bite,
            told: BTreeMap::new(),
            now,
            rng,
        }))
    }

    /// Something happened to pods: the proxies will hear of it, each in its own time. What was open on
    /// a pod that has ended breaks at once.
    pub(crate) fn hear(&mut self, changes: &[Change], now: i64) {
        if self.proxies.is_empty() {
            return;
        }
        for change in changes.iter().filter(|change| change.key.0 == Kind::Pod) {
            let Some(pod) = change.after.as_ref().or(change.before.as_ref()) else {
                continue;
            };
            let (uid, workspace) = (uid(pod), workspace(pod).unwrap_or_default());
            let known = change.after.as_deref().and_then(view);
            let runs = known
                .as_ref()
                .is_some_and(|pod| pod.phase == Phase::Running);
            if runs {
                self.there.insert(uid.to_owned());
            } else {
                self.there.remove(uid);
            }
            for proxy in &mut self.proxies {
                if !runs {
                    proxy.sessions.retain(|session| session.pod != uid);
                }
                let late = if self.rng.chance(150) { 25 } else { 0 };
                let at = now + self.rng.seconds(0, late);
                proxy.coming.push_back(Event {
                    at: proxy.coming.back().map_or(at, |last| last.at.max(at)),
                    uid: uid.to_owned(),
                    workspace: workspace.to_owned(),
                    pod: known.clone(),
                });
            }
        }
    }

    /// Proxies at which something can happen now, and when it can next at any.
    pub(crate) fn due(&self, now: i64) -> (Vec<usize>, Option<i64>) {
        let next = |proxy: &Proxy| {
            let ends = proxy.sessions.iter().map(|session| session.end);
            let comes = proxy.coming.front().map(|event| event.at);
            ends.chain(comes).min()
        };
        let all = || self.proxies.iter().map(next).enumerate();
        let due = all().filter(|(_, at)| at.is_some_and(|at| at <= now));
        let later = all().filter_map(|(_, at)| at).filter(|at| *at > now);
        (due.map(|(place, _)| place).collect(), later.min())
    }

    /// A session at this proxy ends, or it hears of a pod, and somebody may open a session.
    pub(crate) fn act(&mut self, place: usize, now: i64) -> String {
        let proxy = &mut self.proxies[place];
        let ended = proxy.sessions.iter().position(|one| one.end <= now);
        if let Some(ended) = ended {
            let ended = proxy.sessions.swap_remove(ended);
            return format!("proxy {place}: a session on {} ends", ended.pod);
        }
        if proxy.coming.front().is_none_or(|event| event.at > now) {
            return String::new();
        }
        let Some(event) = proxy.coming.pop_front() else {
            return String::new();
        };
        match event.pod {
            Some(pod) => proxy.pods.insert(event.uid, pod),
            None => proxy.pods.remove(&event.uid),
        };
        let active = proxy.active(&event.workspace).map(|pod| pod.uid.clone());
        let spare = proxy.spare(&event.workspace).map(|pod| pod.uid.clone());
        let mut told = format!("proxy {place}: routes to {active:?}, else to {spare:?}");
        let unreachable = spare.is_some() && self.rng.chance(200);
        let goes_to = if unreachable { spare } else { active };
        if let Some(pod) = goes_to.filter(|uid| self.there.contains(uid))
            && proxy.openings > 0
            && self.rng.chance(500)
        {
            let most = if self.rng.chance(300) { 60 } else { 10 };
            proxy.openings -= 1;
            proxy.sessions.push(Session {
                pod,
                request: self.rng.chance(400),
                end: now + self.rng.seconds(1, most),
            });
            told.push_str(", where a session begins");
        }
        told
    }

    /// From when all proxies answer.
    pub(crate) fn quiet(&self) -> i64 {
        let silent = self.proxies.iter().map(|proxy| proxy.silent.1);
        silent.fold(self.lossy, i64::max)
    }

    /// What this actor was told when it asked last.
    pub(crate) fn told(&self, actor: usize) -> Vec<ProxyReport> {
        self.told.get(&actor).cloned().unwrap_or_default()
    }

    /// The actor's process is gone, with all that it was told.
    pub(crate) fn forget(&mut self, actor: usize) {
        self.told.remove(&actor);
    }

    fn answer(&mut self, workspace: &str, actor: usize) -> Vec<ProxyReport> {
        let mut reports = Vec::new();
        for (place, proxy) in self.proxies.iter().enumerate() {
            let (from, until) = proxy.silent;
            let lost = self.now < self.lossy && self.rng.chance(40);
            let silent = lost || (from..until).contains(&self.now);
            reports.push(ProxyReport {
                proxy: format!("proxy {place}"),
                answer: (!silent).then(|| proxy.says(workspace)),
            });
        }
        self.told.insert(actor, reports.clone());
        if let Some(bite) = self.bite {
            bite.reports(&mut reports);
        }
        reports
    }
}

/// When a proxy gives no answer.
fn silence(rng: &mut Rng, random: bool, now: i64) -> (i64, i64) {
    if !random || !rng.chance(300) {
        return (now, now);
    }
    let from = now + rng.seconds(0, 60);
    let most = if rng.chance(300) { TROUBLED } else { 60 };
    (from, now + rng.seconds(from - now, most))
}

/// The proxies, as one actor asks them.
pub(crate) struct Asked {
    pub(crate) edge: Arc<Mutex<Edge>>,
    pub(crate) actor: usize,
}

impl Reports for Asked {
    fn reports(&self, workspace: &str) -> impl Future<Output = Vec<ProxyReport>> + Send {
        let answer = self.edge.lock().unwrap().answer(workspace, self.actor);
        std::future::ready(answer)
    }
}
