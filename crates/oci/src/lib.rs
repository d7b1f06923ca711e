//! Images from registries, archives and folders.

mod auth;
mod credentials;
mod error;
pub mod mirrors;
mod secret;
mod trust;

pub use credentials::{Credential, CredentialError, CredentialId, Keyring, Origin};
pub use error::{Cause, Error, Operation, Step};
pub use mirrors::{Endpoint, Hosts, MirrorError, Registries, Routes, Security};
pub use secret::Secret;
pub use trust::{Roots, Tls};
