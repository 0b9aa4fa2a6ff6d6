//! Local mode: a Kubernetes API server, a kubelet that runs pods as processes, an identity
//! provider and a supervisor, all on loopback.

pub mod apiserver;
mod files;
pub mod idp;
pub mod kubelet;
mod pki;
pub mod sample;
pub mod shim;
pub mod supervisor;
