//! The people of the development provider.

/// A person who can sign in, without a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Subject and sign-in name.
    pub sub: &'static str,
    /// Full name.
    pub name: &'static str,
    /// Address; `.test` never resolves (RFC 6761).
    pub email: &'static str,
    /// Roles, as in the `roles` claim.
    pub roles: &'static [&'static str],
    /// One line for the sign-in page.
    pub about: &'static str,
}

/// Everyone, in the order of the sign-in page.
pub const USERS: [User; 4] = [
    User {
        sub: "alice",
        name: "Alice Arden",
        email: "alice@nogoo9.test",
        roles: &["user"],
        about: "Has workspaces of her own",
    },
    User {
        sub: "bob",
        name: "Bob Brook",
        email: "bob@nogoo9.test",
        roles: &["user"],
        about: "Must never see Alice's",
    },
    User {
        sub: "admin",
        name: "Ada Admin",
        email: "admin@nogoo9.test",
        roles: &["admin"],
        about: "Manages all workspaces",
    },
    User {
        sub: "vera",
        name: "Vera View",
        email: "vera@nogoo9.test",
        roles: &["viewer"],
        about: "Looks, and changes nothing",
    },
];

/// The user of that subject.
pub(super) fn find(sub: &str) -> Option<&'static User> {
    USERS.iter().find(|user| user.sub == sub)
}

/// All names, for messages.
pub(super) fn names() -> String {
    USERS.map(|user| user.sub).join(", ")
}
