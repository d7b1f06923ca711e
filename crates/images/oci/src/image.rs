//! An image, wherever it is: in a registry, in an archive, or in a folder.

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

/// An image that can be read. Clones read the same.
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
    /// The image that a source names. Archives are searched through; registries are not asked yet. The client of a
    /// service ([`Settings::for_service`](crate::Settings::for_service)) refuses archives and folders.
    pub async fn open(
        source: &Source,
        client: &Client,
        keyring: Arc<Keyring>,
    ) -> Result<Self, Error> {
        let place = match source {
            Source::Folder(layout) | Source::Archive(layout) if !client.opens_local_files() => {
                // Neither opened nor looked for: whether it exists is nothing that the author may learn.
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
                let why = "a file on a web server is no image; an image in a registry, an archive or a folder is expected";
                let cause = Cause::Invalid(why.to_owned());
                return Err(cause.at(Operation::Manifest, address.as_str(), address.host()));
            }
        };
        Ok(Self { place })
    }

    /// Whose word the content is: the host of a registry; nothing for archives and folders.
    pub(crate) fn origin(&self) -> &str {
        match &self.place {
            Place::Registry { reference, .. } => reference.host().as_str(),
            Place::Store { .. } => "",
        }
    }

    /// The index or manifest that the image's name stands for.
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

    /// The index or manifest of a digest in the same place: an entry of an index.
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

    /// A blob that is a document, such as a configuration, as a whole.
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

    /// A blob as a stream, from an offset on. If that is 0, the stream ends with an error unless the
    /// digest is right.
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

    /// A blob for code that blocks. `runtime` does the asking, somewhat ahead of the reader.
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
