//! What unit tests of several rooms set up alike.

use crate::accept::head::Bounds;
use crate::http2::{self, meter::Rates};
use crate::table::Backend;
use pingora::apps::{HttpServerApp, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::server::ShutdownWatch;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

pub(crate) const BOUNDS: Bounds = Bounds {
    target: 100,
    section: 1000,
    fields: 10,
};

/// Limits of one HTTP/2 connection, whose client is never asked whether it is there.
pub(crate) fn http2_limits(idle: Duration) -> http2::Limits {
    http2::Limits {
        streams: 10,
        bounds: BOUNDS,
        rates: Rates {
            resets: 10,
            control: 10,
        },
        idle,
        ping: Duration::ZERO,
        window: 65_535,
        shared: false,
    }
}

/// A pod that serves at an address where nobody is.
pub(crate) fn pod(uid: &str) -> Backend {
    Backend {
        uid: Arc::from(uid),
        name: uid.to_owned(),
        address: "127.0.0.1:1".parse().unwrap(),
        ports: Default::default(),
        pool: 0,
        strip_prefix: true,
        identity_headers: true,
        affinity: false,
        candidate: false,
        http2: false,
    }
}

/// What becomes of requests that wait for ever, and do not look at their clients.
pub(crate) struct Stuck(mpsc::UnboundedSender<&'static str>);

impl Stuck {
    /// With what it says: that a request has begun, and that it has ended.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<&'static str>) {
        let (said, says) = mpsc::unbounded_channel();
        (Self(said), says)
    }
}

/// Says so when a request has ended.
struct Ends(mpsc::UnboundedSender<&'static str>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send("ended");
    }
}

#[async_trait::async_trait]
impl HttpServerApp for Stuck {
    async fn process_new_http(
        self: &Arc<Self>,
        _session: ServerSession,
        _: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        let _ends = Ends(self.0.clone());
        let _ = self.0.send("begun");
        std::future::pending().await
    }
}
