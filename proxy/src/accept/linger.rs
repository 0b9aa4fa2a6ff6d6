//! The end of a connection whose client may still be sending.
//!
//! A socket that is closed with something unread in it is reset, and a client that is reset may lose what
//! it has not read yet: the answer that told it not to go on. So it is told that nothing follows, and
//! what it sends is read and dropped until it closes, or for [`LINGER`] (RFC 9112, section 9.6).

use super::count::Admitted;
use super::wire::Wire;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt as _, BufWriter, ReadBuf};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// How long such a client is read from.
pub(super) const LINGER: Duration = Duration::from_secs(2);
/// Most connections that end so at once; one more is closed as it is.
const MOST: usize = 1000;
/// What is dropped at once, in bytes.
const CHUNK: usize = 4096;

/// Where connections end. Clones share their tasks.
#[derive(Debug, Clone)]
pub struct Lingering {
    tasks: TaskTracker,
    places: Arc<Semaphore>,
}

impl Lingering {
    /// Such connections count among these tasks.
    #[must_use]
    pub fn new(tasks: TaskTracker) -> Self {
        Self {
            tasks,
            places: Arc::new(Semaphore::new(MOST)),
        }
    }

    /// Ends a connection, which counts as open until then.
    pub(super) fn end(&self, mut wire: BufWriter<Wire>, admitted: Option<Admitted>) {
        let (Ok(runtime), Ok(place)) = (
            Handle::try_current(),
            self.places.clone().try_acquire_owned(),
        ) else {
            return;
        };
        let ending = async move {
            // An error: it is gone.
            let _ = tokio::time::timeout(LINGER, out(&mut wire)).await;
            drop((wire, admitted, place));
        };
        self.tasks.spawn_on(ending, &runtime);
    }
}

/// Says that nothing follows, and reads and drops what comes until the client closes.
///
/// # Errors
/// The connection broke.
pub(super) async fn out(wire: &mut BufWriter<Wire>) -> io::Result<()> {
    // Where TLS is, this also says that nothing is cut off.
    wire.shutdown().await?;
    while poll_fn(|cx| poll_drop(wire, cx)).await? > 0 {}
    Ok(())
}

/// Reads what is there, and drops it: into the stack, since each connection's task has room for all that
/// it may come to.
fn poll_drop(wire: &mut BufWriter<Wire>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    let mut dropped = [MaybeUninit::uninit(); CHUNK];
    let mut dropped = ReadBuf::uninit(&mut dropped);
    ready!(Pin::new(wire).poll_read(cx, &mut dropped))?;
    Poll::Ready(Ok(dropped.filled().len()))
}
