//! One request of an HTTP/2 connection, and how it is cut short.
//!
//! Pingora looks at a stream only when there is data. Whoever must end one although nothing flows asks
//! for its [`Cut`]: the task that carries the stream ends then, and the client gets RST_STREAM, while
//! others on the same connection go on.
//!
//! It does not look at a stream either whose workspace takes no more of an upload. So one whose whole
//! connection has ended is given [`LEFT`] to end by itself.

use crate::endless;
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long a request may still take whose client is gone.
const LEFT: Duration = Duration::from_secs(60);

tokio::task_local! {
    static CUT: Cut;
}

/// Ends the stream that it belongs to.
#[derive(Debug, Clone, Default)]
pub struct Cut(CancellationToken);

impl Cut {
    /// Ends it.
    pub fn cut(&self) {
        self.0.cancel();
    }
}

/// Of the stream whose task this is called in; `None` elsewhere.
#[must_use]
pub fn current() -> Option<Cut> {
    CUT.try_with(Cut::clone).ok()
}

/// Runs a stream until it is done or cut, or its connection has been `over` for some time; whether it was
/// done.
pub(super) async fn run(stream: impl Future<Output = ()>, over: CancellationToken) -> bool {
    let cut = Cut::default();
    let token = cut.0.clone();
    tokio::select! {
        () = CUT.scope(cut, endless::watched(stream)) => true,
        () = token.cancelled() => {
            // Its request ends here, without the line that it would have had.
            tracing::info!(target: "access", "an HTTP/2 stream was ended whose caller is out");
            false
        }
        () = left(over) => {
            tracing::info!(target: "access", "an HTTP/2 stream was ended whose client is gone");
            false
        }
    }
}

async fn left(over: CancellationToken) {
    over.cancelled().await;
    sleep(LEFT).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_own_is_cut() {
        assert!(current().is_none());
        let over = CancellationToken::new();
        let other = tokio::spawn(run(std::future::pending(), over.clone()));
        let cuts = async {
            let cut = current().unwrap();
            tokio::spawn(async move { cut.cut() });
            std::future::pending::<()>().await;
        };
        assert!(!run(cuts, over.clone()).await);
        assert!(!other.is_finished());
        assert!(run(async {}, over).await);
        other.abort();
    }
}
