//! Who besides the owner may open a workspace's pages: the annotation `visibility`, and the grants that
//! it and `--template-author` are made of.

use super::Caller;

/// Longest subject that is taken for one, in bytes (OpenID Connect Core, section 2).
const MAX_SUB: usize = 255;
/// What is kept of a text that is not understood, in characters.
const SHOWN: usize = 60;
/// Words that nobody means as somebody's subject. In whatever case: `Private` is a slip, not a person.
const NO_SUBJECT: [&str; 17] = [
    "private",
    "authenticated",
    "internal",
    "admin",
    "admins",
    "public",
    "everyone",
    "everybody",
    "anyone",
    "anybody",
    "anonymous",
    "all",
    "shared",
    "none",
    "nobody",
    "true",
    "false",
];

/// Who besides the owner may open a workspace's pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Nobody.
    #[default]
    Private,
    /// Everyone who is signed in.
    Authenticated,
    /// Who administrates here. no-crd's word.
    Admins,
    /// Those on the list.
    Only(Vec<Grant>),
    /// Nobody, since what it says is not understood: the beginning of that.
    Unclear(String),
}

/// One entry of a list of people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// `user:SUB`
    User(String),
    /// `role:ROLE`
    Role(String),
}

impl Visibility {
    /// Reads the annotation: `private`, `authenticated`, or a list of `user:SUB` and `role:ROLE`; and
    /// no-crd's words, `internal` for authenticated, `admin`, and a subject alone for `user:` and that.
    ///
    /// Anything else is as good as private: also a list with one unknown entry, since half a rule is
    /// not what its author meant.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default().trim();
        match text {
            "" | "private" => return Self::Private,
            "authenticated" | "internal" => return Self::Authenticated,
            "admin" => return Self::Admins,
            _ => {}
        }
        let grants = if is_subject(text) {
            Some(vec![Grant::User(text.to_owned())])
        } else {
            text.split(',')
                .map(|entry| Grant::parse(entry.trim()))
                .collect()
        };
        grants.map_or_else(
            || Self::Unclear(text.chars().take(SHOWN).collect()),
            Self::Only,
        )
    }

    pub(super) fn admits(&self, caller: &Caller) -> bool {
        match self {
            Self::Private | Self::Unclear(_) => false,
            Self::Authenticated => true,
            Self::Admins => caller.is_admin(),
            Self::Only(grants) => grants.iter().any(|grant| grant.names(caller)),
        }
    }
}

impl Grant {
    /// Reads `user:SUB` or `role:ROLE`.
    fn parse(entry: &str) -> Option<Self> {
        let (kind, name) = entry.split_once(':')?;
        if name.is_empty() || name.trim() != name || name.chars().any(char::is_control) {
            return None;
        }
        match kind {
            "user" => Some(Self::User(name.to_owned())),
            "role" => Some(Self::Role(name.to_owned())),
            _ => None,
        }
    }

    /// Whether the caller is meant. Roles are those that the token names.
    fn names(&self, caller: &Caller) -> bool {
        match self {
            Self::User(sub) => *sub == caller.sub,
            Self::Role(role) => caller.roles.contains(role),
        }
    }
}

/// Whether the whole text is one subject, as no-crd writes it: without `:` and `,`, which are ours.
fn is_subject(text: &str) -> bool {
    let ours = |c: char| matches!(c, ':' | ',' | '*') || c.is_whitespace() || c.is_control();
    text.len() <= MAX_SUB
        && !text.contains(ours)
        && !NO_SUBJECT
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word))
}

/// Who besides admins may write templates (`--template-author`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Authors(Vec<Grant>);

impl Authors {
    /// Reads the entries: `role:ROLE`, `user:SUB`, or a subject as it is.
    ///
    /// # Errors
    /// The first entry that names nobody.
    pub fn parse(entries: &[String]) -> Result<Self, String> {
        let author = |entry: &String| {
            let text = entry.trim();
            let grant = match text.split_once(':') {
                Some(("user" | "role", _)) => Grant::parse(text),
                _ => Some(Grant::User(text.to_owned())),
            };
            grant
                .filter(|_| !text.is_empty() && !text.chars().any(char::is_control))
                .ok_or_else(|| entry.clone())
        };
        entries
            .iter()
            .map(author)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether the caller is one.
    #[must_use]
    pub fn include(&self, caller: &Caller) -> bool {
        self.0.iter().any(|grant| grant.names(caller))
    }
}
