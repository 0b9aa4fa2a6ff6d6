//! WebSockets, relayed by us.
//!
//! Pingora's own upgrade path loses a socket now and then when the 101 arrives early, keeps four
//! times the memory for an idle socket, and cannot end one with a reason. So: the handshake with the
//! pod is made while Pingora still holds the client's connection ([`handshake`]), then the connection
//! is taken out of Pingora and both sides are relayed byte for byte ([`relay`]), counting frames only
//! to know where a Close may be put in ([`frames`]). A pod that refuses is heard to the end
//! ([`refusal`]), and what is no proper request for a WebSocket never reaches one ([`request`]).

pub mod closing;
pub mod frames;
pub mod handshake;
pub mod refusal;
pub mod relay;
pub mod request;
