//! Closing the sockets of a proxy that stops, spread over a while.

use crate::sessions::{End, OpenSocket};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Ends them one by one, evenly over `window`. Whoever drops this has the rest left open; to end them
/// all at once, see [`close_now`].
pub async fn close_over(sockets: &[OpenSocket], window: Duration) {
    let start = Instant::now();
    for (nth, socket) in sockets.iter().enumerate() {
        sleep_until(start + after(nth, sockets.len(), window)).await;
        socket.end(End::Shutdown);
    }
}

/// Ends those that are still open.
pub fn close_now(sockets: &[OpenSocket]) {
    for socket in sockets {
        socket.end(End::Shutdown);
    }
}

/// When the `nth` of `total` is due.
fn after(nth: usize, total: usize, window: Duration) -> Duration {
    if total == 0 {
        return Duration::ZERO;
    }
    window.mul_f64(nth as f64 / total as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::{Entered, Kind, Sessions};
    use std::sync::Arc;

    #[test]
    fn evenly_and_within_the_window() {
        let window = Duration::from_secs(10);
        let all: Vec<Duration> = (0..5).map(|nth| after(nth, 5, window)).collect();
        let expected: Vec<Duration> = (0..5).map(|nth| Duration::from_secs(2 * nth)).collect();
        assert_eq!(all, expected);
        assert_eq!(after(0, 0, window), Duration::ZERO);
        assert_eq!(after(99_999, 100_000, Duration::ZERO), Duration::ZERO);
        assert!(after(99_999, 100_000, window) < window);
    }

    #[tokio::test(start_paused = true)]
    async fn one_by_one() {
        let sessions = Sessions::new();
        let (dev, pod): (Arc<str>, Arc<str>) = (Arc::from("dev"), Arc::from("pod"));
        let all: Vec<Entered> = (0..4)
            .map(|_| sessions.enter(&dev, &pod, Kind::Socket))
            .collect();
        let open = sessions.stop();
        let closing = tokio::spawn({
            let open = open.clone();
            async move { close_over(&open, Duration::from_secs(8)).await }
        });
        for (nth, socket) in all.iter().enumerate() {
            let start = Instant::now();
            assert_eq!(socket.ended().await, End::Shutdown);
            let waited = if nth == 0 { 0 } else { 2 };
            // The clock is a paused one: it moves to whatever is due next.
            assert_eq!(start.elapsed(), Duration::from_secs(waited));
            assert_eq!(ended(&open), nth + 1);
        }
        closing.await.unwrap();
    }

    fn ended(sockets: &[OpenSocket]) -> usize {
        sockets.iter().filter(|socket| socket.is_ending()).count()
    }
}
