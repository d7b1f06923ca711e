//! Credentials from pull secrets and configuration files, and the repositories they apply to.

mod config;
mod keyring;
mod pattern;
#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::secret::Secret;

pub use config::{CredentialError, HelperEntry, Origin, helper_entries};
pub use keyring::Keyring;

/// A credential for a registry.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// Username and password.
    Password {
        /// The username.
        username: String,
        /// The password.
        password: Secret,
    },
    /// A refresh token that token servers exchange for access tokens (`identitytoken`).
    Identity {
        /// The username; may be empty.
        username: String,
        /// The token.
        token: Secret,
    },
    /// An access token that registries accept directly (`registrytoken`).
    Bearer(Secret),
}

impl Credential {
    /// A credential with username and password.
    pub fn password(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password {
            username: username.into(),
            password: Secret::new(password),
        }
    }

    /// The answer of a credential helper. The username `<token>` marks an identity token, as in Docker's
    /// `credentials/native_store.go`.
    pub fn of_helper(username: String, secret: String) -> Self {
        if username == "<token>" {
            return Self::Identity {
                username: String::new(),
                token: Secret::new(secret),
            };
        }
        Self::password(username, secret)
    }

    /// The value of a `Basic` `Authorization` header; `None` for tokens.
    pub(crate) fn basic(&self) -> Option<Secret> {
        match self {
            Self::Password { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                Some(Secret::new(format!("Basic {}", STANDARD.encode(pair))))
            }
            Self::Identity { .. } | Self::Bearer(_) => None,
        }
    }

    /// The secret strings that must be redacted from messages, even if a server repeats them.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        match self {
            Self::Password { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                vec![Secret::new(STANDARD.encode(pair)), password.clone()]
            }
            Self::Identity { token, .. } | Self::Bearer(token) => vec![token.clone()],
        }
    }

    /// The identity of this credential.
    pub fn id(&self) -> CredentialId {
        let (kind, username, secret) = match self {
            Self::Password { username, password } => (1_u8, username.as_str(), password),
            Self::Identity { username, token } => (2, username.as_str(), token),
            Self::Bearer(token) => (3, "", token),
        };
        let mut hash = Sha256::new();
        hash.update([kind]);
        // The length separates the two: without it `ab` + `c` and `a` + `bc`
        // would be one identity, and share a cache.
        hash.update(username.len().to_le_bytes());
        hash.update(username.as_bytes());
        hash.update(secret.expose().as_bytes());
        CredentialId(Some(hash.finalize().into()))
    }

    /// A description of the credential for messages, without secrets.
    pub(crate) fn describe(credential: Option<&Self>) -> String {
        match credential {
            None => "without credentials".to_owned(),
            Some(Self::Password { username, .. } | Self::Identity { username, .. })
                if !username.is_empty() =>
            {
                format!("as {:?}", crate::error::clean(username, &[]))
            }
            Some(_) => "with a token".to_owned(),
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(")?;
        f.write_str(&Self::describe(Some(self)))?;
        f.write_str(")")
    }
}

/// Distinguishes credentials without revealing them. Content read with one is never returned for
/// another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CredentialId(Option<[u8; 32]>);

impl CredentialId {
    /// The identity of anonymous requests.
    pub const ANONYMOUS: Self = Self(None);

    pub(crate) fn of(credential: Option<&Credential>) -> Self {
        credential.map_or(Self::ANONYMOUS, Credential::id)
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A hash of a weak password would reveal it.
        f.write_str(if self.0.is_some() {
            "CredentialId(***)"
        } else {
            "CredentialId(anonymous)"
        })
    }
}
