//! A schedule: a scenario, the call that is struck if it is a certain one, and the seed that every
//! other choice comes from. Written `scenario/strike/seed`, such as `recreate/17:reply-lost/0` or
//! `beside/-/4711`.

use crate::scenario::ALL;
use std::fmt;
use std::str::FromStr;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed before the call arrives.
    CrashBefore,
    /// It is killed after the call took effect and before it has the answer.
    CrashReplyLost,
    /// It is killed as soon as it has the answer.
    CrashAfter,
    /// It is killed, and the call takes effect up to a minute later.
    CrashLate,
    /// The connection breaks before the call arrives.
    Lost,
    /// The connection breaks after the call took effect.
    ReplyLost,
    /// The API server answers so, without doing anything.
    Status(u16),
    /// The API server does it, and a gateway answers 504.
    Gateway,
}

/// Those that every call of every scenario is struck by, each alone.
pub(crate) const KILLS: [Fault; 3] = [Fault::CrashBefore, Fault::CrashReplyLost, Fault::CrashAfter];
/// Those that strike at random.
pub(crate) const FAULTS: [Fault; 12] = [
    Fault::CrashBefore,
    Fault::CrashReplyLost,
    Fault::CrashAfter,
    Fault::CrashLate,
    Fault::Lost,
    Fault::ReplyLost,
    Fault::Status(409),
    Fault::Status(429),
    Fault::Status(500),
    Fault::Status(503),
    Fault::Status(504),
    Fault::Gateway,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Place in [`ALL`].
    pub(crate) scenario: usize,
    /// Which call, from 1; `None`: faults strike at random.
    pub(crate) strike: Option<(usize, Fault)>,
    pub(crate) seed: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore => f.write_str("crash-before"),
            Self::CrashReplyLost => f.write_str("crash-reply-lost"),
            Self::CrashAfter => f.write_str("crash-after"),
            Self::CrashLate => f.write_str("crash-late"),
            Self::Lost => f.write_str("lost"),
            Self::ReplyLost => f.write_str("reply-lost"),
            Self::Status(code) => write!(f, "{code}"),
            Self::Gateway => f.write_str("gateway"),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", ALL[self.scenario].name)?;
        match self.strike {
            Some((call, fault)) => write!(f, "{call}:{fault}")?,
            None => f.write_str("-")?,
        }
        write!(f, "/{}", self.seed)
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("'{text}' is no schedule: write scenario/strike/seed");
        let parts: Vec<&str> = text.split('/').collect();
        let [scenario, strike, seed] = parts.as_slice() else {
            return Err(odd());
        };
        let fault = |name: &str| FAULTS.into_iter().find(|fault| fault.to_string() == name);
        let strike = match strike.split_once(':') {
            Some((call, name)) => Some((
                call.parse().map_err(|_| odd())?,
                fault(name).ok_or_else(odd)?,
            )),
            None => None,
        };
        Ok(Self {
            scenario: ALL
                .iter()
                .position(|known| known.name == *scenario)
                .ok_or_else(odd)?,
            strike,
            seed: seed.parse().map_err(|_| odd())?,
        })
    }
}
