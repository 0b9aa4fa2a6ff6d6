//! Who is calling: from the bytes of a request to a verified [`Caller`](nogoo9_model::access::Caller).
//!
//! Proxy and control share every rule on this side of the access rule: which tokens count
//! ([`bearer`], [`session`]), whose keys verify them ([`jwks`]), what roles they amount to
//! ([`policy`]), when a cookie may speak for its user ([`origin`]), and what is stripped before a
//! request reaches a pod ([`cookie`], [`Authenticator::strip`]).
//!
//! Verification reads no clock, takes no lock and makes no call: `now` is an argument, and keys are
//! fetched by a [`jwks::Refresher`] that the binary spawns. Only control holds a
//! [`SigningKey`](keys::SigningKey); everyone else has public keys.
//!
//! Three kinds of our own token exist, told apart by their `typ` header, which is checked first:
//!
//! | typ | made by | lives | means |
//! |---|---|---|---|
//! | `ng9-session+jwt` | control | the session | this browser is signed in, on this host |
//! | `ng9-code+jwt` | control | 60 s | hand this session over to that host |
//! | `ng9-login+jwt` | control | 10 min | a login that this browser began |

mod authenticator;
pub mod bearer;
mod cache;
pub mod challenge;
pub mod code;
pub mod cookie;
mod error;
mod http_client;
mod issuer;
pub mod jwks;
mod jwt;
pub mod keys;
pub mod keyset;
pub mod origin;
pub mod policy;
pub mod seal;
pub mod session;
pub mod source;
mod unambiguous;
mod verified;

pub use authenticator::{Authenticated, Authenticator, Via};
pub use error::TokenError;
pub use http_client::{Roots, http_client};
pub use verified::Verified;
