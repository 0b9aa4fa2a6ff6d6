//! Requests that one reader takes for this and another for that, and what becomes of each.

mod bodies;
mod heads;

/// What becomes of a request.
#[derive(Debug, Clone)]
pub(super) enum Fate {
    /// The client gets that status, the connection ends, the pod sees nothing.
    Refused(u16),
    /// The pod gets a request of that line, with those lines among it and that body as it is on the
    /// wire, and then the last one.
    Served(&'static str, &'static str, &'static str),
    /// As that, and nothing behind it counts: its end might be another to others.
    Alone(&'static str, &'static str, &'static str),
    /// As far as it makes sense the pod gets it, and never an end of it; the client gets 400.
    Broken,
    /// Not to the pod, but to be answered: that status, and the last one is served.
    Answered(u16),
}

/// A request, in which `{in}` stands for the lines that let it in and `{host}` for its host; and what
/// becomes of it.
pub(super) type Attack = (&'static str, Fate);

pub(super) const ATTACKS: [&[Attack]; 2] = [bodies::ATTACKS, heads::ATTACKS];
