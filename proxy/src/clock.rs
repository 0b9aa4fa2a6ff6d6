//! The time that tokens and sessions are judged by: the system's, or, in tests of half a day, one
//! that is moved by hand.

use nogoo9_model::UnixSeconds;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Tells the time. Clones tell the same.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Hand(watch::Receiver<UnixSeconds>),
}

/// Moves a clock by hand. The clock stands still once this is gone.
#[derive(Debug, Clone)]
pub struct Hand(Arc<watch::Sender<UnixSeconds>>);

impl Clock {
    /// The system's.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// One that stands at `start`, and moves with its hand only.
    #[must_use]
    pub fn by_hand(start: UnixSeconds) -> (Self, Hand) {
        let (hand, time) = watch::channel(start);
        (Self(Source::Hand(time)), Hand(Arc::new(hand)))
    }

    /// Seconds since 1970.
    #[must_use]
    pub fn now(&self) -> UnixSeconds {
        match &self.0 {
            Source::System => SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .ok()
                .and_then(|since| UnixSeconds::try_from(since.as_secs()).ok())
                .unwrap_or(0),
            Source::Hand(time) => *time.borrow(),
        }
    }

    /// How long it is until then; nothing, if it is over.
    #[must_use]
    pub fn until(&self, then: UnixSeconds) -> Duration {
        let left = then.saturating_sub(self.now());
        Duration::from_secs(u64::try_from(left).unwrap_or(0))
    }

    /// Returns once it is then.
    pub async fn sleep_until(&self, then: UnixSeconds) {
        match &self.0 {
            Source::System => tokio::time::sleep(self.until(then)).await,
            Source::Hand(time) => {
                let mut time = time.clone();
                if time.wait_for(|now| *now >= then).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

impl Hand {
    /// Lets so many seconds pass.
    pub fn pass(&self, seconds: UnixSeconds) {
        self.0.send_modify(|now| *now = now.saturating_add(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn moved_by_hand_it_wakes_whoever_it_is_time_for() {
        let (clock, hand) = Clock::by_hand(1000);
        assert_eq!(
            (clock.now(), clock.until(1060)),
            (1000, Duration::from_secs(60))
        );
        assert_eq!(clock.until(900), Duration::ZERO);
        clock.sleep_until(1000).await;
        let mut sleeping = Box::pin(clock.sleep_until(1060));
        hand.pass(59);
        assert!(futures::poll!(&mut sleeping).is_pending());
        hand.pass(1);
        sleeping.await;
        assert_eq!(clock.clone().now(), 1060);
    }

    #[test]
    fn the_systems_is_not_of_the_past() {
        assert!(Clock::system().now() > 1_700_000_000);
    }
}
