//! Browser sessions: what is kept of each, and how long it lasts. The login module begins and renews
//! them, the service lists and ends them, and [`sweep`] clears away those that are over.

mod end;
mod record;
mod sweep;

pub use end::end;
pub use record::{
    CHECK_EVERY, CLAIM_FOR, Limits, MOST, Refusal, Roles, SessionRecord, Step, surplus,
};
pub use sweep::sweep;
