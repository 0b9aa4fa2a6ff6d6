//! How far Pingora may read: to the end of the request that it has, and not into the next one.

use crate::accept::chunks::Chunks;

/// What Pingora may read of what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// So many bytes: what is left of a head, or of a body whose length is known.
    Bytes(u64),
    /// What is left of a head, and then chunks.
    Chunks(usize, Chunks),
    /// All that comes.
    All,
}

impl Due {
    /// How many of these bytes, the next ones, are due.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Bytes(left) => {
                let due = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                *left = left.saturating_sub(due as u64);
                due
            }
            Self::Chunks(head, chunks) => {
                let of_head = bytes.len().min(*head);
                *head -= of_head;
                of_head + chunks.take(bytes.get(of_head..).unwrap_or_default())
            }
            Self::All => bytes.len(),
        }
    }

    /// How many of the next bytes are due in any case.
    pub(super) fn ahead(&self) -> usize {
        match self {
            Self::Bytes(left) => usize::try_from(*left).unwrap_or(usize::MAX),
            Self::Chunks(0, chunks) => chunks.ahead(),
            Self::Chunks(head, _) => *head,
            Self::All => usize::MAX,
        }
    }

    /// Whether nothing is due until the next request is awaited.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Bytes(left) => *left == 0,
            Self::Chunks(head, chunks) => *head == 0 && chunks.is_done(),
            Self::All => false,
        }
    }

    /// Whether nobody can tell how far it goes.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Chunks(_, chunks) if chunks.is_lost())
    }
}
