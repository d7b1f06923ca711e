//! Images from registries, archives and folders.

mod auth;
mod credentials;
mod error;
mod secret;

pub use credentials::{Credential, CredentialError, CredentialId, Keyring, Origin};
pub use error::{Cause, Error, Operation, Step};
pub use secret::Secret;
