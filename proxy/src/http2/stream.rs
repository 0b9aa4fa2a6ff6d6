//! One request of an HTTP/2 connection, and how it is cut short.
//!
//! Pingora looks at a stream only when there is data. Whoever must end one although nothing flows asks
//! for its [`Cut`]: the task that carries the stream ends then, and the client gets RST_STREAM, while
//! others on the same connection go on.

use tokio_util::sync::CancellationToken;

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

/// Runs a stream until it is done or cut; whether it was done.
pub(super) async fn run(stream: impl Future<Output = ()>) -> bool {
    let cut = Cut::default();
    let token = cut.0.clone();
    tokio::select! {
        () = CUT.scope(cut, stream) => true,
        () = token.cancelled() => {
            // Its request ends here, without the line that it would have had.
            tracing::info!(target: "access", "an HTTP/2 stream was ended whose caller is out");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_its_own_is_cut() {
        assert!(current().is_none());
        let other = tokio::spawn(run(std::future::pending()));
        let done = run(async {
            let cut = current().unwrap();
            tokio::spawn(async move { cut.cut() });
            std::future::pending::<()>().await;
        });
        assert!(!done.await);
        assert!(!other.is_finished());
        assert!(run(async {}).await);
        other.abort();
    }
}
