//! Waiting for a condition, never for a time.

use anyhow::bail;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often conditions are looked at.
const LOOK: Duration = Duration::from_millis(40);
/// Longest look where what would give the answer may be dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a look at a condition has shown.
#[derive(Debug)]
pub enum Observation<T> {
    /// It holds.
    Holds(T),
    /// It does not hold yet; the text says what was seen instead.
    NotYet(String),
}

impl<T> Observation<T> {
    /// [`Self::Holds`] if `holds`, else what was seen.
    pub fn when(holds: bool, value: T, seen: impl std::fmt::Debug) -> Self {
        if holds {
            Self::Holds(value)
        } else {
            Self::NotYet(format!("{seen:?}"))
        }
    }
}

/// Looks until the condition holds. An error ends the wait at once: a condition that can only be
/// read through something that may be away says [`Observation::NotYet`] for that.
///
/// # Errors
/// It does not hold within `within`: says what was waited for and what was seen last.
pub async fn until<T, F>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Observation<T>>>,
{
    let deadline = Instant::now() + within;
    loop {
        let seen = match look().await? {
            Observation::Holds(value) => return Ok(value),
            Observation::NotYet(seen) => seen,
        };
        if Instant::now() >= deadline {
            bail!("waited {within:?} for {what}; last seen: {seen}");
        }
        sleep(LOOK).await;
    }
}

/// [`until`] while something is broken on purpose: not getting to look is only not knowing yet.
///
/// # Errors
/// It does not hold within `within`: says what was waited for and what was seen last.
pub async fn patiently<T, F>(
    what: &str,
    within: Duration,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Observation<T>>>,
{
    until(what, within, || {
        let look = tokio::time::timeout(PATIENCE, look());
        async {
            Ok(match look.await {
                Ok(Ok(seen)) => seen,
                Ok(Err(error)) => Observation::NotYet(format!("{error:#}")),
                Err(_) => Observation::NotYet(format!("no answer within {PATIENCE:?}")),
            })
        }
    })
    .await
}
