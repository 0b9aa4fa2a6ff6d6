//! What is known of a session, and what follows from it. Pure: `now` is an argument.

use nogoo9_identity::session::{Freshness, RENEW_AHEAD, freshness};
use nogoo9_model::UnixSeconds;
use nogoo9_model::renew::Answer;
use std::sync::Arc;

/// Least time from one answer about a session to the next question that a request waits for, in
/// seconds.
const ASK_GAP: UnixSeconds = 10;
/// Likewise, to the next one in passing: while the provider is away, tokens are short, and every
/// session is due all the time.
const PASSING_GAP: UnixSeconds = 30;
/// After which a flight that never ended counts as lost, in seconds.
const LOST: UnixSeconds = 20;
/// How long after a question without an answer nobody waits for the next one, in seconds: a control
/// that takes everything and says nothing would hold up each request for as long as a flight may take.
const AWAY: UnixSeconds = 5 * 60;

/// What is known of a session on one host.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Its newest token.
    pub(super) token: Arc<str>,
    /// Until when that counts by itself.
    pub(super) fresh_until: UnixSeconds,
    /// When the session ends.
    pub(super) ends: UnixSeconds,
    /// Whether control has said that it is over; that is final.
    pub(super) refused: bool,
    /// Since when control is being asked.
    asking: Option<UnixSeconds>,
    /// When it last was, and said something or nothing.
    asked: Option<UnixSeconds>,
    /// Whether that was nothing, or that it cannot tell.
    unanswered: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on.
    Accept {
        /// Whether it is time to ask control in passing.
        ask: bool,
    },
    /// Control decides.
    AskFirst {
        /// Whether it is still to be asked: somebody else may have.
        ask: bool,
    },
    /// It goes on, since control cannot be reached.
    Grace {
        /// Whether it is time to try again, in passing.
        ask: bool,
    },
    /// The session is over.
    Refuse,
    /// Nobody can tell, and the grace is over.
    Unknown,
}

impl Verdict {
    /// Whether it goes on by the grace.
    pub(super) fn is_grace(self) -> bool {
        matches!(self, Self::Grace { .. })
    }

    /// Whether control is to be asked now.
    pub(super) fn asks(self) -> bool {
        matches!(
            self,
            Self::Accept { ask: true } | Self::AskFirst { ask: true } | Self::Grace { ask: true }
        )
    }
}

/// What becomes of a request whose token is fresh until `held`.
pub(super) fn verdict(
    held: UnixSeconds,
    known: &Known,
    now: UnixSeconds,
    grace: UnixSeconds,
) -> Verdict {
    if known.refused || now >= known.ends {
        return Verdict::Refuse;
    }
    let asking = known.is_asking(now);
    let ask = |gap| !asking && !known.was_asked_within(gap, now);
    let settled = known.settled(held, now, grace);
    match freshness(Some(held.max(known.fresh_until)), now) {
        Freshness::Fresh => Verdict::Accept { ask: false },
        Freshness::Due => Verdict::Accept {
            ask: ask(PASSING_GAP),
        },
        Freshness::Stale if settled.is_grace() && known.is_away(now) => {
            Verdict::Grace { ask: ask(ASK_GAP) }
        }
        Freshness::Stale if asking => Verdict::AskFirst { ask: false },
        Freshness::Stale if ask(ASK_GAP) => Verdict::AskFirst { ask: true },
        Freshness::Stale => settled,
    }
}

impl Known {
    /// A session of which there is a token.
    pub(super) fn of(token: &str, fresh_until: UnixSeconds, ends: UnixSeconds) -> Self {
        Self {
            token: token.into(),
            fresh_until,
            ends,
            refused: false,
            asking: None,
            asked: None,
            unanswered: false,
        }
    }

    /// Another token.
    pub(super) fn hold(&mut self, token: &str, fresh_until: UnixSeconds, ends: UnixSeconds) {
        self.token = token.into();
        self.fresh_until = fresh_until;
        self.ends = ends;
    }

    /// Whether control is being asked.
    pub(super) fn is_asking(&self, now: UnixSeconds) -> bool {
        self.asking
            .is_some_and(|since| now < since.saturating_add(LOST))
    }

    fn was_asked_within(&self, gap: UnixSeconds, now: UnixSeconds) -> bool {
        self.asked
            .is_some_and(|at| now >= at && now < at.saturating_add(gap))
    }

    /// Whether control had no answer a moment ago.
    fn is_away(&self, now: UnixSeconds) -> bool {
        self.unanswered && self.was_asked_within(AWAY, now)
    }

    /// Whether whoever calls this is the one who asks.
    pub(super) fn begin(&mut self, now: UnixSeconds) -> bool {
        let mine = !self.is_asking(now) && !self.refused;
        if mine {
            self.asking = Some(now);
        }
        mine
    }

    /// Takes what control said; `None`: it could not be asked.
    pub(super) fn end(&mut self, answer: Option<Answer>, now: UnixSeconds) {
        self.asking = None;
        self.asked = Some(now);
        self.unanswered = matches!(answer, None | Some(Answer::Unknown | Answer::Other));
        match answer {
            Some(Answer::Renewed {
                token,
                fresh_until,
                ends,
            }) if fresh_until >= self.fresh_until => self.hold(&token, fresh_until, ends),
            Some(Answer::Refused) => self.refused = true,
            Some(Answer::Renewed { .. } | Answer::Unknown | Answer::Other) | None => {}
        }
    }

    /// What becomes of a request once control has been asked.
    pub(super) fn settled(
        &self,
        held: UnixSeconds,
        now: UnixSeconds,
        grace: UnixSeconds,
    ) -> Verdict {
        let until = held.max(self.fresh_until);
        if self.refused || now >= self.ends {
            Verdict::Refuse
        } else if now < until {
            Verdict::Accept { ask: false }
        } else if now < until.saturating_add(grace) {
            Verdict::Grace { ask: false }
        } else {
            Verdict::Unknown
        }
    }

    /// When there is something to be done next about an open socket, unless there is an answer before.
    pub(super) fn look_again(&self, now: UnixSeconds) -> UnixSeconds {
        let due = self.fresh_until.saturating_sub(RENEW_AHEAD);
        due.min(self.ends).max(now.saturating_add(ASK_GAP))
    }
}

#[cfg(test)]
mod tests;
