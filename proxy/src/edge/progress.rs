//! The waiting page's stream of events: how things stand with a workspace, told as it changes, until it
//! is there.

use super::Edge;
use super::absent::gone;
use super::context::Context;
use crate::ask::{ANSWER, AskError};
use crate::gate::{Asked, Opened};
use crate::headers::let_read_ours;
use crate::hold::{Full, PAGE_AFTER, Place, Woken, wait_for};
use crate::reply::{Html, Reply, Told};
use crate::table::{Route, Status};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};
use pingora::proxy::Session;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// How long one stream lasts. A browser opens the next one by itself, and is looked at anew then: so
/// none outlives its session, or the leave to open its workspace, by more than this.
const LIFE: Duration = Duration::from_secs(60);
/// How often it looks whether the workspace is another, or control says otherwise.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a pod may take to take a connection.
const LOOK_FOR: Duration = Duration::from_secs(1);
/// Something is sent at least so often: what is in between drops silent connections.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// What browsers are told to wait before they open the next one, and to begin with.
const FIRST: &[u8] = b"retry: 1000\n\n";
/// A comment, which browsers leave out.
const STILL_HERE: &[u8] = b":\n\n";

/// What a stream follows.
enum Seen {
    /// A workspace of the table.
    Here(Opened, Arc<Route>),
    /// One that control knows of.
    Absent,
}

impl Edge {
    /// Answers with a stream of events. There are few for each person and workspace, however many
    /// sessions they have, so that their pages leave the browser connections for other things; whoever
    /// gets none asks from time to time.
    pub(super) async fn progress(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        asked: &Asked,
    ) -> pingora::Result<bool> {
        let (told, mut seen) = match self.stands(session, ctx, asked).await {
            Ok(stands) => stands,
            Err(Untold::Asked(error)) => {
                let reply = self.not_told(&error, session.req_header(), ctx, asked);
                return self.reply(session, ctx, &reply).await;
            }
            Err(Untold::ClientGone) => return Ok(gone(session, ctx)),
            Err(Untold::Stopping) => {
                return self.reply(session, ctx, &Reply::stopping(asked.html)).await;
            }
        };
        let bodiless = session.req_header().method == Method::HEAD;
        let Ok(_place) = self.stream_place(asked) else {
            let full = "Too many pages follow this workspace already; ask for its status.";
            return self
                .reply(session, ctx, &Reply::unavailable(Html::No, full))
                .await;
        };
        let mut head = Reply::empty()
            .with(CONTENT_TYPE.as_str(), "text/event-stream")
            .with("x-accel-buffering", "no")
            .endless_head()?;
        self.secure_transport(&mut head)?;
        if let Some(origin) = self.gate.reader_of_ours(session.req_header()) {
            let_read_ours(&mut head, origin)?;
        }
        match session.req_header().version {
            _ if bodiless => {}
            Version::HTTP_11 => head.insert_header(TRANSFER_ENCODING, "chunked")?,
            Version::HTTP_2 => {}
            _ => session.set_keepalive(None),
        }
        ctx.status = StatusCode::OK.as_u16();
        session.write_response_header(head, bodiless).await?;
        if bodiless {
            return Ok(true);
        }
        let mut last = told.clone();
        let mut sent = Instant::now();
        let until = sent + LIFE;
        let begin = [FIRST, &told.event()].concat();
        session
            .write_response_body(Some(Bytes::from(begin)), false)
            .await?;
        // Whether a workspace came that is none for whoever asks: it would come again at once.
        let mut came = false;
        while !last.is_final() && Instant::now() < until {
            let stopping = self.stopping.cancelled();
            let look = (Instant::now() + LOOK_EVERY).min(until);
            let client = session.as_downstream_mut();
            let never = std::future::pending::<()>();
            let woken = match &seen {
                Seen::Here(opened, route) => {
                    let changed = opened.workspace.changed_from(route);
                    wait_for(client, changed, never, stopping, look).await
                }
                Seen::Absent => {
                    let arrival = async {
                        if came {
                            std::future::pending::<()>().await;
                        }
                        self.gate.table.arrival(&asked.id).await
                    };
                    wait_for(client, arrival, never, stopping, look).await
                }
            };
            // Of what is away, control may say something else by now, and what is ready may answer.
            let looked_at = |status: &Status| matches!(status, Status::Away | Status::Serving);
            let unchanged = matches!(&seen, Seen::Here(_, route) if !looked_at(&route.status))
                && woken == Woken::TimedOut;
            let mut say = None;
            if woken == Woken::ClientGone {
                return Ok(gone(session, ctx));
            } else if woken == Woken::Stopping {
                break;
            } else if !unchanged {
                // Whoever may not know any more hears nothing more.
                let (told, now) = match self.stands(session, ctx, asked).await {
                    Ok(stands) => stands,
                    Err(Untold::ClientGone) => return Ok(gone(session, ctx)),
                    Err(Untold::Asked(_) | Untold::Stopping) => break,
                };
                seen = now;
                came |= woken == Woken::Changed;
                came &= matches!(seen, Seen::Absent);
                if told != last {
                    say = Some(told.event());
                    last = told;
                }
            }
            if say.is_none() && sent.elapsed() >= HEARTBEAT {
                say = Some(Bytes::from_static(STILL_HERE));
            }
            if say.is_some() {
                session.write_response_body(say, false).await?;
                sent = Instant::now();
            }
        }
        session.write_response_body(None, true).await?;
        Ok(true)
    }

    fn stream_place(&self, asked: &Asked) -> Result<Place, Full> {
        let key: Arc<str> = Arc::from(format!("{} {}", asked.id, asked.caller.caller.sub));
        self.streams.take_absent(&key, 0)
    }

    /// How things stand at this moment, to the caller. Control may be silent: of what is here the table
    /// tells then, and a pod that comes is told at once.
    async fn stands(
        &self,
        session: &mut Session,
        ctx: &Context,
        asked: &Asked,
    ) -> Result<(Told, Seen), Untold> {
        loop {
            let here = self.gate.admit(asked).map(|opened| {
                let route = opened.workspace.route();
                (opened, route)
            });
            let now = Instant::now();
            let here = match here {
                Some((opened, route)) if route.status != Status::Away => {
                    let told = stands(&opened, &route).await;
                    return Ok((told, Seen::Here(opened, route)));
                }
                here => here,
            };
            let woken = match &here {
                // Its last pod is going: whether one comes, control knows.
                Some((opened, route)) => {
                    let changed = opened.workspace.changed_from(route);
                    self.told_or(session, ctx, asked, changed, now + PAGE_AFTER)
                        .await
                }
                None => {
                    let arrival = async {
                        // What is there and not theirs does not arrive.
                        if self.gate.table.get(&asked.id).is_some() {
                            std::future::pending::<()>().await;
                        }
                        self.gate.table.arrival(&asked.id).await;
                    };
                    self.told_or(session, ctx, asked, arrival, now + ANSWER)
                        .await
                }
            };
            let told = match woken {
                Woken::Changed => continue,
                Woken::ClientGone => return Err(Untold::ClientGone),
                Woken::Stopping => return Err(Untold::Stopping),
                Woken::Told(told) => told,
                Woken::TimedOut => Err(AskError::Unreachable("it took too long")),
            };
            return match (told, here) {
                (Ok(told), Some((opened, route))) => {
                    Ok((Told::from(&told), Seen::Here(opened, route)))
                }
                (Ok(told), None) => Ok((Told::from(&told), Seen::Absent)),
                (Err(AskError::Unreachable(_) | AskError::Refused(_)), Some((opened, route))) => {
                    Ok((opened.told(&route), Seen::Here(opened, route)))
                }
                (Err(error), _) => Err(Untold::Asked(error)),
            };
        }
    }
}

/// Why it is not told how things stand.
enum Untold {
    /// Control says so.
    Asked(AskError),
    /// Nobody waits for it.
    ClientGone,
    /// This proxy stops.
    Stopping,
}

/// How things stand with one that has a pod, or one on its way, as the table knows and its pod shows.
pub(super) async fn stands(opened: &Opened, route: &Route) -> Told {
    if route.status == Status::Serving && !takes_connections(opened, route).await {
        return opened.told_silent(route);
    }
    opened.told(route)
}

/// Whether a pod takes connections that requests may go to: a page that is told that it serves loads what
/// was asked for at once, and would be here again.
async fn takes_connections(opened: &Opened, route: &Route) -> bool {
    let pods = route.active().into_iter().chain(route.spare());
    for address in pods.filter_map(|pod| opened.address(pod)) {
        let connected = timeout(LOOK_FOR, TcpStream::connect(address)).await;
        if matches!(connected, Ok(Ok(_))) {
            return true;
        }
    }
    false
}
