//! Every command leaves its record in the audit trail here, whichever surface it came by and whatever
//! became of it; and what people do to a workspace is told on its pods.

use super::error::{ErrorCode, ServiceError};
use super::{Answer, Service};
use crate::audit;
use nogoo9_model::access::Caller;
use nogoo9_model::pod::PodView;
use nogoo9_model::upgrade::story::{Reason, asked};
use nogoo9_runtime::audit::{Outcome, What};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest wait for the pod of a workspace that was started, to tell it who did.
const PATIENCE: Duration = Duration::from_secs(60);
/// Such waits at once; further ones are not begun.
static WAITING: Semaphore = Semaphore::const_new(64);

/// A command under way.
pub(super) struct Command<'a> {
    service: &'a Service,
    what: What,
    /// As it is counted.
    name: &'static str,
    caller: &'a Caller,
    object: Option<String>,
    /// Its workspace's pods when it began, where it is told on pods.
    pods: Vec<PodView>,
}

impl Service {
    /// Begins a command of the caller's on `object`, which may be known only when it is done.
    pub(super) fn command<'a>(
        &'a self,
        what: What,
        name: &'static str,
        caller: &'a Caller,
        object: Option<&str>,
    ) -> Command<'a> {
        let pods = reason(what).and_then(|_| Some(self.pods(object?)));
        Command {
            service: self,
            what,
            name,
            caller,
            object: object.map(ToOwned::to_owned),
            pods: pods.unwrap_or_default(),
        }
    }

    fn pods(&self, id: &str) -> Vec<PodView> {
        let listed = self.parts().caches.workspace(id);
        listed.map(|listed| listed.pods).unwrap_or_default()
    }
}

impl Command<'_> {
    /// Ends it.
    pub(super) fn done<T>(self, result: Answer<T>) -> Answer<T> {
        let object = self.object.clone();
        self.done_to(result, |_| object)
    }

    /// Ends it; what it was done to is known only now, if it was done.
    pub(super) fn done_to<T>(
        self,
        result: Answer<T>,
        object: impl FnOnce(&T) -> Option<String>,
    ) -> Answer<T> {
        let done_to = match &result {
            Ok(answer) => object(answer),
            Err(_) => self.object.clone(),
        };
        let outcome = outcome(&result);
        let sub = Some(self.caller.sub.as_str());
        audit::write(self.what, sub, done_to.as_deref(), outcome);
        if let (Ok(_), Some(id)) = (&result, &done_to) {
            self.tell(id);
        }
        self.service.parts().metrics.count(self.name, result)
    }

    /// On the pods that were there, of what ends them; on the one that is new, of what made it.
    fn tell(&self, id: &str) {
        let parts = self.service.parts();
        match reason(self.what).filter(|_| parts.cluster.tells()) {
            None => {}
            Some(reason @ (Reason::Spawned | Reason::Started)) => self.tell_the_new(reason, id),
            Some(reason) => {
                let notes = self.pods.iter();
                let notes = notes.map(|pod| asked(reason, id, &self.caller.sub, pod));
                parts.cluster.tell(notes);
            }
        }
    }

    /// Waits for the pod beside the answer: the one before it may have to go first.
    fn tell_the_new(&self, reason: Reason, id: &str) {
        let Ok(place) = WAITING.try_acquire() else {
            return;
        };
        let (service, id, actor) = (self.service.clone(), id.to_owned(), self.caller.sub.clone());
        let known: Vec<String> = self.pods.iter().map(|pod| pod.uid.clone()).collect();
        tokio::spawn(async move {
            let mut changes = service.parts().caches.changes();
            let new = async {
                loop {
                    changes.borrow_and_update();
                    let pods = service.pods(&id);
                    let mut new = pods.into_iter().filter(|pod| !known.contains(&pod.uid));
                    if let Some(pod) = new.next() {
                        return Some(pod);
                    }
                    changes.changed().await.ok()?;
                }
            };
            if let Ok(Some(pod)) = tokio::time::timeout(PATIENCE, new).await {
                let note = asked(reason, &id, &actor, &pod);
                service.parts().cluster.tell([note]);
            }
            drop(place);
        });
    }
}

/// What is told of it on pods, by this way: upgrades and rollbacks are told step by step.
fn reason(what: What) -> Option<Reason> {
    match what {
        What::WorkspaceSpawn => Some(Reason::Spawned),
        What::WorkspaceStart => Some(Reason::Started),
        What::WorkspaceStop => Some(Reason::Stopped),
        What::WorkspaceDelete | What::WorkspaceDeleteData | What::WorkspaceRelease => {
            Some(Reason::Deleted)
        }
        _ => None,
    }
}

fn outcome<T>(result: &Answer<T>) -> Outcome<'static> {
    match result.as_ref().map_err(ServiceError::code) {
        Ok(_) => Outcome::Ok,
        Err(ErrorCode::Unavailable) => Outcome::Failed(ErrorCode::Unavailable.as_str()),
        Err(code) => Outcome::Refused(code.as_str()),
    }
}

/// Leaves a record of a query that was refused to whoever asked for it.
pub(super) fn refused_to_look<T>(command: &str, result: &Answer<T>) {
    let Err(code) = result.as_ref().map_err(ServiceError::code) else {
        return;
    };
    if !matches!(
        code,
        ErrorCode::AccessDenied | ErrorCode::Forbidden | ErrorCode::InsufficientScope
    ) {
        return;
    }
    if let Some(seen) = audit::seen() {
        let who = seen.proof().and_then(|noted| noted.who.as_deref());
        seen.write(
            What::Read,
            who,
            Some(command),
            Outcome::Refused(code.as_str()),
        );
    }
}
