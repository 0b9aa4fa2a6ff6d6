//! Personal access tokens on the wire.

use serde::{Deserialize, Serialize};

/// What a new token shall be.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for, in words for its owner.
    pub name: String,
    /// Some of `nogoo9:read`, `nogoo9:write` and, for admins, `nogoo9:admin`; the first two if left
    /// out.
    #[serde(default)]
    pub scopes: Option<Vec<String>>,
    /// Days that it counts, 1 to 365; 30 if left out.
    #[serde(default)]
    pub expires_in_days: Option<u16>,
}

/// A token that was just made: the only answer that has the token itself.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedToken {
    /// The token.
    pub token: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub kept: PersonalAccessToken,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken")
            .field("kept", &self.kept)
            .finish_non_exhaustive()
    }
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonalAccessToken {
    /// Names it, and is no secret.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it may be used for.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: String,
    /// From when on it counts no more.
    pub expires_at: String,
    /// Whether that has come.
    pub expired: bool,
    /// When it was last used, to the hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// One's own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonalAccessTokens {
    /// Newest first.
    pub tokens: Vec<PersonalAccessToken>,
    /// How many one may have that have not expired.
    pub most: usize,
}

/// A token that counts no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevokedToken {
    /// Its id.
    pub id: String,
    /// What happens now.
    pub message: String,
}
