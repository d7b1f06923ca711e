//! An image in a registry, an archive or a folder.

mod archive;
mod layout;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use platform::{Descriptor, Digest, Reference, Source};

use crate::client::{BlobStream, Client, Content, Freshness};
use crate::credentials::Keyring;
use crate::error::{Cause, Error, Operation};

pub use reader::BlobReader;

use layout::Store;

/// A readable image. Clones read the same image.
#[derive(Debug, Clone)]
pub struct Image {
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    Registry {
        client: Client,
        reference: Reference,
        keyring: Arc<Keyring>,
    },
    Store {
        store: Arc<Store>,
        pick: platform::Pick,
    },
}

impl Image {
    /// Opens the image of a source. Archives are indexed; registries are not contacted yet. The client
    /// of a service ([`Settings::for_service`](crate::Settings::for_service)) rejects archives and
    /// folders.
    pub async fn open(
        source: &Source,
        client: &Client,
        keyring: Arc<Keyring>,
    ) -> Result<Self, Error> {
        let place = match source {
            Source::Folder(layout) | Source::Archive(layout) if !client.opens_local_files() => {
                // The path is not even checked: the author of the object must not learn whether a file
                // exists.
                let why = format!(
                    "{source} is a local file, which controllers and importer pods do not open; docker:// is accepted"
                );
                let cause = Cause::Refused(why);
                return Err(cause.at(Operation::Manifest, source.to_string(), layout.path()));
            }
            Source::Registry(reference) => Place::Registry {
                client: client.clone(),
                reference: reference.clone(),
                keyring,
            },
            Source::Folder(layout) => Place::Store {
                store: Arc::new(Store::folder(layout.path())),
                pick: layout.pick().clone(),
            },
            Source::Archive(layout) => Place::Store {
                store: Arc::new(Store::archive(layout.path()).await?),
                pick: layout.pick().clone(),
            },
            Source::Web(address) => {
                let why = "a file on a web server is not an image; expected an image in a registry, an archive or a folder";
                let cause = Cause::Invalid(why.to_owned());
                return Err(cause.at(Operation::Manifest, address.as_str(), address.host()));
            }
        };
        Ok(Self { place })
    }

    /// The origin of the content: the registry host; empty for archives and folders.
    pub(crate) fn origin(&self) -> &str {
        match &self.place {
            Place::Registry { reference, .. } => reference.host().as_str(),
            Place::Store { .. } => "",
        }
    }

    /// The index or manifest the image name refers to.
    pub async fn resolve(&self, freshness: Freshness) -> Result<Arc<Content>, Error> {
        match &self.place {
            Place::Registry {
                client,
                reference,
                keyring,
            } => client.resolve(reference, keyring, freshness).await,
            Place::Store { store, pick } => store.resolve(pick).await,
        }
    }

    /// The index or manifest of a digest in the same repository: an entry of an index.
    pub async fn manifest(&self, digest: &Digest) -> Result<Arc<Content>, Error> {
        match &self.place {
            Place::Registry {
                client,
                reference,
                keyring,
            } => {
                let pinned = reference.with_digest(digest.clone());
                client.resolve(&pinned, keyring, Freshness::Usual).await
            }
            Place::Store { store, .. } => store.manifest(digest).await,
        }
    }

    /// A small blob, such as a config, read at once.
    pub async fn document(&self, descriptor: &Descriptor) -> Result<Arc<Content>, Error> {
        match &self.place {
            Place::Registry {
                client,
                reference,
                keyring,
            } => {
                client
                    .document(reference, &descriptor.digest, descriptor.size, keyring)
                    .await
            }
            Place::Store { store, .. } => store.document(&descriptor.digest, descriptor.size).await,
        }
    }

    /// A blob as a stream from an offset. Read from 0, the stream ends with an error unless the digest
    /// matches.
    pub fn blob(&self, descriptor: &Descriptor, offset: u64) -> Result<BlobStream, Error> {
        match &self.place {
            Place::Registry {
                client,
                reference,
                keyring,
            } => client.blob(
                reference,
                &descriptor.digest,
                descriptor.size,
                keyring,
                offset,
            ),
            Place::Store { store, .. } => Ok(Store::blob(
                store,
                &descriptor.digest,
                descriptor.size,
                offset,
            )),
        }
    }

    /// A blob for blocking code. `runtime` performs the requests, somewhat ahead of the reader.
    pub fn reader(
        &self,
        descriptor: &Descriptor,
        offset: u64,
        runtime: tokio::runtime::Handle,
    ) -> BlobReader {
        let (image, descriptor) = (self.clone(), descriptor.clone());
        BlobReader::new(offset, runtime, move |offset| {
            image.blob(&descriptor, offset)
        })
    }
}
