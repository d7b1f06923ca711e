//! Images from registries, archives and folders.

mod auth;
mod client;
mod counts;
mod credentials;
mod error;
mod flights;
mod image;
pub mod mirrors;
mod secret;
mod settings;
mod transport;
mod trust;

pub use client::{BlobStream, Client, Content, Freshness};
pub use counts::Counts;
pub use credentials::{Credential, CredentialError, CredentialId, Keyring, Origin};
pub use error::{Cause, Error, Operation, Step};
pub use image::{BlobReader, Image};
pub use mirrors::{Endpoint, Hosts, MirrorError, Registries, Routes, Security};
pub use secret::Secret;
pub use settings::{Retry, Settings};
pub use trust::{Roots, Tls};
