//! Why a token was refused: a closed set, safe to show, to log and to count by.

/// A refusal. Its text is a valid `error_description` (RFC 6750) and never holds any of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenError {
    /// Not three base64url parts with JSON in them, or claims of the wrong shape.
    #[error("the token is not a well-formed signed JWT")]
    Malformed,
    /// Longer than anything that could be ours.
    #[error("the token is too long")]
    TooLong,
    /// `none`, a shared-secret algorithm, or one that the key is not for.
    #[error("the token's signing algorithm is not accepted")]
    Algorithm,
    /// A valid token of another kind: a code where a session belongs, and the like.
    #[error("the token is of another kind")]
    WrongType,
    /// No published key has its key id. A refetch was asked for.
    #[error("the token's signing key is not known")]
    UnknownKey,
    /// The keys were never read: the provider has been away since the start.
    #[error("the signing keys cannot be read yet, try again shortly")]
    KeysUnavailable,
    /// Altered, or signed by another key of that id.
    #[error("the token's signature does not match")]
    Signature,
    /// `iss` is not the configured issuer.
    #[error("the token was issued by someone else")]
    WrongIssuer,
    /// `aud` names none of ours, or another host.
    #[error("the token was issued for another audience")]
    WrongAudience,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` or `iat` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// A claim that must be there is not.
    #[error("the token lacks a claim that is needed")]
    MissingClaim,
    /// A hand-over code that was made for another browser.
    #[error("the sign-in code belongs to another browser")]
    WrongNonce,
    /// A personal access token that is not kept, or not any more. Which, is not said.
    #[error("the access token is unknown, revoked or expired")]
    UnknownToken,
}

impl TokenError {
    /// A short fixed word: log field and metric label.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::TooLong => "too_long",
            Self::Algorithm => "algorithm",
            Self::WrongType => "wrong_type",
            Self::UnknownKey => "unknown_key",
            Self::KeysUnavailable => "keys_unavailable",
            Self::Signature => "signature",
            Self::WrongIssuer => "wrong_issuer",
            Self::WrongAudience => "wrong_audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::MissingClaim => "missing_claim",
            Self::WrongNonce => "wrong_nonce",
            Self::UnknownToken => "unknown_token",
        }
    }

    /// The HTTP status to answer with: 503 while nobody could be verified, else 401.
    #[must_use]
    pub fn status(self) -> http::StatusCode {
        match self {
            Self::KeysUnavailable => http::StatusCode::SERVICE_UNAVAILABLE,
            _ => http::StatusCode::UNAUTHORIZED,
        }
    }

    /// Whether a token that is refused so was made up or altered. What was good once, or is good
    /// elsewhere, was not; nor was what cannot be judged now.
    #[must_use]
    pub fn is_forged(self) -> bool {
        match self {
            Self::Malformed
            | Self::TooLong
            | Self::Algorithm
            | Self::WrongType
            | Self::UnknownKey
            | Self::Signature
            | Self::UnknownToken => true,
            Self::KeysUnavailable
            | Self::WrongIssuer
            | Self::WrongAudience
            | Self::Expired
            | Self::NotYetValid
            | Self::MissingClaim
            | Self::WrongNonce => false,
        }
    }

    /// As [`Self::is_forged`], of a session's cookie: its key may have been deleted, which ends all
    /// sessions and makes nobody a forger.
    #[must_use]
    pub fn is_forged_cookie(self) -> bool {
        self.is_forged() && self != Self::UnknownKey
    }

    /// Whether newer keys could change the verdict.
    pub(crate) fn wants_keys(self) -> bool {
        matches!(self, Self::UnknownKey | Self::KeysUnavailable)
    }
}
