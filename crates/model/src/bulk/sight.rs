//! What is known of one target's upgrade.

use super::TargetState;
use crate::container::Trouble;
use crate::operation::{Operation, TargetResult};
use crate::record::Record;
use crate::upgrade::running_operation;

/// What is known of one target's upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// There is no sign of it. What a watch says is not enough to begin on: look live, and begin it
    /// if that shows no sign either.
    Unbegun,
    /// Under way, or ended: this is how far it is.
    Begun(Box<TargetResult>),
    /// It was tried to begin it, and this is why there will be no upgrade.
    Refused(TargetState, Trouble),
    /// It was tried to begin it, and the attempt is to be repeated later.
    Postponed,
    /// It was begun once, and nothing tells what became of it: somebody took record and operation
    /// away by hand.
    Lost,
}

/// Looks for signs of the upgrade `child`: in the workspace's record first, which is where it begins
/// and ends, then in its stored operation, which outlives both the next upgrade and the workspace.
///
/// Read the record before the operation: whatever was not in the record then, and had begun before,
/// is in the operation.
#[must_use]
pub fn sight(record: Option<&Record>, child: &str, operation: Option<&Operation>) -> Sight {
    let target = |operation: &Operation| {
        let target = operation.targets.first()?;
        Some(Sight::Begun(Box::new(target.clone())))
    };
    let from_record = record.and_then(|record| {
        let upgrade = record.upgrade.as_ref();
        let under_way = upgrade.filter(|upgrade| upgrade.operation == child);
        let ended = record.last.as_ref().map(|last| &last.operation);
        under_way
            .and_then(|upgrade| target(&running_operation(record, upgrade)))
            .or_else(|| target(ended.filter(|ended| ended.id == child)?))
    });
    from_record.unwrap_or_else(|| match operation {
        Some(operation) if operation.state.is_terminal() => {
            target(operation).unwrap_or(Sight::Lost)
        }
        Some(_) => Sight::Lost,
        None => Sight::Unbegun,
    })
}

/// Whether a refusal is about a quota: one that other pods of the same bulk use up for a while.
#[must_use]
pub fn is_quota(trouble: &Trouble) -> bool {
    trouble.message.contains("exceeded quota")
}
