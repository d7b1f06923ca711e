//! Snapshots: the layers of an image unpacked over each other in one folder.
//!
//! A snapshot is built in a scratch folder and renamed once all layers are unpacked and verified. It is
//! named by its content (the chain id of the image specification), so images with the same layers share
//! it.

mod folders;
mod paths;
mod remove;
mod tree;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use disk::{Contents, Layer, Limits};
use platform::{Algorithm, Descriptor, Digest};

pub(crate) use remove::remove_tree;
pub(crate) use tree::{Tree, UnpackReservation};

/// The chain id of layers, from their diff-ids.
pub(crate) fn chain_id(diff_ids: &[Digest]) -> Digest {
    let mut diff_ids = diff_ids.iter();
    let Some(first) = diff_ids.next() else {
        return Digest::sha256(b"");
    };
    let chain = diff_ids.fold(first.clone(), |below, next| {
        Digest::sha256(format!("{below} {next}").as_bytes())
    });
    // A single layer is its own chain. All snapshots are in one folder, so other algorithms are
    // converted to SHA-256.
    if chain.algorithm() == Algorithm::Sha256 {
        chain
    } else {
        Digest::sha256(chain.to_string().as_bytes())
    }
}

/// A reader that fails once the pull is cancelled.
struct Cancellable<R> {
    from: R,
    stop: Arc<AtomicBool>,
}

impl<R: Read> Read for Cancellable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("cancelled"));
        }
        self.from.read(buffer)
    }
}

/// Unpacks a layer over those already unpacked.
pub(crate) fn apply(
    tree: &mut Tree,
    layer: &Descriptor,
    diff_id: &Digest,
    from: impl Read + Send + 'static,
    stop: &Arc<AtomicBool>,
) -> Result<(), disk::Error> {
    let layer = Layer {
        digest: layer.digest.clone(),
        is_verified: true,
        size: Some(layer.size),
        diff_id: Some(diff_id.clone()),
        contents: Contents::Archive,
    };
    let from = Cancellable {
        from,
        stop: Arc::clone(stop),
    };
    tree.next_layer();
    disk::extract(&layer, Box::new(from), Limits::default(), tree)
}

/// A folder being built; removed on drop unless it was renamed.
#[derive(Debug)]
pub(crate) struct Scratch(Option<PathBuf>);

impl Scratch {
    pub(crate) fn new(path: PathBuf) -> io::Result<Self> {
        remove_tree(&path)?;
        fs::create_dir(&path)?;
        Ok(Self(Some(path)))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or_else(|| Path::new(""))
    }

    /// An unlinked temporary file beside the folder; freed when closed.
    pub(crate) fn spool(&self) -> io::Result<File> {
        let path = self.path().join("spool");
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// Renames it to its final path.
    pub(crate) fn name(mut self, to: &Path) -> io::Result<()> {
        let from = self.0.take().unwrap_or_default();
        fs::rename(&from, to).inspect_err(|_| self.0 = Some(from))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0
            && let Err(error) = remove_tree(path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove an incomplete snapshot");
        }
    }
}
