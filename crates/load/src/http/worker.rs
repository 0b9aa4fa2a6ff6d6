//! One worker: one connection at a time, one request at a time on it.

use std::sync::Arc;
use std::time::Duration;

use ::http::Method;
use tokio::time::{Instant, sleep};

use super::Answer;
use super::client::{Client, Failed};
use super::run::Run;
use crate::outcome::{Stale, stale};
use crate::recorder::{Ended, Failure, Success};
use crate::{FailureKind, Schedule};

/// In a closed loop a failure is followed by this pause: a refused connection must not
/// turn the generator into a busy loop.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);

pub(super) async fn work(run: Arc<Run>, number: usize) {
    let mut client = Client::new(&run.load);
    loop {
        let idle_at = run.tally.phases.elapsed();
        let Some(ticket) = run.ticket() else { return };
        let due = run
            .load
            .schedule
            .due(ticket)
            .map(|offset| run.tally.begin + offset);
        if let Some(due) = due
            && !wait_until(&run, run.tally.phases.instant(due)).await
        {
            return;
        }
        let sent = run.tally.phases.elapsed();
        let from = Schedule::counts_from(due, idle_at, sent);
        let phase = run.tally.phases.at(from);
        let (result, stale, reused) = ask(&run, &mut client).await;
        let failed = result.is_err();
        run.tally.record(Ended {
            phase,
            from,
            sent,
            ended: run.tally.phases.elapsed(),
            lag: due.map_or(Duration::ZERO, |due| sent.saturating_sub(due)),
            connection: number,
            reused,
            stale,
            result,
        });
        if failed && due.is_none() {
            sleep(PAUSE_AFTER_FAILURE).await;
        }
    }
}

/// False: the run was stopped meanwhile.
async fn wait_until(run: &Run, due: Instant) -> bool {
    if due <= Instant::now() {
        return true;
    }
    tokio::select! {
        () = tokio::time::sleep_until(due) => true,
        () = run.tally.stop.cancelled() => false,
    }
}

/// Asks once, or twice if the first try met a stale connection. The second is always on
/// a fresh connection, so there is no third.
async fn ask(run: &Run, client: &mut Client) -> (Result<Success, Failure>, Option<Stale>, bool) {
    let deadline = Instant::now() + run.load.request_timeout;
    let first = client.ask(run, deadline).await;
    let Err(failed) = first else {
        return (judge(run, first), None, client.was_reused());
    };
    let Some(stale) = stale(
        failed.as_try(),
        idempotent(&run.load.method),
        run.load.stale_window,
    ) else {
        return (Err(failed.into()), None, client.was_reused());
    };
    let second = client.ask(run, deadline).await;
    (judge(run, second), Some(stale), client.was_reused())
}

/// Holds a whole answer against the expectation.
fn judge(run: &Run, result: Result<Answer, Failed>) -> Result<Success, Failure> {
    let answer = result?;
    if answer.status != run.load.status {
        let start = String::from_utf8_lossy(&answer.body).into_owned();
        let detail = format!(
            "status {} instead of {}: {start}",
            answer.status, run.load.status
        );
        return Err(Failure {
            kind: FailureKind::Status,
            detail,
        });
    }
    if let Some(check) = &run.load.check {
        check(&answer).map_err(|detail| Failure {
            kind: FailureKind::Content,
            detail,
        })?;
    }
    let label = run.load.label.as_ref().and_then(|label| label(&answer));
    Ok(Success {
        label,
        body_bytes: answer.body_bytes,
    })
}

/// RFC 9110, section 9.2.2.
fn idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE | Method::TRACE
    )
}
