//! The pure heart of nogoo9: what keys mean, which pod is routed to, who may do what, and what an
//! upgrade does next.
//!
//! Nothing here waits, calls, logs, reads a clock or rolls dice. Every decision is a function of
//! what was observed and of `now`, so the proxy and the control plane, which never talk about
//! decisions, cannot disagree about them.

pub mod absent;
pub mod access;
pub mod adopt;
pub mod bulk;
pub mod carry;
pub mod claim;
pub mod container;
pub mod id;
pub mod keys;
pub mod label;
pub mod limit;
pub mod mode;
pub mod name;
pub mod operation;
pub mod origins;
pub mod personal_token;
pub mod pod;
pub mod ports;
pub mod probe;
pub mod record;
pub mod renew;
pub mod select;
pub mod template;
pub mod upgrade;
pub mod wire;

/// Seconds since the Unix epoch, by the API server's clock.
///
/// Kubernetes writes its timestamps to the second, so nothing finer would be honest.
pub type UnixSeconds = i64;
