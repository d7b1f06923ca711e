//! Results of an import as the golden image pipeline needs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use disk::FileSink;
use golden_images::cdi::data_volume::Report;
use golden_images::cdi::outcome::labels_of;
use oci::resolve::Chosen;

use crate::error::Error;
use crate::import::Imported;

/// The labels an image sets on its volume.
pub fn volume_labels(chosen: &Chosen) -> BTreeMap<String, String> {
    labels_of(chosen.config.env.iter().map(String::as_str))
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
