//! What runs where: platforms, image references, digests and manifests, and the choice from an index.
//!
//! ```text
//! "docker://quay.io/x:9" --Source--> Reference (host, repository, tag, digest)
//! ```
//!
//! Nothing here reads a registry, a file or a clock: bytes come in, and what was decided goes out as
//! data with its reason. Everything that is read may have been written by somebody hostile, so that
//! all of it has limits, and whatever breaks them is a typed error.

pub mod digest;
mod excerpt;
pub mod reference;
pub mod source;

pub use digest::{Algorithm, Digest, DigestError, Hasher, Mismatch};
pub use reference::{Host, Reference, ReferenceError, Repository, Tag};
pub use source::{Layout, Pick, Source, SourceError};
