//! Reads the files of one folder of an image, such as the manifests of a release payload.

use std::collections::BTreeMap;

use disk::{Folder, FolderLimits, Limits};
use oci::Image;
use oci::resolve::{Chosen, choose};
use tokio::runtime::Handle;

use crate::error::Error;

/// Limits: release payloads have about a thousand files and ten megabytes.
const FOLDER_LIMITS: FolderLimits = FolderLimits {
    files: 20_000,
    // Several times the largest release payload. Beyond it, the image is not a payload, and the operator that reads
    // it must not run out of memory.
    bytes: 64 << 20,
    unpack: Limits {
        unpacked: 16 << 30,
        ratio: 2_000,
        free: 1 << 30,
        window_log: 25,
    },
};

/// Reads the files of a folder in the image of one architecture, by name, and returns which image that
/// was. `name` names the image in errors.
pub async fn folder(
    image: &Image,
    name: &str,
    architecture: &str,
    path: &str,
) -> Result<(Chosen, BTreeMap<String, Vec<u8>>), Error> {
    let chosen = choose(image, name, architecture).await?;
    let layers: Vec<_> = chosen
        .manifest
        .layers
        .iter()
        .map(|layer| {
            let reader = image.reader(layer, 0, Handle::current());
            (layer.digest.to_string(), reader)
        })
        .collect();
    let mut folder = Folder::new(path, FOLDER_LIMITS);
    let read = tokio::task::spawn_blocking(move || {
        for (digest, reader) in layers {
            folder.layer(&digest, reader)?;
        }
        Ok::<_, disk::Error>(folder.files())
    });
    let files = read.await.map_err(|error| Error::Thread {
        image: name.to_owned(),
        why: error.to_string(),
    })?;
    let files = files.map_err(|source| Error::Disk {
        image: name.to_owned(),
        source: Box::new(source),
    })?;
    Ok((chosen, files))
}
