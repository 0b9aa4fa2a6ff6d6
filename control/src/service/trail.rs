//! Every command leaves its record in the audit trail here, whichever surface it came by and whatever
//! became of it; and what people do to a workspace is told on its pods.

use super::error::{ErrorCode, ServiceError};
use super::{Answer, Service};
use crate::audit;
use nogoo9_model::access::Caller;
use nogoo9_model::pod::PodView;
use nogoo9_model::upgrade::story::{Reason, asked};
use nogoo9_runtime::audit::{Outcome, What};

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

    /// On the pods that were there, of what ends them; on those that are new, of what made them.
    fn tell(&self, id: &str) {
        let Some(reason) = reason(self.what) else {
            return;
        };
        let new = match reason {
            Reason::Spawned | Reason::Started => self.service.pods(id),
            _ => Vec::new(),
        };
        let is_known = |pod: &&PodView| self.pods.iter().any(|known| known.uid == pod.uid);
        let pods = match reason {
            Reason::Spawned | Reason::Started => new.iter().filter(|pod| !is_known(pod)).collect(),
            _ => self.pods.iter().collect::<Vec<_>>(),
        };
        let notes = pods.into_iter();
        let notes = notes.map(|pod| asked(reason, id, &self.caller.sub, pod));
        self.service.parts().cluster.tell(notes);
    }
}

/// What is told of it on pods, by this way: upgrades and rollbacks are told step by step.
fn reason(what: What) -> Option<Reason> {
    match what {
        What::WorkspaceSpawn => Some(Reason::Spawned),
        What::WorkspaceStart => Some(Reason::Started),
        What::WorkspaceStop => Some(Reason::Stopped),
        What::WorkspaceDelete | What::WorkspaceDeleteData => Some(Reason::Deleted),
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
