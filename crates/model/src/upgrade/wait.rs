//! Every "not yet", as a type and as a sentence for people.

use crate::container::Trouble;

/// Why nothing can be done yet. Times are in seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait {
    /// The pod is not Ready yet.
    Starting {
        /// What its containers complain of.
        trouble: Option<Trouble>,
        /// How long it has taken.
        taken: i64,
        /// How long it may take; `None`: no limit.
        limit: Option<i64>,
    },
    /// A probe has not shown yet that the new images can be had.
    Checking {
        /// What it complains of.
        trouble: Option<Trouble>,
        /// How long it has taken.
        taken: i64,
        /// How long it may take.
        limit: i64,
    },
    /// The successor is Ready and must stay so for a moment.
    Settling {
        /// How much longer.
        left: i64,
    },
    /// The successor stopped being Ready after it took over.
    Unready {
        /// Until the old pod takes over again.
        left: i64,
    },
    /// Somebody still uses the old pod.
    Draining {
        /// Open sessions.
        sessions: u32,
        /// Proxies that still route to it.
        routing: u32,
        /// Proxies that do not answer.
        silent: u32,
        /// Until it goes all the same.
        left: i64,
    },
    /// A pod is shutting down.
    Terminating {
        /// Its name.
        pod: String,
    },
    /// A pod should have ended long ago: its node does not answer. What it holds may still be
    /// written to there, so nothing else gets it.
    Stuck {
        /// Its name.
        pod: String,
        /// Its node.
        node: Option<String>,
    },
    /// Requests on the old pod may end before it goes; new ones are held.
    Quiescing {
        /// Requests that are being answered.
        requests: u32,
        /// Proxies that do not answer, or still route to it.
        behind: u32,
        /// Until it goes all the same.
        left: i64,
    },
    /// A pod that vanished is replaced after a pause.
    BackOff {
        /// How much longer.
        left: i64,
    },
    /// The API server refuses the pod; it is asked again now and then.
    Rejected {
        /// What it said.
        trouble: Trouble,
    },
    /// A deleted workspace is remembered for a moment, so that what arrives late is recognised.
    Buried {
        /// How much longer.
        left: i64,
    },
    /// Very many pods are to be deleted that nobody has asked to delete: each waits for its turn.
    DeletionsCapped {
        /// Deletions a minute that are plausible.
        most: u32,
        /// How much longer.
        left: i64,
    },
    /// There are pods beside the workspace's own: they go once traffic passes them and nobody uses
    /// them.
    Duplicates {
        /// How many pods too many.
        extra: usize,
    },
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting {
                trouble,
                taken,
                limit,
            } => {
                match trouble {
                    Some(trouble) if trouble.reason.contains("Image") => {
                        write!(f, "waiting for the image: {trouble}")?;
                    }
                    Some(trouble) => write!(f, "waiting for the pod: {trouble}")?,
                    None => f.write_str("waiting for the pod to become ready")?,
                }
                write!(f, ", {}", Span(*taken))?;
                limit.map_or(Ok(()), |limit| write!(f, " of {}", Span(limit)))
            }
            Self::Checking {
                trouble,
                taken,
                limit,
            } => {
                f.write_str("checking the new image")?;
                if let Some(trouble) = trouble {
                    write!(f, ": {trouble}")?;
                }
                write!(f, ", {} of {}", Span(*taken), Span(*limit))
            }
            Self::Buried { left } => {
                write!(f, "deleted; forgotten for good in {}", Span(*left))
            }
            Self::Settling { left } => {
                write!(f, "the new pod is ready; taking over in {}", Span(*left))
            }
            Self::Unready { left } => {
                write!(
                    f,
                    "the new pod is not ready; the old one takes over again in {}",
                    Span(*left)
                )
            }
            Self::Draining {
                sessions,
                routing,
                silent,
                left,
            } => {
                f.write_str("new requests go to the new pod; ")?;
                match (sessions, routing, silent) {
                    (1, _, _) => f.write_str("one session is still open on the old one")?,
                    (2.., _, _) => write!(f, "{sessions} sessions are still open on the old one")?,
                    (0, 1.., _) => f.write_str("a proxy still routes to the old one")?,
                    _ => write!(f, "{silent} of the proxies do not answer")?,
                }
                write!(f, ", for {} at most", Span(*left))
            }
            Self::Terminating { pod } => write!(f, "waiting for pod {pod} to end"),
            Self::BackOff { left } => {
                write!(f, "the pod was lost; replacing it in {}", Span(*left))
            }
            Self::Rejected { trouble } => write!(f, "the cluster refuses the pod: {trouble}"),
            Self::DeletionsCapped { most, left } => write!(
                f,
                "more than {most} pods were to be deleted within a minute, which is not plausible; the next one goes \
                 in {}",
                Span(*left)
            ),
            Self::Duplicates { extra } => write!(
                f,
                "{extra} more pods than there should be; waiting until none of them is used"
            ),
            Self::Stuck { pod, node } => {
                let node = node.as_deref().unwrap_or("unknown");
                write!(
                    f,
                    "pod {pod} does not end: node {node} does not answer. Nothing is lost; it goes on when the node is \
                     back. If the node is gone for good, delete it: kubectl delete node {node}"
                )
            }
            Self::Quiescing {
                requests,
                behind,
                left,
            } => {
                match (requests, behind) {
                    (1, _) => f.write_str("one request is still being answered by the old pod")?,
                    (2.., _) => write!(
                        f,
                        "{requests} requests are still being answered by the old pod"
                    )?,
                    (0, 0) => f.write_str("the old pod takes no new requests")?,
                    (0, _) => write!(
                        f,
                        "waiting for {behind} of the proxies to hold new requests"
                    )?,
                }
                write!(f, "; it is replaced in {} at most", Span(*left))
            }
        }
    }
}

/// Seconds, as people write them.
struct Span(i64);

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.max(0);
        match (seconds / 60, seconds % 60) {
            (0, s) => write!(f, "{s} s"),
            (m, 0) => write!(f, "{m} m"),
            (m, s) => write!(f, "{m} m {s} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences() {
        let trouble = || Some(Trouble::new("ImagePullBackOff", ""));
        for (wait, expected) in [
            (
                Wait::Starting {
                    trouble: trouble(),
                    taken: 130,
                    limit: Some(600),
                },
                "waiting for the image: ImagePullBackOff, 2 m 10 s of 10 m",
            ),
            (
                Wait::Starting {
                    trouble: None,
                    taken: 3,
                    limit: None,
                },
                "waiting for the pod to become ready, 3 s",
            ),
            (
                Wait::Draining {
                    sessions: 2,
                    routing: 0,
                    silent: 0,
                    left: 60,
                },
                "new requests go to the new pod; 2 sessions are still open on the old one, for 1 m at most",
            ),
            (
                Wait::Draining {
                    sessions: 0,
                    routing: 0,
                    silent: 1,
                    left: 5,
                },
                "new requests go to the new pod; 1 of the proxies do not answer, for 5 s at most",
            ),
            (
                Wait::Settling { left: 4 },
                "the new pod is ready; taking over in 4 s",
            ),
        ] {
            assert_eq!(wait.to_string(), expected);
        }
    }
}
