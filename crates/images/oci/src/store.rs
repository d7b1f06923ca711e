//! Blobs in a folder in OCI layout: complete, verified and durable, or absent.
//!
//! ```text
//! FOLDER/oci-layout               marks the layout for other tools
//! FOLDER/blobs/sha256/9f86d0...   complete blobs
//! FOLDER/ingest/sha256-9f86d0...  partial downloads, resumed by the next fetch
//! ```
//!
//! A download is identified by digest, size and registry. So an image that states a wrong size for a
//! blob, or a registry that sends wrong data or stalls, affects only its own downloads. Complete blobs
//! are removed by [`BlobStore::remove`] and [`BlobStore::verify`] alone, never by a download.
//!
//! A blob is renamed into place once it is complete, verified and synced to disk, so after any crash
//! the name guarantees the content. A caller that needs a blob being downloaded by another waits for
//! it; if that fails, the next one tries with its own credentials.

#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use platform::{Algorithm, Descriptor, Digest, Hasher};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinError;

use crate::error::{Cause, Error};
use crate::image::Image;
use crate::keyed_locks::KeyedLocks;

/// The contents of the `oci-layout` file.
const MARKER: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// The chunk size for hashing.
const CHUNK_BYTES: usize = 1 << 20;

/// Chunks that may be queued for writing.
const QUEUED_CHUNKS: usize = 32;

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The registry request failed.
    #[error(transparent)]
    Registry(#[from] Error),
    /// A file operation failed.
    #[error("{operation} {}", path.display())]
    File {
        /// `writing`, `reading`...
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An image states another size than the blob has.
    #[error("blob {digest} has {found} bytes; the image says {expected}")]
    Size {
        /// The blob, which is intact.
        digest: Digest,
        /// The size of the blob.
        found: u64,
        /// The size the image states.
        expected: u64,
    },
    /// The content does not match the digest in the name.
    #[error("reading {}: the content is {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The digest of the content.
        found: Digest,
    },
}

impl StoreError {
    /// Whether the file system is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if is_full(source))
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// A file of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The digest of the complete blob.
    pub digest: Digest,
    /// The number of bytes present.
    pub size: u64,
    /// When it was last modified.
    pub modified: SystemTime,
}

/// Blobs in a folder; clones share it.
#[derive(Debug, Clone)]
pub struct BlobStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Locks of downloads in progress, by their files.
    busy: KeyedLocks<PathBuf>,
    /// Numbers the temporary files of small blobs.
    number: AtomicU64,
}

impl BlobStore {
    /// Opens the store in a folder, creating it if needed. Only one process at a time may use it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let store = Self {
            inner: Arc::new(Inner {
                folder: folder.to_owned(),
                busy: KeyedLocks::default(),
                number: AtomicU64::new(0),
            }),
        };
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            make_folder(&folder.join("blobs").join(algorithm.name()))?;
        }
        let ingest = folder.join("ingest");
        make_folder(&ingest)?;
        // Temporary files of an earlier process.
        let wrong = |source| failed("emptying", &ingest, source);
        for entry in fs::read_dir(&ingest).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                fs::remove_file(entry.path()).map_err(wrong)?;
            }
        }
        let marker = folder.join("oci-layout");
        if !marker.exists() {
            // `create_new` does not follow a dangling link.
            let made = File::create_new(&marker);
            let done = made.and_then(|mut file| file.write_all(MARKER.as_bytes()));
            done.map_err(|source| failed("writing", &marker, source))?;
        }
        Ok(store)
    }

    /// The path of a complete blob; it need not exist.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.inner.folder.join(digest.blob_path())
    }

    /// The path of a partial download from the registry of an image.
    fn part(&self, descriptor: &Descriptor, image: &Image) -> PathBuf {
        let digest = &descriptor.digest;
        let download = Digest::sha256(format!("{} {}", descriptor.size, image.origin()).as_bytes());
        // Size and registry are part of the name: a hostile registry could otherwise put wrong bytes into the partial
        // download that another registry's pull resumes.
        let tag = download.hash().get(..16).unwrap_or_default();
        let name = format!("{}-{}.{tag}", digest.algorithm(), digest.hash());
        self.inner.folder.join("ingest").join(name)
    }

    /// The size of a blob; `None` if it is absent.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        let found = fs::metadata(self.path(digest)).ok()?;
        found.is_file().then_some(found.len())
    }

    /// How many bytes remain to be downloaded from the registry of an image.
    pub fn missing(&self, descriptor: &Descriptor, image: &Image) -> u64 {
        if self.size(&descriptor.digest) == Some(descriptor.size) {
            return 0;
        }
        let part = fs::metadata(self.part(descriptor, image)).map_or(0, |part| part.len());
        descriptor.size.saturating_sub(part)
    }

    /// Stores a small blob, such as a manifest.
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.size(digest) == Some(bytes.len() as u64) {
            return Ok(());
        }
        if let Err(mismatch) = digest.verify(bytes) {
            let (path, found) = (self.path(digest), mismatch.actual);
            return Err(StoreError::Damaged { path, found });
        }
        // A unique name, not that of a download: several callers may store the same blob concurrently.
        let number = self.inner.number.fetch_add(1, Ordering::Relaxed);
        let part = self.inner.folder.join(format!("ingest/.{number}"));
        let mut file = open(&part)?;
        file.write_all(bytes)
            .map_err(|source| failed("writing", &part, source))?;
        self.name(&file, &part, digest)
    }

    /// Reads and verifies a small blob.
    pub fn read(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(|source| failed("reading", &path, source))?;
        match digest.verify(&bytes) {
            Ok(()) => Ok(bytes),
            Err(mismatch) => {
                let found = mismatch.actual;
                Err(StoreError::Damaged { path, found })
            }
        }
    }

    /// Ensures that a blob is present, downloading the missing part. Dropping the future stops the
    /// download; the data received is kept.
    pub fn fetch<'a>(
        &'a self,
        descriptor: &'a Descriptor,
        image: &'a Image,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let part = self.part(descriptor, image);
            // Across the whole download, and handed to the blocking writer: a cancelled future must not release the file
            // while its thread still writes.
            let mut guard = self.inner.busy.lock(&part).await;
            // The data received earlier may be wrong: then try once more from the start.
            for _ in 0..2 {
                let (store, wanted, place) = (self.clone(), descriptor.clone(), part.clone());
                let begun = tokio::task::spawn_blocking(move || store.begin(&wanted, place, guard));
                let begun = begun.await.map_err(|error| interrupted(&part, &error))??;
                let Some(writer) = begun else {
                    return Ok(());
                };
                match self.download(descriptor, image, writer).await? {
                    WriteResult::Named => return Ok(()),
                    WriteResult::Damaged(again) => guard = again,
                }
            }
            Err(failed("writing", &part, io::ErrorKind::InvalidData.into()))
        })
    }

    async fn download(
        &self,
        descriptor: &Descriptor,
        image: &Image,
        writer: Writer,
    ) -> Result<WriteResult, StoreError> {
        let mut stream = image.blob(descriptor, writer.written)?;
        let part = writer.part.clone();
        let (sender, receiver) = mpsc::channel(QUEUED_CHUNKS);
        let store = self.clone();
        let writing = tokio::task::spawn_blocking(move || writer.run(&store, receiver));
        let mut failure = None;
        while let Some(piece) = stream.next().await {
            let message = match piece {
                Ok(piece) => Message::Piece(piece),
                Err(error) => {
                    // Discard only data known to be wrong. That a registry does not have a blob, or
                    // denies access, proves nothing about the data received before.
                    if matches!(
                        error.cause,
                        Cause::DigestMismatch { .. } | Cause::TooLarge { .. }
                    ) {
                        let _ = sender.send(Message::Discard).await;
                    }
                    failure = Some(error);
                    break;
                }
            };
            // The writer reports itself why it ended.
            if sender.send(message).await.is_err() {
                break;
            }
        }
        if failure.is_none() {
            let _ = sender.send(Message::Commit).await;
        }
        drop(sender);
        let ended = writing.await.map_err(|error| interrupted(&part, &error))?;
        match (failure, ended) {
            (Some(error), _) => Err(error.into()),
            (None, Ok(Some(ended))) => Ok(ended),
            (None, Ok(None)) => {
                let source = io::ErrorKind::UnexpectedEof.into();
                Err(failed("writing", &part, source))
            }
            (None, Err(error)) => Err(error),
        }
    }

    /// Opens and hashes a partial download; `None` if the blob is complete. Blocking.
    fn begin(
        &self,
        descriptor: &Descriptor,
        path: PathBuf,
        guard: OwnedMutexGuard<()>,
    ) -> Result<Option<Writer>, StoreError> {
        match self.size(&descriptor.digest) {
            Some(found) if found == descriptor.size => return Ok(None),
            // An intact blob is not fetched again because an image states a wrong size; a damaged one
            // is.
            // Hashing the blob is expensive, but this branch needs an image that
            // contradicts itself or a damaged disk.
            Some(found) if self.is_intact(&descriptor.digest, None)? => {
                return Err(StoreError::Size {
                    digest: descriptor.digest.clone(),
                    found,
                    expected: descriptor.size,
                });
            }
            _ => {}
        }
        let wrong = |source| failed("reading", &path, source);
        let mut file = open(&path)?;
        let mut written = file.metadata().map_err(wrong)?.len();
        let mut hasher = None;
        if written > descriptor.size {
            file.set_len(0).map_err(wrong)?;
            written = 0;
        }
        if written > 0 {
            hasher = Some(hash(&mut file, &descriptor.digest, None).map_err(wrong)?);
        }
        file.seek(SeekFrom::Start(written)).map_err(wrong)?;
        Ok(Some(Writer {
            digest: descriptor.digest.clone(),
            part: path,
            file,
            written,
            hasher,
            guard,
        }))
    }

    /// Syncs a complete download to disk and renames it. Blocking.
    fn name(&self, file: &File, part: &Path, digest: &Digest) -> Result<(), StoreError> {
        let path = self.path(digest);
        file.sync_data()
            .map_err(|source| failed("writing", part, source))?;
        // After the sync of the data and before that of the folder. Renamed first, a power
        // failure could leave a complete name with empty content; without the folder sync, the
        // name itself could be lost, which only costs a download.
        fs::rename(part, &path).map_err(|source| failed("naming", &path, source))?;
        let folder = path.parent().unwrap_or(&path);
        sync_folder(folder)
    }

    /// Whether a blob matches its digest; a damaged one is removed. Stops early when `stop` is set.
    pub fn verify(&self, digest: &Digest, stop: &AtomicBool) -> Result<bool, StoreError> {
        let is_intact = self.is_intact(digest, Some(stop))?;
        if is_intact || stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        remove_file(&self.path(digest))?;
        Ok(false)
    }

    fn is_intact(&self, digest: &Digest, stop: Option<&AtomicBool>) -> Result<bool, StoreError> {
        let path = self.path(digest);
        let wrong = |source| failed("reading", &path, source);
        let mut file = File::open(&path).map_err(wrong)?;
        let found = hash(&mut file, digest, stop).map_err(wrong)?.finish();
        Ok(found == *digest)
    }

    /// Removes a blob and all downloads of it. Only for content that is neither referenced nor being
    /// fetched.
    pub fn remove(&self, digest: &Digest) -> Result<(), StoreError> {
        remove_file(&self.path(digest))?;
        let ingest = self.inner.folder.join("ingest");
        let wrong = |source| failed("reading", &ingest, source);
        for entry in fs::read_dir(&ingest).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            if entry.file_name().to_str().and_then(digest_of_part).as_ref() == Some(digest) {
                remove_file(&entry.path())?;
            }
        }
        Ok(())
    }

    /// All complete blobs.
    pub fn complete(&self) -> Result<Vec<Kept>, StoreError> {
        let mut found = Vec::new();
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let folder = self.inner.folder.join("blobs").join(algorithm.name());
            list(&folder, &mut found, |name| {
                format!("{algorithm}:{name}").parse().ok()
            })?;
        }
        Ok(found)
    }

    /// All partial downloads.
    pub fn unfinished(&self) -> Result<Vec<Kept>, StoreError> {
        let mut found = Vec::new();
        let ingest = self.inner.folder.join("ingest");
        list(&ingest, &mut found, digest_of_part)?;
        Ok(found)
    }
}

/// Messages to the writer.
enum Message {
    Piece(Bytes),
    Commit,
    Discard,
}

/// How writing ended.
enum WriteResult {
    /// The blob is complete and renamed.
    Named,
    /// The content was wrong and has been removed.
    Damaged(OwnedMutexGuard<()>),
}

/// A blob being written.
struct Writer {
    digest: Digest,
    part: PathBuf,
    file: File,
    written: u64,
    /// The stream verifies a blob read from its beginning; otherwise the writer does.
    hasher: Option<Hasher>,
    guard: OwnedMutexGuard<()>,
}

impl Writer {
    /// Writes the chunks received; `None` if the sender is dropped without commit or discard.
    fn run(
        mut self,
        store: &BlobStore,
        mut from: mpsc::Receiver<Message>,
    ) -> Result<Option<WriteResult>, StoreError> {
        let part = self.part.clone();
        while let Some(message) = from.blocking_recv() {
            match message {
                Message::Piece(piece) => {
                    self.file
                        .write_all(&piece)
                        .map_err(|source| failed("writing", &part, source))?;
                    if let Some(hasher) = &mut self.hasher {
                        hasher.update(&piece);
                    }
                }
                Message::Discard => {
                    remove_file(&part)?;
                    return Ok(None);
                }
                Message::Commit => {
                    let found = self.hasher.map(Hasher::finish);
                    if found.is_some_and(|found| found != self.digest) {
                        remove_file(&part)?;
                        return Ok(Some(WriteResult::Damaged(self.guard)));
                    }
                    store.name(&self.file, &part, &self.digest)?;
                    return Ok(Some(WriteResult::Named));
                }
            }
        }
        Ok(None)
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File {
        operation,
        path: path.to_owned(),
        source,
    }
}

fn interrupted(part: &Path, error: &JoinError) -> StoreError {
    failed("writing", part, io::Error::other(error.to_string()))
}

/// Removes a file; a missing one is not an error.
fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", path, error))
        }
        _ => Ok(()),
    }
}

/// The digest in the file name of a download.
fn digest_of_part(name: &str) -> Option<Digest> {
    let (digest, _) = name.split_once('.').unwrap_or((name, ""));
    digest.replacen('-', ":", 1).parse().ok()
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    let mut builder = fs::DirBuilder::new();
    let done = builder.recursive(true).mode(0o700).create(path);
    done.map_err(|source| failed("making", path, source))
}

fn open(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    let file = options.truncate(false).open(path);
    file.map_err(|source| failed("opening", path, source))
}

fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let done = File::open(path).and_then(|folder| folder.sync_all());
    done.map_err(|source| failed("writing", path, source))
}

/// Hashes a file to its end, or until `stop` is set.
fn hash(file: &mut File, digest: &Digest, stop: Option<&AtomicBool>) -> io::Result<Hasher> {
    let mut hasher = digest.hasher();
    let mut piece = vec![0; CHUNK_BYTES];
    while !stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => hasher.update(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(hasher)
}

/// The files of a folder whose names are digests.
fn list(
    folder: &Path,
    found: &mut Vec<Kept>,
    digest_of: impl Fn(&str) -> Option<Digest>,
) -> Result<(), StoreError> {
    let wrong = |source| failed("reading", folder, source);
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = entry.file_name();
        let Some(digest) = name.to_str().and_then(&digest_of) else {
            continue;
        };
        // It may have been removed or renamed in the meantime.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if about.is_file() {
            found.push(Kept {
                digest,
                size: about.len(),
                modified: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    }
    Ok(())
}
