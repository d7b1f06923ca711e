//! OCI layouts: `oci-layout`, `index.json` and `blobs/`, in a folder or in a tar file.

use std::collections::HashMap;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt as _};
use platform::{Digest, Document, Hasher, Pick};
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;

use super::archive;
use crate::client::{BlobStream, Content};
use crate::error::{Cause, Error, Operation};

/// The annotation that names an image of a layout.
const NAME: &str = "org.opencontainers.image.ref.name";

/// The media type of `index.json`.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Upper bound of an index, manifest or config.
const MAX_DOCUMENT_BYTES: u64 = 8 << 20;

/// The chunk size of blob streams.
const CHUNK_BYTES: usize = 128 * 1024;

/// A layout.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// The positions of the files in an archive; `None` for a folder.
    members: Option<HashMap<String, archive::Member>>,
}

#[derive(Deserialize)]
struct Marker {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

impl Store {
    pub(super) fn folder(path: &str) -> Self {
        Self {
            path: PathBuf::from(path),
            members: None,
        }
    }

    /// Indexes an archive.
    pub(super) async fn archive(path: &str) -> Result<Self, Error> {
        let path = PathBuf::from(path);
        let file = path.clone();
        let members = blocking(move || archive::members(&file)).await;
        let members = members.map_err(|cause| {
            cause.at(
                Operation::Manifest,
                "an archive",
                path.display().to_string(),
            )
        })?;
        let members = Some(members);
        Ok(Self { path, members })
    }

    /// The index or manifest of the picked image.
    pub(super) async fn resolve(self: &Arc<Self>, pick: &Pick) -> Result<Arc<Content>, Error> {
        let subject = match pick {
            Pick::Only => "the only image".to_owned(),
            Pick::Name(name) => format!("image {name}"),
            Pick::Digest(digest) => digest.to_string(),
        };
        let fail = |cause: Cause| self.fail(Operation::Manifest, &subject, cause);
        let index = self.index().await.map_err(fail)?;
        let Ok(Document::Index(entries)) = platform::document::read(&index.bytes, Some(INDEX))
        else {
            return Err(fail(Cause::Invalid(
                "index.json is not an index".to_owned(),
            )));
        };
        let mut named = entries.manifests.iter().filter(|entry| match pick {
            Pick::Only => true,
            Pick::Name(name) => entry.annotations.get(NAME) == Some(name),
            Pick::Digest(digest) => entry.digest == *digest,
        });
        match (named.next(), named.next(), pick) {
            // The digest of an entry of a nested index is accepted, too.
            (None, _, Pick::Digest(digest)) => self.manifest(digest).await,
            (None, ..) => {
                let names: Vec<&str> = entries
                    .manifests
                    .iter()
                    .filter_map(|entry| entry.annotations.get(NAME))
                    .map(String::as_str)
                    .take(10)
                    .collect();
                let said = match names.as_slice() {
                    [] => "no image there has a name".to_owned(),
                    names => crate::error::clean(&format!("there are {}", names.join(", ")), &[]),
                };
                Err(fail(Cause::NotFound { said }))
            }
            // Several images without a name are the platforms of one image.
            (Some(_), Some(_), Pick::Only) => Ok(Arc::new(index)),
            (Some(entry), ..) => self.manifest(&entry.digest).await,
        }
    }

    /// An index or a manifest.
    pub(super) async fn manifest(self: &Arc<Self>, digest: &Digest) -> Result<Arc<Content>, Error> {
        let content = self.small(digest).await;
        let content = content.and_then(|content| {
            platform::document::read(&content.bytes, None)
                .map_err(|error| Cause::Invalid(crate::error::clean(&error.to_string(), &[])))?;
            Ok(content)
        });
        content
            .map(Arc::new)
            .map_err(|cause| self.fail(Operation::Manifest, &digest.to_string(), cause))
    }

    /// A small blob.
    pub(super) async fn document(
        self: &Arc<Self>,
        digest: &Digest,
        size: u64,
    ) -> Result<Arc<Content>, Error> {
        let content = self.small(digest).await.and_then(|content| {
            same_size(content.bytes.len() as u64, size)?;
            Ok(content)
        });
        content
            .map(Arc::new)
            .map_err(|cause| self.fail(Operation::Blob, &digest.to_string(), cause))
    }

    /// A blob as a stream of chunks.
    pub(super) fn blob(store: &Arc<Self>, digest: &Digest, size: u64, offset: u64) -> BlobStream {
        let (store, digest) = (Arc::clone(store), digest.clone());
        let opening = async move {
            match Reading::open(&store, &digest, size, offset).await {
                Ok(reading) => reading.pieces(store, digest).boxed(),
                Err(cause) => {
                    let error = store.fail(Operation::Blob, &digest.to_string(), cause);
                    stream::iter([Err(error)]).boxed()
                }
            }
        };
        BlobStream::new(stream::once(opening).flatten().boxed())
    }

    fn fail(&self, operation: Operation, subject: &str, cause: Cause) -> Error {
        cause.at(operation, subject, self.path.display().to_string())
    }

    async fn index(self: &Arc<Self>) -> Result<Content, Cause> {
        let marker = self.whole("oci-layout").await?;
        let version = serde_json::from_slice::<Marker>(&marker).map(|marker| marker.version);
        // `image-layout.md` of the image specification requires the file and the version, so
        // that a reader does not misread a later layout.
        if !version.is_ok_and(|version| version.starts_with("1.")) {
            return Err(Cause::Invalid(
                "oci-layout has no imageLayoutVersion 1.x: it is no OCI layout".to_owned(),
            ));
        }
        let bytes = self.whole("index.json").await?;
        Ok(Content {
            digest: Digest::sha256(&bytes),
            content_type: Some(INDEX.to_owned()),
            bytes,
        })
    }

    async fn small(self: &Arc<Self>, digest: &Digest) -> Result<Content, Cause> {
        let bytes = self.whole(&name_of(digest)).await?;
        digest.verify(&bytes)?;
        Ok(Content {
            digest: digest.clone(),
            content_type: None,
            bytes,
        })
    }

    async fn whole(self: &Arc<Self>, name: &str) -> Result<Bytes, Cause> {
        let (store, name) = (Arc::clone(self), name.to_owned());
        blocking(move || {
            let (file, length) = store.file(&name, 0)?;
            if length > MAX_DOCUMENT_BYTES {
                let found = Some(length);
                return Err(Cause::TooLarge {
                    limit: MAX_DOCUMENT_BYTES,
                    found,
                });
            }
            let mut bytes = Vec::new();
            file.take(length)
                .read_to_end(&mut bytes)
                .map_err(|error| Cause::File(format!("{name}: {error}")))?;
            same_size(bytes.len() as u64, length)?;
            Ok(Bytes::from(bytes))
        })
        .await
    }

    /// A file of the layout at an offset, and its total length. Blocking.
    fn file(&self, name: &str, offset: u64) -> Result<(std::fs::File, u64), Cause> {
        let wrong = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Cause::NotFound {
                said: name.to_owned(),
            },
            _ => Cause::File(format!("{name}: {error}")),
        };
        let (path, start, length) = match &self.members {
            Some(members) => {
                let member = members.get(name).ok_or_else(|| Cause::NotFound {
                    said: name.to_owned(),
                })?;
                (self.path.clone(), member.offset, Some(member.size))
            }
            None => (self.path.join(name), 0, None),
        };
        let mut file = open_regular(&path).map_err(wrong)?;
        let length = match length {
            Some(length) => length,
            None => file.metadata().map_err(wrong)?.len(),
        };
        let at = start.saturating_add(offset);
        if at > 0 {
            file.seek(SeekFrom::Start(at)).map_err(wrong)?;
        }
        Ok((file, length))
    }
}

/// Opens a regular file; opening a FIFO could block forever.
pub(super) fn open_regular(path: &Path) -> io::Result<std::fs::File> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    std::fs::File::open(path)
}

/// The path of a blob. A digest consists of letters and digits, so it cannot escape the folder.
fn name_of(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hash())
}

fn same_size(found: u64, expected: u64) -> Result<(), Cause> {
    match found.cmp(&expected) {
        std::cmp::Ordering::Less => Err(Cause::Truncated { expected, found }),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => {
            let (limit, found) = (expected, Some(found));
            Err(Cause::TooLarge { limit, found })
        }
    }
}

/// Runs blocking code on the blocking pool.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Cause> + Send + 'static,
) -> Result<T, Cause> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(Cause::File(format!("reading was interrupted: {error}"))))
}

struct Reading {
    file: tokio::io::Take<tokio::fs::File>,
    hasher: Option<Hasher>,
    left: u64,
    size: u64,
}

impl Reading {
    async fn open(
        store: &Arc<Store>,
        digest: &Digest,
        size: u64,
        offset: u64,
    ) -> Result<Self, Cause> {
        let (other, name) = (Arc::clone(store), name_of(digest));
        let (file, length) = blocking(move || other.file(&name, offset)).await?;
        same_size(length, size)?;
        let left = size.checked_sub(offset).ok_or_else(|| {
            Cause::Invalid(format!("requested data after byte {offset} of {size}"))
        })?;
        Ok(Self {
            file: tokio::fs::File::from_std(file).take(left),
            hasher: (offset == 0).then(|| digest.hasher()),
            left,
            size,
        })
    }

    fn pieces(
        self,
        store: Arc<Store>,
        digest: Digest,
    ) -> impl futures::Stream<Item = Result<Bytes, Error>> + Send {
        stream::unfold(Some((self, store, digest)), |state| async move {
            let (mut reading, store, digest) = state?;
            match reading.next(&digest).await {
                Ok(Some(piece)) => Some((Ok(piece), Some((reading, store, digest)))),
                Ok(None) => None,
                Err(cause) => {
                    let error = store.fail(Operation::Blob, &digest.to_string(), cause);
                    Some((Err(error), None))
                }
            }
        })
    }

    async fn next(&mut self, digest: &Digest) -> Result<Option<Bytes>, Cause> {
        let mut piece = BytesMut::with_capacity(CHUNK_BYTES);
        let count = self
            .file
            .read_buf(&mut piece)
            .await
            .map_err(|error| Cause::File(error.to_string()))?;
        if count == 0 {
            if self.left > 0 {
                let (expected, found) = (self.size, self.size - self.left);
                return Err(Cause::Truncated { expected, found });
            }
            if let Some(hasher) = self.hasher.take() {
                digest.expect(hasher.finish())?;
            }
            return Ok(None);
        }
        self.left = self.left.saturating_sub(count as u64);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
        }
        Ok(Some(piece.freeze()))
    }
}
