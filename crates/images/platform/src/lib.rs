//! Platforms, image references, digests and manifests, and the choice of an image from an index.
//!
//! ```text
//! "docker://quay.io/x:9" --Source--> Reference (host, repository, tag, digest)
//!                                        | fetched by the caller
//! bytes, checked by Digest --document::read--> Index or Manifest
//!                                        |
//! Platform --Matcher--> Search ----------+--> fetch this ... --> the image and why, or why none
//!                    Discovery ----------+--> fetch this ... --> all images and their platforms
//! ```
//!
//! Nothing here accesses a registry, a file or a clock: bytes come in, and decisions with their reasons
//! go out as data. All input is untrusted, so it is bounded, and violations are typed errors.

pub mod addresses;
mod bounded;
pub mod choose;
pub mod digest;
pub mod document;
mod excerpt;
pub mod matcher;
pub mod media;
mod platform;
pub mod reference;
pub mod source;
mod text;
pub mod windows;

pub use addresses::{AddressClass, AddressPolicy, AddressRange, ForbiddenAddress};
pub use choose::{
    Discovery, DiscoveryStep, Fetch, Found, Image, Listing, NoMatch, Search, SearchStep, Why,
};
pub use digest::{Algorithm, Digest, DigestError, Hasher, Mismatch};
pub use document::{Descriptor, Document, DocumentError, ImageConfig, Index, Manifest, NoImage};
pub use matcher::{Matcher, Rank, Unfit};
pub use media::MediaType;
pub use platform::{NormalisedPlatform, Platform, PlatformError, known_architecture};
pub use reference::{Host, Reference, ReferenceError, Repository, Tag};
pub use source::{Address, Layout, Pick, PickError, Picked, Source, SourceError};
