//! The embedded API server, through kube-rs, kubectl and plain HTTPS.

mod clients;
mod kubectl;
mod support;
mod watching;
