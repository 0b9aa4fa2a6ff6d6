//! Ends an answer without an end, a stream of events say, or a request whose body pauses, when what opened
//! it is over, although nothing flows. Pingora looks at a stream only when there is data, and has no other
//! way in: so the client's connection is shut down, which ends the request in order. Over HTTP/2, where
//! others share the connection, the stream is cut.

use super::Edge;
use super::context::{Context, Hop, PodHop};
use super::downstream::is_bodiless;
use crate::http2::{self, Cut};
use crate::table::Backend;
use http::header::CONTENT_LENGTH;
use nix::sys::socket::{Shutdown, shutdown};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// What it goes over. Whoever holds it lets go before the connection is closed or used again: the number
/// of a closed one may be another's.
#[derive(Debug)]
enum Over {
    /// A connection of its own.
    Connection(RawFd),
    /// A stream among others.
    Stream(Cut),
}

impl Over {
    fn end(self) {
        match self {
            Self::Connection(connection) => {
                let ended = shutdown(connection, Shutdown::Both);
                tracing::debug!(?ended, "a stream was ended whose caller is out");
            }
            Self::Stream(cut) => {
                cut.cut();
                tracing::debug!("an HTTP/2 stream was ended whose caller is out");
            }
        }
    }
}

/// It, while it is watched.
#[derive(Debug)]
pub(super) struct Line {
    open: Arc<Mutex<Option<Over>>>,
    _watch: AbortOnDropHandle<()>,
}

impl Line {
    /// Ends it once `over` returns.
    fn watched(on: Over, over: impl Future<Output = ()> + Send + 'static) -> Self {
        let open = Arc::new(Mutex::new(Some(on)));
        let cut = Arc::clone(&open);
        let watch = tokio::spawn(async move {
            over.await;
            // Held while it is shut down, so that nobody lets go, and closes it, meanwhile.
            let mut open = cut.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(open) = open.take() {
                open.end();
            }
        });
        Self {
            open,
            _watch: AbortOnDropHandle::new(watch),
        }
    }

    /// From now on the connection is left alone.
    pub(super) fn let_go(&self) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Edge {
    /// Has an answer without an end ended with what opened it.
    pub(super) fn watch(&self, session: &Session, response: &ResponseHeader, ctx: &mut Context) {
        let Hop::Pod(hop) = &mut ctx.hop else { return };
        if !is_endless(session.req_header(), response) {
            return;
        }
        let pod = hop.current.as_ref().map(|(pod, _)| pod.clone());
        hop.line = self.line(session, hop, pod);
    }

    /// Has a request ended with what it was let in by, while its body is still to come: it may pause for as
    /// long as it likes, and until then it has one of the places in its workspace.
    pub(super) fn watch_body(&self, session: &mut Session, ctx: &mut Context) {
        let Hop::Pod(hop) = &mut ctx.hop else { return };
        if session.as_downstream_mut().is_body_empty() {
            return;
        }
        let pod = hop.next.as_ref().map(|(pod, _)| pod.clone());
        hop.body_line = self.line(session, hop, pod);
    }

    fn line(&self, session: &Session, hop: &PodHop, pod: Option<Arc<Backend>>) -> Option<Line> {
        let on = match session.as_downstream() {
            ServerSession::H1(client) => Over::Connection(client.stream().id()),
            _ => Over::Stream(http2::current()?),
        };
        let request = session.req_header();
        let lost = self.over(request, &hop.opened, pod);
        let revoked = self.revoked(request);
        let (clock, expires) = (self.clock.clone(), hop.expires);
        let over = async move {
            tokio::select! {
                () = clock.sleep_until(expires) => {}
                () = lost => {}
                () = revoked => {}
            }
        };
        Some(Line::watched(on, over))
    }
}

/// Whether nobody can tell from the head of an answer where it ends.
pub(super) fn is_endless(request: &RequestHeader, response: &ResponseHeader) -> bool {
    !is_bodiless(request, response) && !response.headers.contains_key(CONTENT_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use tokio::sync::oneshot;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[tokio::test]
    async fn it_is_shut_down_when_it_is_over_and_left_alone_after_that() {
        use std::io::{Read as _, Write as _};
        let (mut client, mut served) = pair();
        let (over, is_over) = oneshot::channel::<()>();
        let mut line = Line::watched(Over::Connection(served.as_raw_fd()), async move {
            let _ = is_over.await;
        });
        line.let_go();
        over.send(()).unwrap();
        (&mut line._watch).await.unwrap();
        served.write_all(b"still here").unwrap();
        let mut heard = [0; 10];
        client.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"still here");

        let mut line = Line::watched(Over::Connection(served.as_raw_fd()), std::future::ready(()));
        (&mut line._watch).await.unwrap();
        assert_eq!(client.read(&mut heard).unwrap(), 0);
        assert!(served.write_all(b"too late").is_err());
    }

    #[test]
    fn answers_without_an_end() {
        let head = |status: u16, length: Option<&str>| {
            let mut head = ResponseHeader::build(status, None).unwrap();
            if let Some(length) = length {
                head.insert_header("content-length", length).unwrap();
            }
            head
        };
        for (method, head, wanted) in [
            ("GET", head(200, None), true),
            ("POST", head(500, None), true),
            ("GET", head(200, Some("5")), false),
            ("HEAD", head(200, None), false),
            ("GET", head(204, None), false),
            ("GET", head(304, None), false),
            ("GET", head(103, None), false),
        ] {
            let request = RequestHeader::build(method, b"/", None).unwrap();
            assert_eq!(is_endless(&request, &head), wanted, "{method} {head:?}");
        }
    }
}
