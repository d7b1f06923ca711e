//! Blobs in a folder, as an OCI layout keeps them: whole, verified and durable, or not there.
//!
//! ```text
//! FOLDER/oci-layout               so that others can read it, too
//! FOLDER/blobs/sha256/9f86d0...   what is complete
//! FOLDER/ingest/sha256-9f86d0...  what is not: the next download goes on with it
//! ```
//!
//! A download belongs to a digest, a size and the registry that it comes from. So an image that names a blob with
//! another size, or a registry that sends something else or nothing at all, spoils and delays only its own
//! downloads. What has its name is removed by [`BlobStore::remove`] and [`BlobStore::verify`] alone, never by a
//! download.
//!
//! A blob gets its name when all of it is there, has been verified, and is on the disk. So whatever ends
//! the process, a name means the content. Who wants a blob that another one is downloading waits for
//! it; if that fails, the next one tries, with its own credentials.

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
use platform::{Algorithm, Descriptor, Digest, Hasher};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tokio::task::JoinError;

use crate::error::{Cause, Error};
use crate::image::Image;
use crate::turns::Turns;

/// What marks a layout.
const MARKER: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;

/// Bytes that are hashed at once.
const PIECE: usize = 1 << 20;

/// Pieces that may wait to be written.
const AHEAD: usize = 32;

/// Why a blob is not there.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It could not be had.
    #[error(transparent)]
    Registry(#[from] Error),
    /// A file or a folder did not do as it should.
    #[error("{operation} {}", path.display())]
    File {
        /// `writing`, `reading`...
        operation: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// An image says that a blob has another size than it has.
    #[error("blob {digest} has {found} bytes; the image says {expected}")]
    Size {
        /// The blob, which is as it should be.
        digest: Digest,
        /// Its bytes.
        found: u64,
        /// What the image says.
        expected: u64,
    },
    /// What is there is not what its name says.
    #[error("reading {}: the content is {found}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What the content is.
        found: Digest,
    },
}

impl StoreError {
    /// Says whether there is no room left.
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
    /// Its name, or the one it is to have.
    pub digest: Digest,
    /// How many bytes there are.
    pub size: u64,
    /// When it was last written to.
    pub modified: SystemTime,
}

/// Blobs in a folder. Clones are the same.
#[derive(Debug, Clone)]
pub struct BlobStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Which downloads are under way, by their files.
    busy: Turns<PathBuf>,
    /// Names for what is small.
    number: AtomicU64,
}

impl BlobStore {
    /// The store in a folder, which is made if it is not there. One process at a time may have it.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let store = Self {
            inner: Arc::new(Inner {
                folder: folder.to_owned(),
                busy: Turns::default(),
                number: AtomicU64::new(0),
            }),
        };
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            make_folder(&folder.join("blobs").join(algorithm.name()))?;
        }
        let ingest = folder.join("ingest");
        make_folder(&ingest)?;
        // What a process before this one did not name.
        let wrong = |source| failed("emptying", &ingest, source);
        for entry in fs::read_dir(&ingest).map_err(wrong)? {
            let entry = entry.map_err(wrong)?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                fs::remove_file(entry.path()).map_err(wrong)?;
            }
        }
        let marker = folder.join("oci-layout");
        if !marker.exists() {
            // Not through a link to a file that is not there.
            let made = File::create_new(&marker);
            let done = made.and_then(|mut file| file.write_all(MARKER.as_bytes()));
            done.map_err(|source| failed("writing", &marker, source))?;
        }
        Ok(store)
    }

    /// Where a blob is, if it is there.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        self.inner.folder.join(digest.blob_path())
    }

    /// Where a download of a blob from the place of an image is kept.
    fn part(&self, descriptor: &Descriptor, image: &Image) -> PathBuf {
        let digest = &descriptor.digest;
        let download = Digest::sha256(format!("{} {}", descriptor.size, image.origin()).as_bytes());
        let tag = download.hash().get(..16).unwrap_or_default();
        let name = format!("{}-{}.{tag}", digest.algorithm(), digest.hash());
        self.inner.folder.join("ingest").join(name)
    }

    /// How large a blob is; none if it is not there.
    pub fn size(&self, digest: &Digest) -> Option<u64> {
        let found = fs::metadata(self.path(digest)).ok()?;
        found.is_file().then_some(found.len())
    }

    /// How many bytes have to come from the place of an image until a blob is there.
    pub fn missing(&self, descriptor: &Descriptor, image: &Image) -> u64 {
        if self.size(&descriptor.digest) == Some(descriptor.size) {
            return 0;
        }
        let part = fs::metadata(self.part(descriptor, image)).map_or(0, |part| part.len());
        descriptor.size.saturating_sub(part)
    }

    /// Keeps a small blob, such as a manifest.
    pub fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.size(digest) == Some(bytes.len() as u64) {
            return Ok(());
        }
        if let Err(mismatch) = digest.verify(bytes) {
            let (path, found) = (self.path(digest), mismatch.actual);
            return Err(StoreError::Damaged { path, found });
        }
        // Not the name of a download: several may keep the same at the same time.
        let number = self.inner.number.fetch_add(1, Ordering::Relaxed);
        let part = self.inner.folder.join(format!("ingest/.{number}"));
        let mut file = open(&part)?;
        file.write_all(bytes)
            .map_err(|source| failed("writing", &part, source))?;
        self.name(&file, &part, digest)
    }

    /// A small blob, whole and verified.
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

    /// Sees to it that a blob is there, downloading what is missing of it. Dropping this ends the
    /// download; what has come stays.
    pub async fn fetch(&self, descriptor: &Descriptor, image: &Image) -> Result<(), StoreError> {
        let part = self.part(descriptor, image);
        let mut guard = self.inner.busy.wait(&part).await;
        // What was there before may not be what it should have been: then once more, from the start.
        for _ in 0..2 {
            let (store, wanted, place) = (self.clone(), descriptor.clone(), part.clone());
            let begun = tokio::task::spawn_blocking(move || store.begin(&wanted, place, guard));
            let begun = begun.await.map_err(|error| interrupted(&part, &error))??;
            let Some(writer) = begun else {
                return Ok(());
            };
            match self.download(descriptor, image, writer).await? {
                Ended::Named => return Ok(()),
                Ended::Damaged(again) => guard = again,
            }
        }
        Err(failed("writing", &part, io::ErrorKind::InvalidData.into()))
    }

    async fn download(
        &self,
        descriptor: &Descriptor,
        image: &Image,
        writer: Writer,
    ) -> Result<Ended, StoreError> {
        let mut stream = image.blob(descriptor, writer.written)?;
        let part = writer.part.clone();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let store = self.clone();
        let writing = tokio::task::spawn_blocking(move || writer.run(&store, receiver));
        let mut failure = None;
        while let Some(piece) = stream.next().await {
            let message = match piece {
                Ok(piece) => Message::Piece(piece),
                Err(error) => {
                    // Only what is known to be something else goes. That a registry does not know a blob, or
                    // the caller, says nothing of what came before.
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
            // The writer says itself why it has gone.
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

    /// Opens what is there of a blob, and hashes it; none if the blob is there. Blocks.
    fn begin(
        &self,
        descriptor: &Descriptor,
        path: PathBuf,
        guard: OwnedMutexGuard<()>,
    ) -> Result<Option<Writer>, StoreError> {
        match self.size(&descriptor.digest) {
            Some(found) if found == descriptor.size => return Ok(None),
            // One that is as it should be is not fetched again because an image has its size wrong; one that
            // is damaged is.
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

    /// Gives what is complete its name. Blocks until it is on the disk.
    fn name(&self, file: &File, part: &Path, digest: &Digest) -> Result<(), StoreError> {
        let path = self.path(digest);
        file.sync_data()
            .map_err(|source| failed("writing", part, source))?;
        fs::rename(part, &path).map_err(|source| failed("naming", &path, source))?;
        let folder = path.parent().unwrap_or(&path);
        sync_folder(folder)
    }

    /// Says whether a blob is what its name says; one that is not is removed. Stops early when told to.
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

    /// Removes a blob and all downloads of it. For content that nothing needs and nothing is fetching.
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

    /// All blobs that are complete.
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

    /// All blobs of which a part is there.
    pub fn unfinished(&self) -> Result<Vec<Kept>, StoreError> {
        let mut found = Vec::new();
        let ingest = self.inner.folder.join("ingest");
        list(&ingest, &mut found, digest_of_part)?;
        Ok(found)
    }
}

/// What the one who writes is told.
enum Message {
    Piece(Bytes),
    Commit,
    Discard,
}

/// How writing ended.
enum Ended {
    /// The blob has its name.
    Named,
    /// It was something else, and has gone.
    Damaged(OwnedMutexGuard<()>),
}

/// A blob that is being written.
struct Writer {
    digest: Digest,
    part: PathBuf,
    file: File,
    written: u64,
    /// The stream verifies what is read from its beginning; else this does.
    hasher: Option<Hasher>,
    guard: OwnedMutexGuard<()>,
}

impl Writer {
    /// Writes what comes; none if it was neither told to commit nor to discard.
    fn run(
        mut self,
        store: &BlobStore,
        mut from: mpsc::Receiver<Message>,
    ) -> Result<Option<Ended>, StoreError> {
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
                        return Ok(Some(Ended::Damaged(self.guard)));
                    }
                    store.name(&self.file, &part, &self.digest)?;
                    return Ok(Some(Ended::Named));
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

/// Removes a file; none is no error.
fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("removing", path, error))
        }
        _ => Ok(()),
    }
}

/// The blob that a download is for, by the name of its file.
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

/// Hashes a file to its end, or until it is told to stop.
fn hash(file: &mut File, digest: &Digest, stop: Option<&AtomicBool>) -> io::Result<Hasher> {
    let mut hasher = digest.hasher();
    let mut piece = vec![0; PIECE];
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
        // It may have gone, or have been named, since.
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
