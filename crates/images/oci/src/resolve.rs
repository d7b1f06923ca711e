//! Resolves an image name to the manifest of one platform, or to the list of its platforms.
//!
//! ```text
//! name --Image--> index --platform--> manifest, config
//! ```
//!
//! [`inspect`] and [`platforms`] list the platforms of an image, [`seek`] finds the one a node pulls, and
//! [`choose`] also checks its config. This module fetches the documents; `platform` decides.

mod choose;
mod inspect;

use std::sync::Arc;
use std::time::Duration;

use platform::choose::PlatformMismatch;
use platform::{DocumentError, NoMatch, Source, known_architecture};

use crate::credentials::Keyring;
use crate::{Client, Image};

pub use choose::{Chosen, SearchResult, choose, choose_by, seek};
pub use inspect::{Details, Entry, Inspection, inspect, platforms, platforms_within};

/// The operating system of container disks. VMs boot disks of any, but the images are for this one.
pub const OS: &str = "linux";

/// Why an image could not be resolved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The registry request failed.
    #[error(transparent)]
    Registry(#[from] crate::Error),
    /// A document of the image is malformed.
    #[error("reading {what} of {image}")]
    Document {
        /// The digest of the document.
        what: String,
        /// The image.
        image: String,
        /// The parse error.
        source: DocumentError,
    },
    /// The image has no manifest for the platform.
    #[error("importing {image}")]
    NoMatch {
        /// The image.
        image: String,
        /// The requested platform, and those that exist.
        source: Box<NoMatch>,
    },
    /// Index and config name different platforms.
    #[error("importing {image}")]
    Platform {
        /// The image.
        image: String,
        /// The two platforms.
        source: Box<PlatformMismatch>,
    },
}

impl Error {
    /// The registry error, if it is one.
    pub fn registry(&self) -> Option<&crate::Error> {
        match self {
            Self::Registry(error) => Some(error),
            Self::Document { .. } | Self::NoMatch { .. } | Self::Platform { .. } => None,
        }
    }

    /// Whether a retry may succeed soon.
    pub fn is_transient(&self) -> bool {
        self.registry().is_some_and(crate::Error::is_transient)
    }

    /// The registry's `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        self.registry().and_then(crate::Error::retry_after)
    }
}

/// The architecture of an image if none is requested: its own if it has only one, else that of this host,
/// as CDI does. A file on a web server does not state one.
pub async fn usual_architecture(
    source: &Source,
    client: &Client,
    keyring: &Arc<Keyring>,
) -> Result<String, Error> {
    if !matches!(source, Source::Web(_)) {
        let image = Image::open(source, client, Arc::clone(keyring)).await?;
        let found = platforms(&image, &source.to_string()).await?;
        if let [only] = found.platforms.as_slice() {
            return Ok(only.platform.architecture.clone());
        }
    }
    Ok(own_architecture().to_owned())
}

/// The architecture of this host.
pub fn own_architecture() -> &'static str {
    let own = std::env::consts::ARCH;
    known_architecture(own).unwrap_or(own)
}
