//! Refusals take as long for what is another's as for what is not there.
//!
//! Both cost the same calls, but an object that is there takes longer to be sent and read than one that
//! is not: some 60 µs, which a patient stopwatch finds. So they all leave on a beat that is longer than
//! either takes. What is allowed does not wait.
//!
//! The beat is that of the outermost: a command that looks at what is there before it asks for leave is
//! in here as a whole.

use super::{Answer, ServiceError};
use crate::template::TemplateError;
use nogoo9_model::access::Denied;
use std::time::Duration;
use tokio::time::Instant;

/// Refusals leave at multiples of this after the question came.
const BEAT: Duration = Duration::from_millis(10);

/// Answers, or refuses on the beat. Whatever is awaited in here is on the heap: commands are large.
pub(super) fn evenly<T>(
    answer: impl Future<Output = Answer<T>>,
) -> impl Future<Output = Answer<T>> {
    let answer = Box::pin(answer);
    async move {
        let asked = Instant::now();
        let answer = answer.await;
        if answer.as_ref().is_err_and(is_the_same_for_none) {
            tokio::time::sleep_until(asked + until_the_beat(asked.elapsed())).await;
        }
        answer
    }
}

/// Whether what is another's and what is not there are both refused so.
fn is_the_same_for_none(error: &ServiceError) -> bool {
    matches!(
        error,
        ServiceError::Denied(Denied::AccessDenied)
            | ServiceError::Template(TemplateError::NotFound { .. })
    )
}

/// The first beat after so long.
fn until_the_beat(elapsed: Duration) -> Duration {
    let beats = elapsed.as_micros() / BEAT.as_micros() + 1;
    BEAT.saturating_mul(u32::try_from(beats).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats() {
        for (elapsed, beat) in [(0, 10), (1, 10), (9_999, 10), (10_000, 20), (25_000, 30)] {
            let elapsed = Duration::from_micros(elapsed);
            assert_eq!(until_the_beat(elapsed), Duration::from_millis(beat));
        }
    }

    /// That it waits long enough; how long it takes at most is nobody's promise.
    #[tokio::test]
    async fn what_comes_before_leave_is_asked_for_does_not_show() {
        let before = BEAT / 4;
        let asked = Instant::now();
        let refused = evenly(async {
            tokio::time::sleep(before).await;
            evenly(async { Err::<(), _>(Denied::AccessDenied.into()) }).await
        });
        assert!(refused.await.is_err());
        assert!(asked.elapsed() >= BEAT * 2);
    }

    #[test]
    fn only_refusals_that_must_not_be_told_apart_wait() {
        for (error, waits) in [
            (Denied::AccessDenied.into(), true),
            (TemplateError::not_found("t").into(), true),
            (Denied::UpgradeAll.into(), false),
            (Denied::Role { needed: "user" }.into(), false),
            (ServiceError::Contended, false),
        ] {
            assert_eq!(is_the_same_for_none(&error), waits, "{error:?}");
        }
    }
}
