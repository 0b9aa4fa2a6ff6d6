//! Beginning the upgrade of one target.

use super::memory::Memory;
use crate::cluster::{ClusterError, Stored};
use crate::service::{Ask, Attempt, Service, ServiceError};
use crate::template::TemplateError;
use nogoo9_model::bulk::{
    CHUNK, Scope, Sight, Target, TargetState, child, not_before, sight, stopped, under_way,
};
use nogoo9_model::container::Trouble;
use nogoo9_model::record::{NotUpgraded, Record};

/// Looks live at a target that shows no sign of its upgrade, and begins it if there is none.
///
/// # Errors
/// A call that failed and says nothing of the target.
pub(super) async fn begin(
    service: &Service,
    memory: &mut Memory,
    index: usize,
) -> Result<(), ClusterError> {
    let parts = service.parts();
    let cluster = &parts.cluster;
    let Some(loaded) = memory.loaded() else {
        return Ok(());
    };
    let (bulk, actor) = (
        loaded.head.value.id.clone(),
        loaded.head.value.actor.clone(),
    );
    let head = loaded.head.value.bulk.as_ref();
    let force = head.is_some_and(|head| head.scope == Scope::All);
    let chunk = memory.chunk(index / CHUNK);
    let Some((chunk, target)) =
        chunk.and_then(|chunk| Some((chunk, chunk.value.targets.get(index % CHUNK)?)))
    else {
        memory.reload();
        return Ok(());
    };
    let (version, target) = (chunk.resource_version.clone(), target.clone());
    let child = child(&bulk, &target.workspace);
    // In this order: what is in neither has not begun, and cannot have begun if the record is still
    // the same when it is written.
    let stored = cluster.living(&target.workspace).await?;
    let operation = cluster.operation(&child).await?;
    let seen = stored
        .as_ref()
        .map(|stored| stored.resource_version.clone());
    let found = sight(
        stored.as_ref().map(|stored| &stored.value),
        &child,
        operation.as_ref().map(|stored| &stored.value),
    );
    let sight = match found {
        Sight::Unbegun if target.state == TargetState::Pending => {
            // A result that another driver has written since must stand.
            let chunk = cluster.chunk(&bulk, index / CHUNK).await?;
            if chunk.resource_version != version {
                memory.reload();
                return Ok(());
            }
            let ask = Ask {
                operation: &child,
                actor: &actor,
                by: None,
                parent: Some(&bulk),
                retry_of: None,
                // What fills a quota may be our own, and will end.
                if_room: crowded(memory),
                force,
            };
            match attempt(service, memory, stored.as_ref(), &target, &ask).await {
                Some(sight) => sight,
                None => return Ok(()),
            }
        }
        Sight::Unbegun | Sight::Lost => Sight::Refused(
            TargetState::Failed,
            Trouble::new(
                "ResultLost",
                "its upgrade had begun, and nothing tells what became of it: somebody removed its record or operation",
            ),
        ),
        found => found,
    };
    memory.note(index, sight, seen, cluster.now());
    Ok(())
}

/// Whether upgrades of this bulk are under way: their pods count against quotas until they end.
fn crowded(memory: &Memory) -> bool {
    let Some(loaded) = memory.loaded() else {
        return false;
    };
    let chunks = loaded.chunks.iter();
    chunks
        .flat_map(|chunk| &chunk.value.targets)
        .any(|target| target.state == TargetState::Running)
        || memory.begun().next().is_some()
}

/// Tries to begin. `None`: the record has changed meanwhile; look again.
async fn attempt(
    service: &Service,
    memory: &mut Memory,
    stored: Option<&Stored<Record>>,
    target: &Target,
    ask: &Ask<'_>,
) -> Option<Sight> {
    let skipped = |why: Trouble| Some(Sight::Refused(TargetState::Skipped, why));
    let Some(stored) = stored else {
        return skipped(gone());
    };
    if stored.value.owner != target.owner {
        // The id was freed and taken by somebody else: not the workspace that was meant.
        return skipped(gone());
    }
    if let Some(why) = not_before(&stored.value, service.parts().cluster.now()) {
        return skipped(why);
    }
    match service.begin_upgrade(stored, ask).await {
        Ok(Attempt::Begun(record)) => {
            service.parts().engine.poke(&record.id);
            Some(sight(Some(&record), ask.operation, None))
        }
        Ok(Attempt::UpToDate) => skipped(Trouble::new(
            "UpToDate",
            "the workspace has the newest version of its template already",
        )),
        Ok(Attempt::Full(why)) => {
            memory.tight();
            tracing::info!(
                operation = ask.parent,
                workspace = target.workspace,
                reason = why.reason,
                "bulk waits for quota"
            );
            Some(Sight::Postponed)
        }
        Ok(Attempt::Conflict) => None,
        Err(error) => match refusal(&error, &stored.value) {
            Some((state, why)) => Some(Sight::Refused(state, why)),
            None => {
                tracing::warn!(
                    operation = ask.parent,
                    workspace = target.workspace,
                    %error,
                    "an upgrade of a bulk could not begin; trying again"
                );
                Some(Sight::Postponed)
            }
        },
    }
}

fn gone() -> Trouble {
    Trouble::new("Gone", "the workspace was deleted meanwhile")
}

/// What an error makes of the target. `None`: it says nothing of it, and passes.
fn refusal(error: &ServiceError, record: &Record) -> Option<(TargetState, Trouble)> {
    let failed = |reason: &str| {
        let why = Trouble::new(reason, error.to_string());
        Some((TargetState::Failed, why))
    };
    match error {
        ServiceError::NotUpgraded(NotUpgraded::NotRunning) => {
            Some((TargetState::Skipped, stopped()))
        }
        ServiceError::NotUpgraded(NotUpgraded::UnderWay) => {
            let other = record.upgrade.as_ref().map(|upgrade| &upgrade.operation);
            let why = under_way(other.map_or("another operation", String::as_str));
            Some((TargetState::Skipped, why))
        }
        ServiceError::NotUpgraded(_) => Some((
            TargetState::Skipped,
            Trouble::new("NotReady", error.to_string()),
        )),
        ServiceError::Refused(trouble, _) => Some((TargetState::Failed, trouble.clone())),
        ServiceError::Render(_) | ServiceError::Invalid { .. } => failed("InputsDoNotFit"),
        ServiceError::Template(TemplateError::NotFound { .. }) => failed("TemplateNotFound"),
        ServiceError::Template(TemplateError::Broken { .. }) => failed("TemplateBroken"),
        ServiceError::TooLarge { .. } => failed("TooLarge"),
        other if other.code().is_retryable() => None,
        _ => failed("NotUpgraded"),
    }
}
