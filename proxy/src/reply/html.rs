//! In which form whoever asks takes an answer of the edge's own.

/// Whether it is a page, and of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Html {
    /// None: for a program, or a script of a page.
    No,
    /// One that says what to do, for a browser that has sent a form: loaded again, it would lose what was
    /// sent, or send it twice.
    Form,
    /// Any, for a browser that navigates: it may load what was asked for again.
    Page,
}

impl Html {
    /// Whether a person reads the answer.
    #[must_use]
    pub fn is_page(self) -> bool {
        self != Self::No
    }

    /// Whether what was asked for may be asked for again without its reader's doing.
    #[must_use]
    pub fn may_reload(self) -> bool {
        self == Self::Page
    }

    /// What the reader of a page does about an answer that did not come from where it was to.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Form => "What you sent was not taken. Go back, and try again in a moment.",
            Self::No | Self::Page => "Try again in a moment.",
        }
    }
}
