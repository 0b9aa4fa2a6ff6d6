//! Personal access tokens at the edge: control is asked whom one speaks for, and the answer is kept for
//! less than a minute. So one that is revoked is out within a minute, and a busy one costs control
//! little. No key and no list of tokens comes here.

use crate::control::{self, Control, Spoilt};
use moka::sync::Cache;
use nogoo9_identity::{TokenError, Verified};
use nogoo9_model::UnixSeconds;
use nogoo9_model::personal_token::{self, PATH, Proven};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};

/// How long an answer counts. With [`ANSWER`] and [`RECHECK`] this is less than a minute.
const KNOWN: Duration = Duration::from_secs(40);
/// How long it counts while control cannot be asked: control's restarts shall not be noticed.
const GRACE: Duration = Duration::from_secs(600);
/// How long what was just answered counts without looking further, and a refusal at all: long enough
/// that who insists is no burden.
const RECENT: Duration = Duration::from_secs(10);
/// Most answers kept.
const MOST: u64 = 10_000;
/// Most questions at once: a flood of made-up tokens must not become a flood at control.
const QUESTIONS: usize = 64;
/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest wait for an answer, and a place to ask before.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer, in bytes.
const MAX_ANSWER: usize = 16 * 1024;
/// No socket or stream outlives its opening by more, in seconds.
const MAX_AGE: UnixSeconds = 3600;
/// How often it is looked whether the token of an open socket or stream still counts.
const RECHECK: Duration = Duration::from_secs(10);

/// What a token comes to.
pub type Verdict = Result<Arc<Verified>, TokenError>;

/// SHA-256 of a token; tokens themselves are not kept.
type Hash = [u8; 32];

/// Control cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("whether the access token counts cannot be told at the moment")]
pub struct Unreachable;

/// Whom a token speaks for, and since when that is known.
#[derive(Clone)]
struct Known {
    verified: Arc<Verified>,
    since: Instant,
}

/// Asks control, and remembers. Clones share what is remembered.
#[derive(Clone)]
pub struct Personal {
    control: Control,
    client: reqwest::Client,
    known: Cache<Hash, Known>,
    /// Questions under way and just answered: of many requests with the same token one asks.
    recent: Cache<Hash, Arc<OnceCell<Verdict>>>,
    places: Arc<Semaphore>,
    /// [`KNOWN`]; tests have less patience.
    fresh: Duration,
    /// [`RECHECK`].
    recheck: Duration,
}

impl std::fmt::Debug for Personal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Personal").finish_non_exhaustive()
    }
}

impl Personal {
    /// Asks `control`.
    ///
    /// # Errors
    /// No HTTP client can be made.
    pub fn new(control: Control) -> Result<Self, reqwest::Error> {
        let client = Control::client().timeout(ANSWER).build()?;
        Ok(Self {
            control,
            client,
            known: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(GRACE)
                .build(),
            recent: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(RECENT)
                .build(),
            places: Arc::new(Semaphore::new(QUESTIONS)),
            fresh: KNOWN,
            recheck: RECHECK,
        })
    }

    /// Whom the token speaks for at `now`, as far as that is remembered.
    #[must_use]
    pub fn remembered(&self, token: &str, now: UnixSeconds) -> Option<Verdict> {
        if !personal_token::is_token(token) {
            return Some(Err(TokenError::UnknownToken));
        }
        let hash = hash(token);
        let fresh = |known: &Known| known.since.elapsed() < self.fresh;
        let verdict = match self.known.get(&hash).filter(fresh) {
            Some(known) => Ok(known.verified),
            None => self.recent.get(&hash)?.get()?.clone(),
        };
        Some(verdict.and_then(|verified| in_time(verified, now)))
    }

    /// Whom the token speaks for at `now`. Asks control if that is not remembered.
    ///
    /// # Errors
    /// Control gives no answer.
    pub async fn ask(&self, token: &str, now: UnixSeconds) -> Result<Verdict, Unreachable> {
        if let Some(verdict) = self.remembered(token, now) {
            return Ok(verdict);
        }
        let hash = hash(token);
        let question = self.recent.get_with(hash, Arc::default);
        let asking = question.get_or_try_init(|| self.question(token, hash, now));
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(Ok(verdict)) => Ok(verdict.clone().and_then(|verified| in_time(verified, now))),
            Ok(Err(Unreachable)) | Err(_) => Err(Unreachable),
        }
    }

    /// As [`Self::ask`], from a place that is waited for and kept if control has to be asked.
    ///
    /// # Errors
    /// As [`Self::ask`], and no place was found in time.
    pub async fn ask_from<P>(
        &self,
        place: impl Future<Output = P>,
        token: &str,
        now: UnixSeconds,
    ) -> Result<Verdict, Unreachable> {
        if let Some(verdict) = self.remembered(token, now) {
            return Ok(verdict);
        }
        let place = tokio::time::timeout(PATIENCE, place).await;
        let _kept = place.map_err(|_| Unreachable)?;
        self.ask(token, now).await
    }

    /// Returns once the token counts no more. While control cannot be asked it goes on counting, at
    /// most until what it opened ends anyway.
    pub async fn revoked(&self, token: &str, now: impl Fn() -> UnixSeconds) {
        loop {
            tokio::time::sleep(self.recheck).await;
            if let Ok(Err(_)) = self.ask(token, now()).await {
                return;
            }
        }
    }

    async fn question(
        &self,
        token: &str,
        hash: Hash,
        now: UnixSeconds,
    ) -> Result<Verdict, Unreachable> {
        let _place = self.places.acquire().await.map_err(|_| Unreachable)?;
        let since = Instant::now();
        match self.exchange(token).await {
            Ok(Some(proven)) => {
                let verified = Arc::new(Verified {
                    caller: proven.caller,
                    expires: proven.expires.min(now.saturating_add(MAX_AGE)),
                    sid: None,
                    fresh_until: None,
                });
                let known = Known {
                    verified: Arc::clone(&verified),
                    since,
                };
                self.known.insert(hash, known);
                Ok(Ok(verified))
            }
            Ok(None) => {
                self.known.invalidate(&hash);
                Ok(Err(TokenError::UnknownToken))
            }
            Err(reason) => {
                tracing::warn!(reason, "control cannot be asked about an access token");
                let known = self.known.get(&hash).ok_or(Unreachable)?;
                Ok(Ok(known.verified))
            }
        }
    }

    /// Asks; `None`: it does not count.
    async fn exchange(&self, token: &str) -> Result<Option<Proven>, &'static str> {
        let address = self.control.address().ok_or("its address is not known")?;
        let request = self.client.get(format!("http://{address}{PATH}"));
        let response = request
            .bearer_auth(token)
            .send()
            .await
            .map_err(|_| "no answer came")?;
        match response.status().as_u16() {
            200 => {}
            401 => return Ok(None),
            _ => return Err("it cannot tell"),
        }
        let body = control::body(response, MAX_ANSWER).await;
        let body = body.map_err(Spoilt::as_str)?;
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|_| "its answer cannot be read")
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

fn in_time(verified: Arc<Verified>, now: UnixSeconds) -> Verdict {
    if verified.expires <= now {
        Err(TokenError::UnknownToken)
    } else {
        Ok(verified)
    }
}

#[cfg(test)]
mod tests;
