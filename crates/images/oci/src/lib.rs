//! Images from registries, archives and folders, and files from web servers.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use oci::{Client, Freshness, Image, Keyring, Roots, Routes, Settings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Settings::for_user(Roots::of_system()), Routes::direct());
//! let source = "docker://quay.io/containerdisks/fedora:41".parse()?;
//! let image = Image::open(&source, &client, Arc::new(Keyring::anonymous())).await?;
//! let content = image.resolve(Freshness::Usual).await?;
//! let document = platform::document::read(&content.bytes, content.content_type.as_deref())?;
//! # Ok(())
//! # }
//! ```
//!
//! | where | what |
//! |---|---|
//! | [`Image`], [`BlobReader`] | one interface for all three, async and blocking |
//! | [`Client`] | registries: caches, merging, retries, resuming, verification |
//! | [`WebFile`] | files on web servers: conditional requests, resuming |
//! | [`Keyring`] | credentials, by the rules of the kubelet |
//! | [`Routes`], [`mirrors`] | endpoints: `registries.conf`, `hosts.toml`, OpenShift's objects |
//! | [`BlobStore`] | blobs in a folder: complete and verified, or absent; resumable downloads |
//! | [`resolve`] | the manifest that a platform gets from an image, and the platforms of an image |
//! | [`Error`] | failures, with a reason for conditions |
//!
//! Users name registries, so they are untrusted: all responses are bounded and verified, credentials go
//! only to the host they are for, and redirects cannot reach hosts that only this process can reach.
//! Content read with one credential is never returned for another. The client of a service
//! ([`Settings::for_service`]) connects only where an address policy allows, and opens no local file.

mod auth;
mod client;
mod counts;
mod credentials;
mod error;
mod flights;
#[cfg(feature = "fuzz")]
#[expect(
    clippy::expect_used,
    reason = "a panic is how the fuzzer reports a finding"
)]
pub mod fuzz;
mod image;
mod keyed_locks;
pub mod mirrors;
mod network;
pub mod resolve;
mod secret;
mod settings;
mod store;
mod transport;
mod trust;

pub use client::{BlobStream, Client, Content, FileVersion, Freshness, Headers, Post, WebFile};
pub use counts::Counts;
pub use credentials::{
    Credential, CredentialError, CredentialId, HelperEntry, Keyring, Origin, helper_entries,
};
pub use error::{Cause, Error, Operation, TimeoutStage, error_chain};
pub use image::{BlobReader, Image};
pub use keyed_locks::KeyedLocks;
pub use mirrors::{Endpoint, Hosts, MirrorError, Registries, Routes, Security};
pub use network::Network;
pub use secret::Secret;
pub use settings::{Retry, Settings};
pub use store::{BlobStore, Kept, StoreError};
pub use trust::{Roots, Tls};
