//! Results of an import as the golden image pipeline needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use disk::FileSink;
use golden_images::cdi::data_volume::Report;
use golden_images::cdi::failure::Failure;
use golden_images::cdi::outcome::labels_of;
use oci::{Client, Image, Keyring};
use platform::{Source, known_architecture};

use crate::choose::Chosen;
use crate::error::Error;
use crate::import::Imported;
use crate::inspect::platforms;

impl Error {
    /// The failure as reason and message for conditions.
    pub fn failure(&self) -> Failure {
        Failure::new(self.reason(), told(self))
    }
}

/// An error and its causes in one sentence; a cause that the message already contains is not repeated.
pub fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

impl Chosen {
    /// The labels the image sets on its volume.
    pub fn labels(&self) -> BTreeMap<String, String> {
        labels_of(self.config.env.iter().map(String::as_str))
    }
}

impl Imported {
    /// The report on the disk, with the labels of its image.
    pub fn report(&self, labels: BTreeMap<String, String>) -> Report {
        let sniffed = self.sniffed.iter().flat_map(|it| &it.architectures);
        Report {
            content: Some(self.disk.content.as_str().to_owned()),
            sniffed: sniffed.map(|it| (*it).to_owned()).collect(),
            labels,
        }
    }
}

/// The architecture to import if none is requested: that of an image for a single architecture, else
/// that of this host, as CDI does. A file does not state one.
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

/// The architectures a disk boots on; empty if it has no recognised boot loader. The file must not
/// change meanwhile.
pub fn boots_on(path: &Path) -> Result<BTreeSet<String>, Error> {
    let failed = |source| Error::File {
        operation: "looking at",
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    let mut sink = FileSink::new(file, None).map_err(failed)?;
    let sniffed = disk::sniff(&mut sink, size).map_err(|source| Error::Disk {
        image: path.display().to_string(),
        source: source.into(),
    })?;
    let found = sniffed.architectures.into_iter();
    Ok(found.map(str::to_owned).collect())
}
