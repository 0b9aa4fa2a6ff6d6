//! What a client's bytes become on their way to a pod, and a pod's on their way back.
//!
//! [`differential`] sends the same requests to the same pod with and without the edge and knows every
//! difference by name; [`smuggling`] sends what may be read in two ways; [`bodies`] looks at what flows.
//!
//! Where Pingora's known traps (its version 0.9.1) are closed:
//!
//! | trap | closed by |
//! |---|---|
//! | a request pipelined behind another ends it (#673, #377) | `accept` keeps it back; `differential::requests_in_a_row_on_one_connection` |
//! | a target with a space, a tab or a CR is encoded and served | `accept::head`; `smuggling` |
//! | CL and TE together pass, the length gone (#945) | `strict`; `smuggling` |
//! | `Transfer-Encoding: gzip, chunked` passes, and the pod is not told of gzip | `strict`; `smuggling` |
//! | several equal lengths are passed on as they are | `strict`; `smuggling` |
//! | bare LF ends a line; a fragment is dropped from the target | `strict`; `smuggling` |
//! | a missing or impossible Host is for the application to refuse (#676, #750) | `strict`; `smuggling`, `http2` |
//! | `Connection` takes away what the edge has added (CVE-2026-105299) | added after; `smuggling`, `spelling` |
//! | hop-by-hop headers of answers pass (`Keep-Alive`, `Upgrade`, #706) | `headers::from_pod`; `differential` |
//! | headers lose their order when others are taken out | `headers::towards_pod`, `from_pod`; `differential` |
//! | an answer of an HTTP/1.0 pod says HTTP/1.0 | `edge`; `differential` |
//! | an HTTP/1.0 client gets 1xx, and chunks | `edge`; `differential`, `hostile` |
//! | cookies of HTTP/2 come in pieces (#892) | joined; `http2`, `differential` |
//! | an upload over HTTP/2 ends twice (#935) | `http2` |
//! | a 101 that nobody asked for | the upgrade is denied; `smuggling` |
//! | trailers over HTTP/1 go no further | Pingora's parser drops them; named in `differential` and the docs |
//! | `Date` is the edge's | Pingora writes it; named in `differential` and the docs |
//! | 1xx do not reach HTTP/2 clients, nor anybody from HTTP/2 pods | Pingora's sessions drop them; `informational`, and the docs |
//! | a client that closes its sending half is taken for gone | so that its going reaches the pod; named in the docs |

mod answer;
mod attacks;
mod bodies;
mod cases;
mod difference;
mod differential;
mod fuzz;
mod message;
mod recorder;
mod smuggling;
